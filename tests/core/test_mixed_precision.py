"""Networks that accelerate has prepared for mixed precision are measured in the precision they hold."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import update_wrapper
from types import MethodType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import undertow as ut
from undertow.adversary.classifier import Classifier
from undertow.core.unwrapping import as_written, runs_autocast
from undertow.probe import Accuracy, Energy, Loss, SeamProfile


class ConvertOutputsToFp32:
    """As accelerate has it, by name and by what it keeps."""

    def __init__(self, model_forward: Callable[..., Any]) -> None:
        self.model_forward = model_forward
        update_wrapper(self, model_forward)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        output = self.model_forward(*args, **kwargs)
        return output.float() if output.dtype == torch.bfloat16 else output


def converting(model_forward: Callable[..., Any]) -> Callable[..., Any]:
    model_forward = ConvertOutputsToFp32(model_forward)

    def forward(*args: Any, **kwargs: Any) -> Any:
        return model_forward(*args, **kwargs)

    forward.__wrapped__ = model_forward  # type: ignore[attr-defined]
    return forward


def prepared(net: nn.Module) -> nn.Module:
    """Line by line what ``Accelerator(mixed_precision="bf16").prepare`` does to a module."""
    autocast = torch.autocast("cpu", dtype=torch.bfloat16)
    vars(net)["_original_forward"] = net.forward  # which is where setting it puts it
    net.forward = MethodType(autocast(net.forward.__func__), net)  # type: ignore[attr-defined]
    net.forward = MethodType(converting(net.forward.__func__), net)
    return net


def by_accelerate(net: nn.Module) -> nn.Module:
    accelerate = pytest.importorskip("accelerate")
    made: nn.Module = accelerate.Accelerator(cpu=True, mixed_precision="bf16").prepare(net)
    return made


class Residual(nn.Module):
    """No chain of layers: what measures it has to call it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(20, 20), nn.Linear(20, 20), nn.Linear(20, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.first(x))
        return self.last(h + torch.tanh(self.second(h)))  # type: ignore[no-any-return]


def network(kind: str) -> nn.Module:
    torch.manual_seed(0)
    if kind == "residual":
        return Residual().eval()
    wide = 100 if kind == "wide" else 3
    return nn.Sequential(nn.Linear(20, 100), nn.Tanh(), nn.Linear(100, wide)).eval()


X = torch.randn(8, 20, generator=torch.Generator().manual_seed(1))
Y = (X[:, 0] > 0).long()
MEASURES: dict[str, Callable[[nn.Module], Any]] = {
    "norms": lambda net: ut.jacobian_norms(net, X).value,
    "energy": lambda net: ut.energy(net, X).value,
    "seam profile": lambda net: ut.seam_profile(net, X).co_correlation,
    "sharpness": lambda net: ut.sharpness(net, X, Y, loss="cross-entropy").value,
    "margins": lambda net: ut.margins(net, X, Y).smallest,
    "scores": lambda net: Classifier(net).margins(X, Y),
    "certificates": lambda net: ut.robustness(net, X[:2], Y[:2], attack="fast", refine=False).certified,
    "lipschitz": lambda net: ut.lipschitz(net, X[:2], radius=0.1).upper,
}


@pytest.mark.parametrize("prepare", [prepared, by_accelerate])
@pytest.mark.parametrize("kind", ["chain", "residual"])
@pytest.mark.parametrize("measure", MEASURES)
def test_measures_are_those_of_the_network_before(
    measure: str, kind: str, prepare: Callable[[nn.Module], nn.Module]
) -> None:
    plain, mixed = network(kind), prepare(network(kind))
    forward, output = mixed.forward, mixed(X)
    assert not torch.equal(output, plain(X))  # or there is nothing to undo
    expected, found = MEASURES[measure](plain), MEASURES[measure](mixed)
    if isinstance(expected, Tensor):
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9)
    else:
        assert found == pytest.approx(expected, rel=1e-6)
    assert vars(mixed)["forward"] is forward
    assert torch.equal(mixed(X), output)


def test_errors_cover_where_products_would_be_rounded_to_eight_bits() -> None:
    plain, mixed = network("wide"), prepared(network("wide"))
    found, truth = ut.jacobian_norms(mixed, X), ut.jacobian_norms(plain, X, dtype=torch.float64)
    assert bool(((found.value - truth.value).abs() <= found.error + truth.error).all())


def test_a_probe_reads_what_it_reads_of_the_network_before() -> None:
    measures: list[Any] = [Accuracy(), Loss(), Energy(), SeamProfile()]
    plain, mixed = network("chain"), prepared(network("chain"))
    expected, found = (ut.Probe(net, X, Y, measures=measures).records for net in (plain, mixed))
    assert [each.key for each in found] == [each.key for each in expected]
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.value == pytest.approx(theirs.value, rel=1e-6), mine.key


def test_the_networks_own_forward_comes_back_after_an_error() -> None:
    net = prepared(network("chain"))
    forward = net.forward
    with pytest.raises(RuntimeError, match="shapes"), as_written(net.modules()):
        net(X[:, :3])
    assert vars(net)["forward"] is forward
    assert runs_autocast(net)


def test_copies_are_undone_by_themselves() -> None:
    copied = copy.deepcopy(prepared(network("chain")))
    with as_written(copied.modules()):
        assert torch.equal(copied(X), network("chain")(X))


def test_a_forward_that_somebody_else_keeps_under_that_name_stays() -> None:
    net = network("chain")
    vars(net)["_original_forward"] = original = net.forward
    net.forward = lambda x: 2 * original(x)  # type: ignore[method-assign]
    torch.testing.assert_close(ut.energy(net, X).value, 2 * ut.energy(network("chain"), X).value)
