"""Measures that give bounds say on which side of them the truth lies: against dense singular values."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from undertow.measures.bounds import error_side
from undertow.measures.energy import energy
from undertow.measures.first_order_risk import RiskBound
from undertow.measures.rank import stable_rank
from undertow.measures.robust_accuracy import RobustAccuracy

# So loose that Lanczos stops well before the norm it looks for.
RTOL = 0.1


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_the_stable_rank_lies_below_its_reading(generator: torch.Generator) -> None:
    matrix = torch.randn(1050, 1100, generator=generator, dtype=torch.float64)
    found = stable_rank(matrix, rtol=RTOL)
    values = torch.linalg.svdvals(matrix)
    truth = float(values.square().sum() / values[0] ** 2)
    assert found.value - found.error <= truth < (1 - 1e-6) * found.value
    assert error_side("stable-rank", "0.weight") == "below"


def test_the_energy_lies_above_its_reading(generator: torch.Generator) -> None:
    net = nn.Linear(400, 300, bias=False, dtype=torch.float64).requires_grad_(False)
    net.weight.copy_(torch.randn(300, 400, generator=generator, dtype=torch.float64))
    found = energy(net, torch.zeros(3, 400, dtype=torch.float64), rtol=RTOL)
    truth = float(torch.linalg.matrix_norm(net.weight, ord=2))
    assert (1 + 1e-6) * found.value < truth <= found.value + found.error
    assert error_side("energy", "") == "above"


def test_a_weak_attack_leaves_the_truth_on_the_side_that_the_measures_say(generator: torch.Generator) -> None:
    """A logit w·x with w = (1, …, 1), whose radii are |w·x|/√6; where it saturates the attack sees no slope."""
    flat = nn.Linear(6, 1, bias=False, dtype=torch.float64).requires_grad_(False)
    steep = nn.Linear(6, 1, bias=False, dtype=torch.float64).requires_grad_(False)
    flat.weight.copy_(torch.ones(1, 6))
    steep.weight.copy_(100 * torch.ones(1, 6))
    x = torch.randn(60, 6, generator=generator, dtype=torch.float64)
    labels = torch.where(x.sum(1) > 0, 1, -1)
    survive = (x.sum(1).abs() > 0.5 * 6**0.5).double().mean().item()
    saturated = nn.Sequential(steep, nn.Tanh())
    ((_, found, _),) = RobustAccuracy(eps=(0.5,), attack="pgd-once")(saturated, x, (labels > 0).long())
    assert survive < found
    assert error_side("robust-accuracy", "0.5") == "below"
    supremum = nn.functional.softplus(0.5 * 6**0.5 - labels * x.sum(1)).mean().item()
    risk = {key: value for key, value, _ in RiskBound(radii=(0.5,))(flat, x, (labels > 0).long())}
    assert risk["adversarial@0.5"] <= supremum * (1 + 1e-12)
    assert risk["gap@0.5"] >= risk["bound@0.5"] - supremum * (1 + 1e-12)
    assert (error_side("risk-bound", "adversarial@0.5"), error_side("risk-bound", "gap@0.5")) == (
        "above",
        "below",
    )


@pytest.mark.parametrize(
    ("measure", "key", "side"),
    [
        ("cluster-radius", "native:certified@0.1", "above"),
        ("cluster-radius", "attacked", "below"),
        ("cluster-radius", "exact/attacked", None),
        ("cluster-radius", "averaged@reach", None),
        ("supervision", "sum:gradient@0.0", None),
        ("supervision", "native@10.0", "below"),
        ("off-manifold", "radius_on", "below"),
        ("off-manifold", "stretch", None),
        ("feature-distance", "averaged:lower", "above"),
        ("feature-distance", "averaged:upper", "below"),
        ("risk-bound", "bound@0.5", None),
        ("risk-bound", "upper@0.5", "below"),
    ],
)
def test_readings_of_one_measure_may_be_bounds_from_different_sides(
    measure: str, key: str, side: str | None
) -> None:
    assert error_side(measure, key) == side
