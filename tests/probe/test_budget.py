"""A probe with a price: fewer points or fewer readings, never more time than the share allows."""

from __future__ import annotations

import time
from collections.abc import Iterator

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
    """A measure that takes so many seconds of a made-up clock for each point."""

    name = "slow"

    def __init__(self, clock: Clock, each: float, fixed: float = 0.0) -> None:
        self.clock, self.each, self.fixed = clock, each, fixed

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        self.clock.now += self.fixed + self.each * len(x)
        yield "", float(len(x)), None


@pytest.mark.parametrize(("each", "fixed"), [(0.001, 0.0), (0.02, 0.0), (0.3, 0.0), (0.0, 0.5), (0.01, 3.0)])
def test_the_share_is_kept_whatever_a_reading_costs(each: float, fixed: float) -> None:
    clock = Clock()
    net, x = nn.Linear(2, 1), torch.randn(256, 2)
    probe = ut.Probe(net, x, measures=[Slow(clock, each, fixed)], every=1, at_start=False, budget=0.05)
    probe.budget = Budget(0.05, clock=clock)
    for _ in range(2000):
        clock.now += 0.1
        probe.step()
    training = 200.0
    first = 8 * each + fixed  # the one that nobody knew the cost of
    assert probe.budget.spent <= 0.05 * training + first
    assert probe.budget.spent >= 0.02 * training or each * 256 + fixed < 0.01  # and it is used
    points = [record.value for record in probe.records if record.measure == "budget"]
    assert points == [record.value for record in probe.records if record.measure == "slow"]
    assert min(points) >= 8


def test_the_end_is_measured_in_any_case_and_points_are_a_fixed_order() -> None:
    clock = Clock()

    class Kept(Slow):
        seen: list[Tensor] = []  # noqa: RUF012

        def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
            self.seen.append(x)
            return super().__call__(net, x, y)

    measure = Kept(clock, 0.01)
    probe = ut.Probe(nn.Linear(2, 1), torch.randn(64, 2), measures=[measure], every=1, budget=0.1)
    probe.budget = Budget(0.1, clock=clock)
    for _ in range(300):
        clock.now += 0.05
        probe.step()
    probe.step()
    new = probe.training_end()
    assert new
    smallest, largest = min(measure.seen, key=len), max(measure.seen, key=len)
    assert torch.equal(smallest, largest[: len(smallest)])


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
