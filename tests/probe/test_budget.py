"""A probe with a price: fewer points or fewer readings, never more time than the share allows."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import undertow as ut
from undertow.core.errors import InputError
from undertow.measures.reading import Reading
from undertow.probe.budget import Budget


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Slow:
    """A measure that takes so many seconds of a made-up clock for each point, and more the first time."""

    def __init__(
        self, clock: Clock, each: float, fixed: float = 0.0, first: float = 0.0, name: str = "slow"
    ) -> None:
        self.clock, self.each, self.fixed, self.first, self.name = clock, each, fixed, first, name
        self.seen: list[Tensor] = []

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        self.clock.now += self.fixed + self.each * len(x) + (0.0 if self.seen else self.first)
        self.seen.append(x)
        yield "", float(len(x)), None


def _probe(clock: Clock, measures: list[Slow], **options: Any) -> tuple[ut.Probe, Budget]:
    probe = ut.Probe(nn.Linear(2, 1), torch.randn(256, 2), measures=measures, budget=0.05, **options)
    probe.budget = Budget(0.05, clock=clock, measures=[f"{i}:{each.name}" for i, each in enumerate(measures)])
    return probe, probe.budget


_COSTS = {
    "cheap": (0.001, 0.0, 0.0),
    "linear": (0.02, 0.0, 0.0),
    "dear": (0.3, 0.0, 0.0),
    "fixed": (0.0, 0.5, 0.0),
    "both": (0.01, 3.0, 0.0),
    "slow at first": (0.02, 0.0, 4.0),
    "slow at first, fixed": (0.001, 0.2, 2.0),
}


@pytest.mark.parametrize("cost", _COSTS)
def test_the_share_is_kept_at_every_moment_once_the_pilot_is_paid_for(cost: str) -> None:
    """Nobody knew the price of the first call, on one point; nothing else may be owed, ever."""
    clock = Clock()
    each, fixed, first = _COSTS[cost]
    probe, budget = _probe(clock, [Slow(clock, each, fixed, first)], every=1)
    pilot, training = each + fixed + first, 0.0
    for step in range(6000):
        clock.now += 0.1
        training += 0.1
        probe.step()
        assert budget.spent <= max(0.05 * training, pilot) + 1e-9
        assert budget.spent == 0 or step >= 199  # the stated start
    affordable = 0.05 * training - pilot
    assert budget.spent >= 0.5 * affordable or each * 256 + fixed < 0.01  # and it is used
    points = [record.value for record in probe.records if record.measure == "budget"]
    assert points
    assert points == [record.value for record in probe.records if record.measure == "slow"]
    assert min(points) >= 8  # pilots are not recorded
    if fixed > 20 * each:
        assert max(points) >= 64  # a fixed price is found out, and then many points are taken


def test_neither_does_a_dear_measure_keep_cheap_ones_waiting_nor_they_use_up_what_it_saves() -> None:
    clock = Clock()
    dear, cheap = Slow(clock, 0.5, 1.0, 3.0, name="dear"), Slow(clock, 0.001, name="cheap")
    probe, budget = _probe(clock, [dear, cheap], every=1)
    training = 0.0
    for _ in range(10000):
        clock.now += 0.2
        training += 0.2
        probe.step()
        assert budget.spent <= max(0.05 * training, 4.5) + 1e-9
    taken = Counter(record.measure for record in probe.records)
    assert taken["dear"] >= 3  # half of the share is 50 s, and a reading takes 5 s or more
    assert taken["cheap"] >= 40
    first = next(record.step for record in probe.records if record.measure == "cheap")
    assert first < 2500  # the dear pilot takes 90 s of training to pay for


def test_the_end_has_what_is_left_and_says_what_it_cannot_pay_for() -> None:
    clock = Clock()
    measures = [Slow(clock, 0.2, name="dear"), Slow(clock, 0.001, name="cheap")]
    probe, budget = _probe(clock, measures, every="end")
    clock.now += 8.5  # 0.425 s are earned: two points of the first
    with pytest.warns(UserWarning, match="too short to pay for cheap at its end"):
        records = probe.training_end()
    assert [(record.measure, record.value) for record in records] == [("dear", 2.0), ("budget", 2.0)]
    assert budget.spent == pytest.approx(0.4)


def test_points_are_nested_random_subsets() -> None:
    clock = Clock()
    measure = Slow(clock, 0.01)
    probe, _ = _probe(clock, [measure], every=1)
    for _ in range(3000):
        clock.now += 0.05
        probe.step()
    smallest, largest = min(measure.seen, key=len), max(measure.seen, key=len)
    assert len(smallest) < len(largest)
    assert torch.equal(smallest, largest[: len(smallest)])


def test_a_measure_that_needs_more_points_than_a_pilot_has_is_measured_all_the_same() -> None:
    clock = Clock()

    class Picky(Slow):
        def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
            found = list(super().__call__(net, x, y))
            if len(x) < 8:
                raise InputError("too few points.")
            return iter(found)

    probe, _ = _probe(clock, [Picky(clock, 0.001)], every=1)
    for _ in range(400):
        clock.now += 0.1
        probe.step()
    assert probe.records


@pytest.mark.parametrize("share", [0, 1.0, -0.1, True])
def test_what_is_no_share_is_refused(share: float) -> None:
    with pytest.raises(InputError, match="give a share of training time"):
        ut.Probe(nn.Linear(2, 1), torch.ones(2, 2), measures=[Slow(Clock(), 0.0)], budget=share)


def test_between_measurements_a_step_costs_nothing() -> None:
    probe = ut.Probe(
        nn.Linear(2, 1), torch.ones(2, 2), measures=[Slow(Clock(), 0.0)], every=10**9, budget=0.05
    )
    begun = time.perf_counter()
    for _ in range(1000):
        probe.step()
    assert time.perf_counter() - begun < 0.5  # half a millisecond each would be a lot
