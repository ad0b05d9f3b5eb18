"""The law for the stable rank, against networks built by hand and against training."""

from __future__ import annotations

import math

import pytest
import torch

from undertow.data.equal_cosines import equal_cosines
from undertow.models import Gaussian, two_layer
from undertow.models.sloped_two_layer import active_on_own_class
from undertow.studies.stable_rank.law.limits import leaky_limit, relu_limit
from undertow.theory.rank_law import pattern_limit


def stable_rank(matrix: torch.Tensor) -> float:
    singular = torch.linalg.svdvals(matrix.double())
    return float((singular / singular[0]).square().sum())


@pytest.mark.parametrize("slope", [0.01, 0.1, 0.5, 1.0])
@pytest.mark.parametrize(("positive", "negative"), [(5, 5), (3, 7), (1, 9)])
def test_formula_for_leaky_relu(positive: int, negative: int, slope: float) -> None:
    points = torch.eye(positive + negative, dtype=torch.float64)
    plus, minus = points[:positive].sum(0), points[positive:].sum(0)
    rows = torch.stack([plus - slope * minus, minus - slope * plus])
    assert leaky_limit(positive, negative, slope) == pytest.approx(stable_rank(rows), rel=1e-12)
    if positive == negative:
        assert leaky_limit(positive, negative, slope) == pytest.approx(
            2 * (1 + slope**2) / (1 + slope) ** 2, rel=1e-12
        )


@pytest.mark.parametrize("share", [0.3, 0.5, 1.0])
def test_formula_for_relu_in_the_limit_of_many_neurons(share: float) -> None:
    draw = torch.Generator().manual_seed(0)
    masks = (torch.rand(200_000, 10, generator=draw, dtype=torch.float64) < share).double()
    signs = torch.arange(200_000) % 2 == 0
    own = signs[:, None] == (torch.arange(10) < 5)
    assert relu_limit(5, 5, share) == pytest.approx(stable_rank(masks * own), rel=0.02)


def test_a_pattern_is_where_gradient_descent_ends_on_orthogonal_points() -> None:
    data = equal_cosines(n=8, d=20, positive=4)
    x, y = data.x.double(), 2.0 * data.y.double() - 1
    net = two_layer(
        inputs=20,
        width=30,
        init=Gaussian(1e-5),
        head="halves",
        dtype=torch.float64,
        generator=torch.Generator().manual_seed(4),
    )
    named = dict(net.named_parameters())
    weight, head = named["hidden.weight"].detach().clone(), named["output.weight"].detach()[0]
    own = (head[:, None] * y) > 0
    predicted = pattern_limit((own & (weight @ x.T > 0)).double(), head, x, y)
    for _ in range(20_000):  # ∇ log L, so that the loss becomes as small as need be
        inputs = weight @ x.T
        margins = y * (head @ inputs.relu())
        share = torch.softmax(-margins, 0)
        weight += 0.002 * head[:, None] * (((inputs > 0) * (share * y)) @ x)
    assert predicted is not None
    assert predicted.stable_rank == pytest.approx(stable_rank(weight), rel=0.02)
    assert predicted.least_multiplier > 0


def test_a_point_that_moves_no_neuron_has_no_limit() -> None:
    slopes = torch.tensor([[1.0, 0.0]])
    assert pattern_limit(slopes, torch.ones(1), torch.eye(2), torch.tensor([1, -1])) is None


def test_neurons_are_turned_on_their_class_and_no_more() -> None:
    data = equal_cosines(n=8, d=20, positive=3, cosine=0.2)
    x, y = data.x.double(), 2 * data.y - 1
    weight = torch.randn(10, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    signs = torch.cat([torch.ones(5), -torch.ones(5)])
    turned = active_on_own_class(weight, signs, x, y)
    before, after = weight @ x.T, turned @ x.T
    own = signs[:, None] == y
    torch.testing.assert_close(after[own], before[own].abs())
    # What is orthogonal to the class's points stays.
    basis = torch.linalg.svd(x[y == 1])[2][3:]
    torch.testing.assert_close(turned[:5] @ basis.T, weight[:5] @ basis.T)
    assert math.isfinite(float(turned.sum()))


def test_the_same_pattern_gives_the_same_digits_whatever_was_in_memory() -> None:
    generator = torch.Generator().manual_seed(0)
    slopes = (torch.rand(16, 8, generator=generator) > 0.5).double()
    head, x = torch.randn(16, generator=generator), torch.randn(8, 12, generator=generator)
    y = torch.where(torch.rand(8, generator=generator) > 0.5, 1, -1)
    found = set()
    for _ in range(40):
        [torch.randint(0, 9, (size,)) for size in range(1, 40)]  # left behind for whoever comes next
        limit = pattern_limit(slopes, head, x, y)
        assert limit is not None
        found.add((limit.stable_rank, limit.least_multiplier))
    assert len(found) == 1
