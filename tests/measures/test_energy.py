"""Dirichlet energy against the dense oracle."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import undertow as ut
from undertow.core.errors import InputError
from undertow.measures.energy import sampling_interval

from ..model_cases import CASES, Case, dense_norms


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_energy_is_the_root_mean_square(case: Case) -> None:
    net, x = case.make()
    found = ut.energy(net, x)
    true = float(dense_norms(net, x).square().mean().sqrt())
    assert abs(found.value - true) <= found.error + 1e-12
    assert found.samples == len(x)


LOSSES = {
    "cross-entropy": (3, lambda s, y: functional.cross_entropy(s, y.long(), reduction="none")),
    "bce": (1, lambda s, y: functional.binary_cross_entropy_with_logits(s[:, 0], y, reduction="none")),
    "logistic": (1, lambda s, y: functional.softplus(-y * s[:, 0])),
    "exponential": (1, lambda s, y: torch.exp(-y * s[:, 0])),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_energy_of_the_loss_is_each_samples_own_gradient(loss: str) -> None:
    outputs, function = LOSSES[loss]
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, outputs)).double()
    x = torch.randn(9, 6, dtype=torch.float64)
    labels = {"cross-entropy": [0, 1, 2], "bce": [0, 1, 1]}.get(loss, [-1, 1, 1])
    y = torch.tensor(labels * 3, dtype=torch.float64)
    given = y.long() if loss == "cross-entropy" else y
    found = ut.energy(net, x, given, loss=loss, chunk=4)  # type: ignore[arg-type]
    gradients = []
    for sample, label in zip(x, y, strict=True):
        leaf = sample[None].clone().requires_grad_()
        value: Tensor = function(net(leaf), label[None]).sum()
        (gradient,) = torch.autograd.grad(value, leaf)
        gradients.append(gradient.norm())
    true = float(torch.stack(gradients).square().mean().sqrt())
    assert abs(found.value - true) <= found.error
    assert found.error < 1e-12


def test_standard_error_is_the_spread_over_draws() -> None:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(5, 30), nn.Tanh(), nn.Linear(30, 1))
    draws = torch.stack([torch.tensor(ut.energy(net, 2 * torch.randn(200, 5)).value) for _ in range(60)])
    claimed = ut.energy(net, 2 * torch.randn(200, 5)).standard_error
    assert 0.6 < claimed / float(draws.std()) < 1.6


def test_labels_and_loss_come_together() -> None:
    net, x = nn.Linear(3, 2), torch.ones(2, 3)
    with pytest.raises(InputError, match="loss=… is missing"):
        ut.energy(net, x, torch.zeros(2).long())
    with pytest.raises(InputError, match="y is missing"):
        ut.energy(net, x, loss="cross-entropy")
    with pytest.raises(InputError, match="did you mean 'cross-entropy'"):
        ut.energy(net, x, torch.zeros(2).long(), loss="crossentropy")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="2 samples but y has 3"):
        ut.energy(net, x, torch.zeros(3).long(), loss="cross-entropy")
    with pytest.raises(InputError, match="takes no option 'rtol'"):
        ut.energy(net, x, torch.zeros(2).long(), loss="cross-entropy", rtol=1e-2)


def test_an_in_place_network_leaves_the_data_alone() -> None:
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    before = x.clone()
    net = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(5, 4))
    ut.energy(net, x, torch.zeros(6, dtype=torch.int64), loss="cross-entropy")
    assert torch.equal(x, before)


@pytest.mark.parametrize("count", [10, 30])
@pytest.mark.parametrize(
    ("draw", "true"),
    [
        (lambda size, source: 5 + torch.randn(size, generator=source), math.sqrt(26)),
        (lambda size, source: (0.5 * torch.randn(size, generator=source)).exp(), math.exp(0.25)),
        (lambda size, source: torch.rand(size, generator=source).log().neg(), math.sqrt(2)),
    ],
    ids=["normal", "lognormal", "exponential"],
)
def test_the_interval_covers_the_energy_of_the_distribution(
    draw: Callable[[tuple[int, int], torch.Generator], Tensor], true: float, count: int
) -> None:
    values = draw((300, count), torch.Generator().manual_seed(count)).abs().double()
    covered = sum(low <= true <= high for low, high in map(sampling_interval, values)) / 300
    assert covered >= 0.90


def test_few_samples_with_a_tail_say_that_they_cannot_bound_the_energy() -> None:
    net = torch.nn.Linear(2, 1, bias=False)
    heavy = replace(
        ut.energy(net, torch.randn(6, 2)), per_sample=torch.tensor([1.0, 1, 1, 1, 1, 40]).double()
    )
    assert heavy.interval[1] == math.inf
    assert "more samples" in heavy.caution
    assert ut.energy(net, torch.randn(50, 2)).caution == ""


def test_the_energy_of_a_saturated_loss_is_covered() -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(20, 40), torch.nn.Sigmoid(), torch.nn.Linear(40, 10))
    with torch.no_grad():
        net[0].weight.mul_(40)  # type: ignore[operator]
    x, y = torch.randn(30, 20), torch.randint(0, 10, (30,))
    low = ut.energy(net, x, y, loss="cross-entropy")
    high = ut.energy(net.double(), x.double(), y, loss="cross-entropy")
    assert bool(((low.per_sample - high.per_sample).abs() <= 1e-3 * high.per_sample).all())
    assert abs(low.value - high.value) <= low.error + high.error
