"""Networks as training loops leave them: pruned, normalised by hooks, with checkpoints, made in inference mode."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import prune
from torch.utils.checkpoint import checkpoint

import undertow as ut
from undertow.core.errors import ModelError
from undertow.measures.weight_direction import DirectionOfWeights
from undertow.probe import Energy, StableRank

X = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(9) % 3


def _plain() -> nn.Sequential:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(4, 7), nn.Tanh(), nn.Linear(7, 6), nn.ReLU(), nn.Linear(6, 3))


class Checkpointed(nn.Module):
    """The same network, whose hidden part keeps nothing for its backward pass."""

    def __init__(self, net: nn.Sequential, *, reentrant: bool) -> None:
        super().__init__()
        self.net, self.reentrant = net, reentrant

    def forward(self, x: Tensor) -> Tensor:
        return self.net[3:](checkpoint(self.net[:3], x, use_reentrant=self.reentrant))  # type: ignore[no-any-return]


MEASURED: dict[str, Callable[[nn.Module, Tensor], Any]] = {
    "norms": lambda net, x: ut.jacobian_norms(net, x).value,
    "norms in float64": lambda net, x: ut.jacobian_norms(net, x, dtype=torch.float64).value,
    "energy": lambda net, x: ut.energy(net, x, Y, loss="cross-entropy").value,
    "margins": lambda net, x: ut.margins(net, x, Y).value,
    "kkt": lambda net, x: ut.kkt(net, x, Y).residual,
    "sharpness": lambda net, x: ut.sharpness(net, x, Y, loss="cross-entropy", rtol=1e-4).value,
    "radii": lambda net, x: ut.robustness(net, x[:2], Y[:2]).attacked,
    "robust accuracy": lambda net, x: ut.robust_accuracy(net, x, Y, eps=0.1).value,
}
EVERY = pytest.mark.parametrize("measured", MEASURED.values(), ids=MEASURED)


def _same(found: Any, expected: Any) -> None:
    torch.testing.assert_close(
        torch.as_tensor(found).double(), torch.as_tensor(expected).double(), rtol=1e-3, atol=1e-5
    )


@EVERY
@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.filterwarnings("ignore:None of the inputs")
def test_checkpoints_of_activations_are_measured_as_if_there_were_none(
    measured: Callable[..., Any], reentrant: bool
) -> None:
    net = Checkpointed(_plain(), reentrant=reentrant)
    _same(measured(net, X), measured(_plain(), X))
    x = X.clone().requires_grad_()
    net(x).sum().backward()  # and are checkpoints again
    assert x.grad is not None


def _masked() -> tuple[nn.Module, nn.Module]:
    """A network in the middle of a training that prunes it, and what its masks leave."""
    net, plain = _plain(), _plain()
    for at in (0, 2):
        prune.l1_unstructured(net[at], "weight", 0.4)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            plain[at].weight.mul_(net[at].weight_mask)  # type: ignore[operator,union-attr,arg-type]
    nn.functional.cross_entropy(net(X), Y).backward()  # type: ignore[no-untyped-call]
    return net, plain


@EVERY
def test_a_pruned_network_is_measured_as_its_masks_leave_it(measured: Callable[..., Any]) -> None:
    net, plain = _masked()
    if measured is MEASURED["sharpness"] or measured is MEASURED["kkt"]:
        measured(net, X)  # in the weights before their masks, which the other network does not have
    else:
        _same(measured(net, X), measured(plain, X))


def test_ranks_of_a_pruned_network_are_those_of_what_its_masks_leave() -> None:
    net, plain = _masked()
    found, expected = ut.stable_rank(net), ut.stable_rank(plain)
    assert list(found) == list(expected)
    assert [float(each) for each in found.values()] == pytest.approx(
        [float(each) for each in expected.values()]
    )


def test_a_network_that_keeps_its_computed_weights_is_followed() -> None:
    net, _ = _masked()
    probe = ut.Probe(net, X, Y, measures=[DirectionOfWeights(), Energy()], training=(X, Y, 0.1), every=1)
    net(X).sum().backward()
    probe.step()
    assert [record.step for record in probe.records if record.measure == "energy"] == [0, 1]


@EVERY
@pytest.mark.parametrize("made", ["network", "points", "neither"])
def test_inference_mode_around_a_measure_or_its_network_changes_nothing(
    measured: Callable[..., Any], made: str
) -> None:
    expected = measured(_plain().eval(), X)
    net, x = _plain().eval(), X
    with torch.inference_mode():
        net = _plain().eval() if made == "network" else net
        x = X.clone() if made == "points" else x
        inside = measured(net, x)
    _same(inside, expected)
    _same(measured(net, x), expected)


def test_a_probe_measures_within_inference_mode() -> None:
    probe = ut.Probe(_plain(), X, Y, measures=[Energy(), StableRank()], every=1)
    with torch.inference_mode():
        found = probe.step()
    assert [record.value for record in found] == [
        record.value for record in probe.records if record.step == 0
    ]
    assert copy.deepcopy(probe).step() == probe.step()


class Merging(nn.Linear):
    """A layer with an update of low rank, which loralib adds to the weight where the layer leaves train mode."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.down, self.up = (nn.Parameter(torch.randn(*shape)) for shape in ((2, inputs), (outputs, 2)))
        self.merged = False

    def train(self, mode: bool = True) -> Merging:
        super().train(mode)
        if mode == self.merged:
            self.weight.data += (-1 if mode else 1) * (self.up @ self.down)
            self.merged = not mode
        return self

    def forward(self, x: Tensor) -> Tensor:
        whole = super().forward(x)
        return whole if self.merged else whole + x @ self.down.T @ self.up.T


@EVERY
def test_a_network_that_changes_its_weights_for_eval_mode_keeps_them(measured: Callable[..., Any]) -> None:
    torch.manual_seed(2)
    net = nn.Sequential(Merging(4, 6), nn.Tanh(), Merging(6, 3)).train()
    before = copy.deepcopy(net.state_dict())
    probe = ut.Probe(net, X, Y, measures=[Energy(), StableRank()])
    measured(net, X)
    ut.seams(net, X)
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert not net[0].merged
    assert probe.records[0].value == pytest.approx(ut.energy(copy.deepcopy(net).eval(), X).value, rel=1e-4)


def test_an_exported_network_is_measured_or_refused_in_a_sentence() -> None:
    batch = {0: torch.export.Dim("batch")}
    net = torch.export.export(_plain(), (X,), dynamic_shapes=(batch,)).module()
    for name, measured in MEASURED.items():
        if name != "radii":
            _same(measured(net, X), measured(_plain(), X))
    assert ut.Probe(net, X, Y, measures=[Energy()]).records[0].value == pytest.approx(
        ut.energy(_plain(), X).value
    )
    fixed = torch.export.export(_plain(), (X,)).module()
    with pytest.raises(ModelError, match=r"takes these 9 samples and no other number.*dynamic_shapes"):
        ut.jacobian_norms(fixed, X)
    with pytest.raises(ModelError, match="cannot take x"):
        ut.sharpness(fixed, X, Y, loss="cross-entropy")


@EVERY
def test_layers_that_have_seen_no_batch_are_refused_in_a_sentence(measured: Callable[..., Any]) -> None:
    net = nn.Sequential(nn.LazyLinear(5), nn.Tanh(), nn.LazyLinear(3))
    with pytest.raises(ModelError, match=r"call net\(x\) once"):
        measured(net, X)
    net(X)
    measured(net, X)
