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
from undertow.probe import Collaboration, Energy, SeamProfile
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


@pytest.mark.parametrize("share", ["5%", 0, 1.0, -0.1, True])
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


def test_what_readings_cost_is_known_from_the_first_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    slow, other = Slow(clock, 0.5), Slow(clock, 0.001, name="quick")
    with caplog.at_level("INFO", logger="undertow"):
        probe = ut.Probe(nn.Linear(2, 1), torch.randn(16, 2), measures=[slow, other], every=1, at_start=False)
        probe._costs.clock = clock
        for _ in range(3):
            probe.step()
    assert (probe.costs["slow"].seconds, probe.costs["slow"].points) == (8.0, 16)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("a reading of slow took 8 s on 16 points, of quick took 0.016 s")


def test_a_dear_first_reading_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    probe = ut.Probe(
        nn.Linear(2, 1), torch.randn(16, 2), measures=[Slow(clock, 5.0)], every=1, at_start=False
    )
    probe._costs.clock = clock
    probe.step()
    assert [(each.levelname, "slow took 80 s" in each.message) for each in caplog.records] == [
        ("WARNING", True)
    ]


def test_a_budget_says_what_its_choice_of_points_means() -> None:
    """Energy and its like then have a standard error beside the value; without a budget, records are as they were."""
    net, x = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)), torch.randn(32, 2)
    measures: list[Any] = [Energy(), Collaboration(seam="1"), SeamProfile()]
    clock = Clock()
    probe = ut.Probe(net, x, measures=measures, budget=0.5, every="end")
    names = [f"{index}:{each.name}" for index, each in enumerate(measures)]
    probe.budget = Budget(0.5, clock=clock, measures=names)
    clock.now += 100.0
    records = probe.training_end()
    found = {(record.measure, record.key): record.value for record in records}
    count = int(found["budget", "energy:points"])
    assert count < 32
    shown = probe.measured.now(net, count)[1]
    assert found["energy", "standard_error"] == pytest.approx(ut.energy(net, shown).standard_error)
    assert {("collaboration", "1:standard_error"), ("seam-profile", "1:standard_error")} <= found.keys()
    without = ut.Probe(net, x, measures=measures, every="end").training_end()
    assert not [record for record in without if "standard_error" in record.key]


def test_a_budget_draws_from_the_points_that_a_measure_takes() -> None:
    clock = Clock()

    class Few(Slow):
        points = 64

    measure = Few(clock, 0.0, 0.1)
    probe, _ = _probe(clock, [measure], every=1)
    for _ in range(4000):
        clock.now += 0.05
        probe.step()
    rows = {tuple(row) for row in probe.x[:64].tolist()}
    assert {len(each) for each in measure.seen} >= {8, 64}
    assert all({tuple(row) for row in each.tolist()} <= rows for each in measure.seen)
    assert torch.equal(max(measure.seen, key=len), probe.x[:64])
