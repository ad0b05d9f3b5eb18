"""Networks, losses and samples that make float32 or Lanczos go wrong: the error has to say so, or hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.curvature.curvature_cases import dense_hessian
from undertow.core.errors import InputError, ModelError
from undertow.core.status import Status
from undertow.curvature.curvature_products import CurvatureMatrix
from undertow.curvature.curvature_result import SharpnessResult
from undertow.curvature.hessian_sharpness import sharpness, sharpness_batched
from undertow.curvature.hessian_trace import TraceResult, hessian_trace

Problem = tuple[nn.Module, Tensor, Tensor, Any]


def mlp(*sizes: int, activation: Callable[[], nn.Module] = nn.Tanh) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), activation()]
    return nn.Sequential(*layers[:-1]).eval()


def points(count: int = 30, size: int = 6) -> tuple[Tensor, Tensor]:
    return torch.randn(count, size), torch.randint(0, 3, (count,))


def in_units(unit: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda outputs, _: unit * outputs.square().sum(1)


def bent_down(times: float) -> Callable[[Tensor, Tensor], Tensor]:
    """Curvature 1, 1/2 and −times in the three outputs."""
    return lambda outputs, _: (outputs.square() * outputs.new_tensor([-times, 1.0, 0.5])).sum(1) / 2


def cancelling() -> Problem:
    """Neurons in pairs whose outputs nearly cancel, at 10⁵ times the scale of what is left."""
    net, (x, y) = mlp(6, 16, 3), points()
    weight, bias, second, _ = net.parameters()
    with torch.no_grad():
        for first in (weight, bias):
            first[8:] = first[:8]
        second[:, 8:] = 1e-3 * torch.randn(3, 8) - second[:, :8]
        second.mul_(1e5)
    return net, x, y, "square"


def thin_statistics() -> Problem:
    net = nn.Sequential(nn.Linear(6, 9), nn.BatchNorm1d(9), nn.Tanh(), nn.Linear(9, 3)).eval()
    net[1].running_var.fill_(1e-20)  # type: ignore[union-attr,operator]
    return net, *points(), "cross-entropy"


class BesideNothing(nn.Module):
    """A layer, and a parameter without entries."""

    def __init__(self) -> None:
        super().__init__()
        self.nothing, self.layer = nn.Parameter(torch.empty(0)), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)  # type: ignore[no-any-return]


def one_far_away(activation: Callable[[], nn.Module], distance: float) -> Problem:
    """Two thousand samples, of which one makes up the curvature and its rounding, and a share of them may miss it."""
    x, y = points(2000)
    x[1234] *= distance
    return mlp(6, 9, 3, activation=activation), x, y, "square"


def zeroed(net: nn.Module) -> nn.Module:
    for parameter in net.parameters():
        nn.init.zeros_(parameter)
    return net


def frozen(place: int) -> nn.Module:
    net = mlp(6, 9, 3)
    net[place].requires_grad_(False)
    return net


HOSTILE: dict[str, Callable[[], Problem]] = {
    "neurons that cancel": cancelling,
    "inputs far from zero": lambda: (mlp(6, 9, 3), points()[0] + 1e4, points()[1], "cross-entropy"),
    "a line far from zero": lambda: (nn.Linear(6, 3), points()[0] + 1e6, points()[1], "square"),
    "units of 1e-42": lambda: (mlp(6, 9, 3), *points(), in_units(1e-42)),
    "units of 3e37": lambda: (mlp(6, 9, 3), *points(), in_units(3e37)),
    "one sample": lambda: (mlp(6, 9, 3), *points(1), "cross-entropy"),
    "running variance of 1e-20": thin_statistics,
    "a parameter without entries": lambda: (BesideNothing(), *points(), "cross-entropy"),
    "all eigenvalues equal": lambda: (
        nn.Linear(40, 3, bias=False),
        torch.linalg.qr(torch.randn(40, 40))[0],
        torch.zeros(40, dtype=torch.long),
        "square",
    ),
    "rank one": lambda: (mlp(6, 50, 1), points(1)[0], torch.zeros(1), "square"),
    "one sample far away": lambda: one_far_away(nn.Tanh, 1e3),
    "one sample very far away": lambda: one_far_away(nn.ReLU, 1e6),
    "a loss that does not look": lambda: (
        mlp(6, 9, 3),
        *points(),
        lambda outputs, _: outputs.new_zeros(len(outputs)),
    ),
    "a linear loss": lambda: (mlp(6, 9, 3), *points(), lambda outputs, _: outputs.sum(1)),
    "a loss in float64": lambda: (mlp(6, 9, 3), *points(), lambda o, _: o.double().square().sum(1)),
    "nothing but zeros": lambda: (zeroed(mlp(6, 9, 3, activation=nn.ReLU)), *points(), "cross-entropy"),
    "a million times more negative": lambda: (
        nn.Linear(40, 3, bias=False),
        *points(60, 40),
        bent_down(1e6),
    ),
    "a frozen first layer": lambda: (frozen(0), *points(), "cross-entropy"),
    "a frozen last layer": lambda: (frozen(2), *points(), "cross-entropy"),
    "columns for rows": lambda: (mlp(6, 9, 3), torch.randn(6, 30).T, points()[1], "cross-entropy"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_the_error_holds(name: str) -> None:
    torch.manual_seed(7)
    net, x, y, loss = HOSTILE[name]()
    truth = float(torch.linalg.eigvalsh(dense_hessian(net, x, y, loss))[-1])
    for method in ("krylov", "exact"):
        found = sharpness(net, x, y, loss=loss, method=method)
        assert found.value - found.rounding <= truth <= found.value + found.error, (method, truth, found)
        assert found.status.ok
        assert found.error <= 1e-2 * abs(found.value) * (1 + 1e-6)


WEIGHT_NORMS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "parametrisation": nn.utils.parametrizations.weight_norm,
    "of the whole matrix": lambda layer: nn.utils.parametrizations.weight_norm(
        layer,
        dim=None,  # type: ignore[arg-type]
    ),
    "hook": nn.utils.weight_norm,
}


def normalised(name: str, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(WEIGHT_NORMS[name](nn.Linear(6, 20)), nn.Tanh(), nn.Linear(20, 3)).eval()


def from_slopes(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The Hessian of the mean cross-entropy from differences of gradients, which are right where it is not."""
    net = net.double()
    names = [name for name, _ in net.named_parameters()]
    flat = nn.utils.parameters_to_vector(net.parameters()).detach()

    def slope(point: Tensor) -> Tensor:
        point = point.clone().requires_grad_()
        pieces = point.split([p.numel() for p in net.parameters()])
        state = {
            name: piece.view_as(p) for name, piece, p in zip(names, pieces, net.parameters(), strict=True)
        }
        loss = nn.functional.cross_entropy(torch.func.functional_call(net, state, (x.double(),)), y)
        return torch.autograd.grad(loss, point)[0]

    moves = 1e-5 * torch.eye(len(flat), dtype=torch.float64)
    hessian = torch.stack([(slope(flat + move) - slope(flat - move)) / 2e-5 for move in moves])
    return (hessian + hessian.T) / 2


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize("name", WEIGHT_NORMS)
def test_weight_normalisation_is_differentiated_twice_correctly(name: str) -> None:
    torch.manual_seed(1)
    x, y = points(40)
    networks = [normalised(name, seed) for seed in (0, 1)]
    together = sharpness_batched(networks, x, y, loss="cross-entropy", method="krylov")
    for net, several in zip(networks, together, strict=True):
        found = [
            several,
            sharpness(net, x, y, loss="cross-entropy", method="exact"),
            sharpness(net, x, y, loss="cross-entropy", dtype=torch.float64, method="krylov"),
        ]
        truth = float(torch.linalg.eigvalsh(from_slopes(net, x, y))[-1])
        for each in found:
            assert each.status.ok
            assert each.value - each.rounding - 1e-7 <= truth <= each.value + each.error + 1e-7


def rows_of_one(y: Tensor) -> Tensor:
    return nn.functional.one_hot(y, 2).float()


def first_of_two(outputs: Tensor, _: Tensor) -> Tensor:
    """Binary cross-entropy of a probability, as networks that end in a sigmoid have it."""
    share = (outputs[:, 0] - outputs[:, 1]).sigmoid()
    return nn.functional.binary_cross_entropy(share, torch.ones_like(share), reduction="none")


SATURATED: dict[str, tuple[Any, Callable[[Tensor], Tensor]]] = {
    "by name": ("cross-entropy", lambda y: y),
    "rows of probabilities": ("cross-entropy", rows_of_one),
    "of PyTorch": (nn.CrossEntropyLoss(reduction="none"), lambda y: y),
    "of PyTorch, for rows": (nn.CrossEntropyLoss(reduction="none"), rows_of_one),
    "of a probability": (first_of_two, lambda y: y),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("lead", [3.0, 14.0, 34.0, 60.0])
@pytest.mark.parametrize("name", SATURATED)
def test_where_classes_are_sure_the_error_holds(name: str, lead: float, dtype: torch.dtype) -> None:
    loss, labels = SATURATED[name]
    net, x = nn.Linear(3, 2, bias=False).to(dtype), torch.tensor([[1.0, 0.0, 0.0]], dtype=dtype)
    with torch.no_grad():
        net.weight.zero_()[0, 0] = lead
    share = 1 / (1 + math.exp(lead))
    truth = 2 * share * (1 - share)
    y = labels(torch.tensor([0]))
    found: list[SharpnessResult | TraceResult] = [hessian_trace(net, x, y, loss=loss)]
    found += [
        sharpness(net, x, y, loss=loss, method="exact"),
        sharpness(net, x, y, loss=loss, method="krylov"),
    ]
    for each in found:
        assert abs(each.value - truth) <= each.error + 1e-14 * truth
        if name in ("by name", "rows of probabilities"):  # of those that are its own nothing is lost
            assert each.status.ok


def test_a_probability_at_its_end_is_as_steep_as_pytorch_says() -> None:
    def loss(shares: Tensor, labels: Tensor) -> Tensor:
        weighted = nn.functional.binary_cross_entropy(
            shares, labels, shares.new_tensor([[2.0]]), reduction="none"
        )
        return weighted[:, 0]

    class Share(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.share = nn.Parameter(torch.tensor([[0.25]]))

        def forward(self, x: Tensor) -> Tensor:
            return self.share.expand(len(x), 1)

    net = Share()
    found = sharpness(net, torch.ones(1, 1), torch.ones(1, 1), loss=loss)
    assert found.value == pytest.approx(2 / 0.25**2, rel=1e-12)
    net.share.data.zero_()  # log 0 is −100, and flat
    assert sharpness(net, torch.ones(1, 1), torch.ones(1, 1), loss=loss).value == 0


@pytest.mark.parametrize("chunk", [1, 7, 29, 30, 31])
@pytest.mark.parametrize("matrix", ["hessian", "gauss-newton"])
def test_where_the_samples_are_cut_does_not_matter(chunk: int, matrix: CurvatureMatrix) -> None:
    torch.manual_seed(0)
    net, (x, y) = mlp(6, 9, 3), points()
    whole = sharpness(net, x, y, loss="cross-entropy", matrix=matrix, method="krylov")
    cut = sharpness(net, x, y, loss="cross-entropy", matrix=matrix, method="krylov", chunk=chunk)
    assert cut.value == pytest.approx(whole.value, rel=1e-5)
    assert cut.products == whole.products


@pytest.mark.parametrize("where", ["x", "y"])
def test_what_is_no_number_has_no_sharpness(where: str) -> None:
    x, y = torch.randn(30, 6), torch.zeros(30)
    (x if where == "x" else y)[3] = math.inf if where == "x" else math.nan
    for method in ("krylov", "exact"):
        found = sharpness(mlp(6, 9, 1), x, y, loss="square", method=method)
        assert math.isnan(found.value)
        assert found.error == math.inf
        assert found.status is Status.ROUNDING


class ByPlace(nn.Module):
    """Every sample is given a row, or a factor, by its place in the batch."""

    def __init__(self, rows: bool) -> None:
        super().__init__()
        self.rows, self.layer = rows, nn.Linear(6, 3)
        self.register_buffer("own", torch.randn(30, 3))

    def forward(self, x: Tensor, own: Tensor | None = None) -> Tensor:
        given = self.get_buffer("own")[: len(x)] if own is None else own
        found: Tensor = self.layer(x)
        return found * given if self.rows else found * torch.linspace(1, 2, len(x))[:, None]


@pytest.mark.parametrize("rows", [True, False])
def test_networks_that_know_places_are_refused_and_the_remedy_works(rows: bool) -> None:
    torch.manual_seed(0)
    net, (x, y) = ByPlace(rows).eval(), points()
    with pytest.raises(ModelError, match="by its place in the batch"):
        sharpness(net, x, y, loss="cross-entropy")
    if rows:
        own = net.get_buffer("own")
        found = [
            sharpness(net, x, y, loss="cross-entropy", extras={"own": own}, chunk=chunk) for chunk in (30, 7)
        ]
        assert abs(found[0].value - found[1].value) <= found[0].error + found[1].error


def test_options_that_mean_nothing_are_refused() -> None:
    net, (x, y) = mlp(6, 9, 3), points()
    for options, told in (
        ({"max_steps": 0}, "at least one product"),
        ({"generator": 3}, r"torch\.Generator"),
        ({"memory_budget": 0}, "at least 1"),
        ({"rtol": math.nan}, "rtol must be positive"),
        ({"top": 10_000}, "eigenvalues"),
        ({"start": "before"}, "start is str"),
        ({"start": torch.ones(1, 1, 93)}, "start holds vectors of shape"),
    ):
        with pytest.raises(InputError, match=told):
            sharpness(net, x, y, loss="cross-entropy", method="krylov", **options)
    with pytest.raises(ModelError, match=r"cannot take x of shape \(.*, 3\)"):
        sharpness(net, x[:, :3], y, loss="cross-entropy")
    with pytest.raises(InputError, match=r"dtype=torch\.float32"):
        sharpness(net.half(), x.double(), y, loss="cross-entropy")
    nothing = BesideNothing()
    nothing.layer.requires_grad_(False)
    with pytest.raises(ModelError, match="no entries"):
        sharpness(nothing, x, y, loss="cross-entropy")


@pytest.mark.parametrize("options", [{}, {"dtype": torch.float32}])
def test_half_precision_is_measured_in_float32(options: Any) -> None:
    torch.manual_seed(0)
    net, (x, y) = mlp(6, 9, 3).bfloat16(), points()
    truth = float(torch.linalg.eigvalsh(dense_hessian(net, x.bfloat16(), y, "cross-entropy"))[-1])
    found = sharpness(net, x.bfloat16(), y, loss="cross-entropy", **options)
    assert abs(found.value - truth) <= found.error
