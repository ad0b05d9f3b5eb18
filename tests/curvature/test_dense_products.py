"""Products written by hand against those of autograd, and who is asked for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.curvature.curvature_cases import dense_gauss_newton, dense_hessian
from undertow.curvature import hessian_sharpness
from undertow.curvature.dense_products import dense_network
from undertow.curvature.hessian_sharpness import curvature_products, sharpness_batched
from undertow.curvature.hessian_trace import hessian_trace


def chain(*layers: Callable[[], nn.Module] | nn.Module) -> nn.Module:
    return nn.Sequential(*[layer if isinstance(layer, nn.Module) else layer() for layer in layers])


def steep(outputs: Tensor, labels: Tensor) -> Tensor:
    return outputs.square().sum(1).exp() / (1 + labels)


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Any]] = {
    "tanh": (
        lambda: chain(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 3)),
        "square",
    ),
    "relu in place": (
        lambda: chain(nn.Linear(5, 6), nn.ReLU(inplace=True), nn.Linear(6, 3)),
        "cross-entropy",
    ),
    "gelu without biases": (
        lambda: chain(nn.Linear(5, 4, bias=False), nn.GELU(), nn.Linear(4, 3, bias=False)),
        "cross-entropy",
    ),
    "activation of the outputs": (
        lambda: chain(nn.Linear(5, 4), nn.ELU(), nn.Linear(4, 3), nn.Sigmoid()),
        "square",
    ),
    "linear": (lambda: chain(nn.Linear(5, 4), nn.Linear(4, 4), nn.Linear(4, 3)), "square"),
    "dropout and identity": (
        lambda: chain(nn.Linear(5, 4), nn.Softplus(), nn.Dropout(), nn.Identity(), nn.Linear(4, 3)),
        steep,
    ),
    "one layer": (lambda: nn.Linear(5, 3), "cross-entropy"),
}


def problem(name: str, members: int = 1) -> tuple[list[nn.Module], Tensor, Tensor, Any]:
    torch.manual_seed(1)
    build, loss = NETWORKS[name]
    networks = [build().double().eval() for _ in range(members)]
    return networks, torch.randn(9, 5, dtype=torch.float64), torch.randint(0, 3, (9,)), loss


def whole(networks: Sequence[nn.Module], x: Tensor, y: Tensor, **options: Any) -> Tensor:
    """The matrices (M, P, P), column by column, and a check that they were written by hand."""
    with curvature_products(networks, x, y, **options) as (products, _):
        assert products._dense is not None
        rows = torch.eye(products.size, dtype=torch.float64)
        return torch.stack([products(row.expand(products.count, -1)) for row in rows], dim=2)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("matrix", ["hessian", "gauss-newton"])
@pytest.mark.parametrize("chunk", [None, 4])
def test_as_the_whole_matrix(name: str, matrix: str, chunk: int | None) -> None:
    networks, x, y, loss = problem(name, members=3)
    found = whole(networks, x, y, loss=loss, matrix=matrix, chunk=chunk)
    oracle = dense_hessian if matrix == "hessian" else dense_gauss_newton
    for member, net in enumerate(networks):
        torch.testing.assert_close(found[member], oracle(net, x, y, loss), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("parameters", [["0.weight"], ["2.bias"], ["2.weight", "4.bias"], ["4.weight"]])
def test_some_parameters_alone(parameters: list[str]) -> None:
    (net,), x, y, loss = problem("tanh")
    named = dict(net.named_parameters())
    everything = dense_hessian(net, x, y, loss)
    place, chosen = 0, []
    for name, parameter in named.items():
        chosen += list(range(place, place + parameter.numel())) if name in parameters else []
        place += parameter.numel()
    found = whole([net], x, y, loss=loss, parameters=parameters)[0]
    torch.testing.assert_close(found, everything[chosen][:, chosen], rtol=1e-9, atol=1e-11)


def test_several_directions_at_once() -> None:
    (net,), x, y, loss = problem("tanh")
    with curvature_products([net], x, y, loss=loss) as (products, _):
        vectors = torch.randn(5, products.size, dtype=torch.float64)
        one_by_one = torch.cat([products(vector[None]) for vector in vectors])
        assert products.products == 5
        torch.testing.assert_close(products.several(vectors), one_by_one)
        assert products.products == 10
    with curvature_products([net], x, y, loss=loss, memory_budget=1) as (products, _):
        torch.testing.assert_close(products.several(vectors), one_by_one)


@pytest.mark.parametrize("name", ["tanh", "dropout and identity"])
@pytest.mark.parametrize("matrix", ["hessian", "gauss-newton"])
def test_rows_stand_for_as_many_as_they_are_counted(name: str, matrix: Any) -> None:
    (net,), x, y, loss = problem(name)
    with curvature_products([net], x, y, loss=loss, matrix=matrix) as (products, _):
        vector = torch.randn(1, products.size, dtype=torch.float64)
        first, rest = (products.on_rows(torch.arange(*ends), torch.ones(1)) for ends in ((0, 4), (4, 9)))
        torch.testing.assert_close(first(vector) + rest(vector), products(vector))
        counted = products.on_rows(torch.arange(9), torch.tensor([2.5] * 4 + [1.0] * 5))
        torch.testing.assert_close(counted(vector), 1.5 * first(vector) + products(vector))
        assert products.products == 2


def test_networks_that_are_more_than_their_layers_go_through_autograd() -> None:
    x = torch.ones(2, 5)
    hooked = nn.Sequential(nn.Linear(5, 3))
    hooked.register_forward_hook(lambda *_: None)
    tied = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 5))
    tied[2].weight = tied[0].weight
    normed = nn.Sequential(nn.Linear(5, 3), nn.LayerNorm(3))
    parametric = nn.Sequential(nn.Linear(5, 3), nn.PReLU())
    for net in (hooked, tied, normed, parametric, nn.Sequential(nn.Conv1d(1, 1, 1), nn.Flatten())):
        assert dense_network(net, x) is None
    assert dense_network(nn.Linear(5, 3), torch.ones(2, 4, 5)) is None


def test_traces_do_not_depend_on_who_multiplies(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(20, 12), nn.Tanh(), nn.Linear(12, 3)).double()
    x, y = torch.randn(30, 20).double(), torch.randint(0, 3, (30,))
    by_hand = hessian_trace(net, x, y, loss="cross-entropy", probes=80)
    monkeypatch.setattr(hessian_sharpness, "dense_network", lambda *_: None)
    by_autograd = hessian_trace(net, x, y, loss="cross-entropy", probes=80)
    assert by_hand.value == pytest.approx(by_autograd.value, rel=1e-9)
    assert by_hand.error == pytest.approx(by_autograd.error, rel=1e-6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", ["tanh", "relu in place"])
def test_on_a_gpu_as_on_the_processor(name: str) -> None:
    networks, x, y, loss = problem(name, members=5)
    networks, x = [net.float() for net in networks], x.float()
    options: dict[str, Any] = {"loss": loss, "method": "krylov", "top": 2}
    here = sharpness_batched(networks, x, y, **options)
    traces = [hessian_trace(net, x, y, loss=loss, probes=48).value for net in networks]
    there = sharpness_batched([net.cuda() for net in networks], x.cuda(), y.cuda(), **options)
    again = [hessian_trace(net, x.cuda(), y.cuda(), loss=loss, probes=48).value for net in networks]
    assert [each.value for each in there] == pytest.approx([each.value for each in here], rel=1e-4)
    assert again == pytest.approx(traces, rel=1e-4)
    assert there[0].vectors.is_cuda
