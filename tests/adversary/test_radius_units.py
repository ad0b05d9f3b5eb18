"""Radii relative to the units of the input are the same in every unit, for every scale and offset of the logits."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.adversary.cases import decisions, mlp, points
from undertow.adversary import Classifier, robustness
from undertow.adversary.attacks.line import first_crossing
from undertow.adversary.certificates.certified import certified_radii
from undertow.adversary.certificates.network_graph import graph_of
from undertow.adversary.closest import closest_examples
from undertow.adversary.exact.branching import exact_distance
from undertow.adversary.exact.two_layer_gaps import two_layer_of

UNITS = (1e-9, 1.0, 1e9, *(pytest.param(unit, marks=pytest.mark.full) for unit in (1e-6, 1e6, 1e7, 1e8)))


def in_units(net: nn.Sequential, unit: float) -> nn.Sequential:
    """The same network for inputs that are written in other units: ``unit`` where there was 1."""
    scaled, first = copy.deepcopy(net), net[0]
    assert isinstance(first, nn.Linear)
    scaled[0].weight.copy_(first.weight / unit)  # type: ignore[operator, union-attr]
    return scaled


def cases() -> list[tuple[nn.Sequential, Tensor, Tensor]]:
    found = []
    for seed, (outputs, width, slope) in enumerate(((1, 6, 0.0), (3, 8, 0.0), (4, 6, 0.2))):
        net, x = mlp(seed, outputs=outputs, width=width, slope=slope), points(seed, 4)
        found.append((net, x, decisions(net, x)))
    return found


def chain(net: nn.Module, x: Tensor):  # type: ignore[no-untyped-def]
    graph = graph_of(Classifier(net), net, x)
    assert graph is not None
    return graph


def solved(
    net: nn.Module, x: Tensor, y: Tensor, norm: float, box: tuple[float, float] | None = None
) -> list[float]:
    two_layer = two_layer_of(chain(net, x), x[:1])
    assert two_layer is not None
    return [
        exact_distance(two_layer, point, label, norm=norm, upper=math.inf, box=box, seconds=20).upper
        for point, label in zip(x.numpy(), y.tolist(), strict=True)
    ]


@pytest.mark.parametrize("norm", [2.0, math.inf])
@pytest.mark.parametrize("box", [None, (-1.0, 1.0)])
@pytest.mark.parametrize("unit", UNITS)
def test_exact_radii_are_in_the_units_of_the_input(
    norm: float, box: tuple[float, float] | None, unit: float
) -> None:
    for net, x, y in cases():
        there = None if box is None else (unit * box[0], unit * box[1])
        found = np.array(solved(in_units(net, unit), unit * x, y, norm, there)) / unit
        assert found == pytest.approx(solved(net, x, y, norm, box), rel=1e-6)


@pytest.mark.parametrize("norm", [2.0, math.inf])
@pytest.mark.parametrize("unit", UNITS)
def test_certificates_are_in_the_units_of_the_input(norm: float, unit: float) -> None:
    deep = nn.Sequential(nn.Linear(4, 9), nn.ReLU(), nn.Linear(9, 7), nn.LeakyReLU(0.1), nn.Linear(7, 3))
    generator = torch.Generator().manual_seed(0)
    for parameter in deep.double().requires_grad_(False).parameters():
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        parameter.copy_(noise / parameter.shape[-1] ** 0.5)
    more = points(7, 8)
    for net, x, y in [*cases(), (deep, more, decisions(deep, more))]:
        other = in_units(net, unit)
        found = certified_radii(chain(other, unit * x), unit * x, y, norm) / unit
        assert torch.allclose(found, certified_radii(chain(net, x), x, y, norm), rtol=1e-6)


@pytest.mark.parametrize("norm", [2.0, math.inf])
@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_the_whole_bracket_is_in_the_units_of_the_input(norm: float, unit: float) -> None:
    net, x, y = cases()[1]
    here = robustness(net, x, y, norm=norm, bounds=(-1.0, 1.0))
    there = robustness(in_units(net, unit), unit * x, y, norm=norm, bounds=(-unit, unit))
    assert here.contradictions == there.contradictions == ()
    for side in ("certified", "estimate", "attacked", "exact", "rounding"):
        assert torch.allclose(getattr(there, side) / unit, getattr(here, side), rtol=1e-6, atol=0), side


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_closest_examples_are_in_the_units_of_the_input(dtype: torch.dtype, unit: float) -> None:
    """In float32 the weights are other ones in other units; they are the same to rounding."""
    net, x, y = cases()[1]
    here, _ = closest_examples(net.to(dtype), x.to(dtype), y)
    there, examples = closest_examples(in_units(net, unit).to(dtype), (unit * x).to(dtype), y)
    assert torch.allclose(there / unit, here, rtol=1e-6 if dtype == torch.float64 else 1e-4, atol=0)
    assert torch.allclose((examples.double() - unit * x).norm(dim=1), there, rtol=1e-4, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_crossings_of_a_line_are_in_the_units_of_the_input(dtype: torch.dtype, unit: float) -> None:
    hidden = torch.tensor([[3.0, -1.0], [1.0, 1.0], [2.0, 1.0]], dtype=dtype)
    slopes = torch.tensor([[-1.0, 1.0], [0.5, 1.0], [1.0, 1.0]], dtype=dtype)
    head = torch.tensor([1.0, -1.0], dtype=dtype)
    found = first_crossing(hidden * unit, slopes, head) / unit
    assert found.tolist() == pytest.approx(first_crossing(hidden, slopes, head).tolist(), rel=1e-5)
    assert found.tolist() == pytest.approx([2.0, 0.0, math.inf])
    behind = first_crossing(
        unit * torch.tensor([[1.0, 4.0]], dtype=dtype), torch.tensor([[2.0, -3.0]], dtype=dtype), -head
    )
    assert float(behind) / unit == pytest.approx(0.6)


@pytest.mark.parametrize("norm", [2.0, math.inf])
@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_certified_and_exact_radii_do_not_depend_on_the_scale_of_the_logits(
    norm: float, factor: float
) -> None:
    for net, x, y in cases():
        scaled = copy.deepcopy(net)
        for parameter in scaled[2].parameters():
            parameter.mul_(factor)
        assert solved(scaled, x, y, norm) == pytest.approx(solved(net, x, y, norm), rel=1e-6)
        found, same = (certified_radii(chain(each, x), x, y, norm) for each in (scaled, net))
        assert torch.allclose(found, same, rtol=1e-6)


@pytest.mark.parametrize("norm", [2.0, math.inf])
def test_what_all_logits_have_in_common_costs_no_digits(norm: float) -> None:
    """A layer that adds 10¹² to every logit: twelve digits of a score, and none of a difference."""
    for net, x, y in cases()[1:]:
        classes = net[2].out_features
        assert isinstance(classes, int)
        offset = nn.Linear(classes, classes).double().requires_grad_(False)
        offset.weight.copy_(torch.eye(classes))
        offset.bias.fill_(1e12)
        shifted = nn.Sequential(*net, offset)
        exact = solved(shifted, x, y, norm)
        assert exact == pytest.approx(solved(net, x, y, norm), rel=1e-6)
        certified = certified_radii(chain(shifted, x), x, y, norm)
        assert torch.allclose(certified, certified_radii(chain(net, x), x, y, norm), rtol=1e-6)
        assert all(low <= high for low, high in zip(certified.tolist(), exact, strict=True))
        # As it is executed the network has lost those digits, and says by how much that may move a radius.
        found = robustness(shifted, x, y, norm=norm)
        assert found.contradictions == ()
        assert (found.rounding > 1e-6).all()


def test_an_offset_of_one_logit_that_is_taken_back_is_covered_by_the_proof() -> None:
    """f + 10¹² − 10¹²: f on paper, of which float64 keeps four digits. The certificate may lose them, not gain any."""
    net, x, y = cases()[0]
    up, down = (nn.Linear(1, 1).double().requires_grad_(False) for _ in range(2))
    for layer, value in ((up, 1e12), (down, -1e12)):
        layer.weight.fill_(1.0)
        layer.bias.fill_(value)
    certified = certified_radii(chain(nn.Sequential(*net, up, down), x), x, y, 2.0)
    assert (certified <= torch.tensor(solved(net, x, y, 2.0))).all()
