"""The cap that linear bounds leave to an exact solver: no adversarial point is outside, and there is less to decide."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from undertow.adversary.exact import branching
from undertow.adversary.exact.adversarial_cap import cap_limits
from undertow.adversary.exact.branching import l2_distance
from undertow.adversary.exact.milp import milp_distance
from undertow.adversary.exact.two_layer_gaps import Array, Gap


def drawn(seed: int, neurons: int = 14, inputs: int = 4, slope: float = 0.1) -> Gap:
    source = np.random.default_rng(seed)
    weight = source.normal(size=(neurons, inputs))
    weight /= np.linalg.norm(weight, axis=1, keepdims=True)
    head = source.normal(size=neurons)
    return Gap(1.0, np.zeros(inputs), 0.5 * source.normal(size=neurons), weight, head, slope)


def nearest(gap: Gap, norm: float) -> tuple[Array, float]:
    """Points in a ball in which some are adversarial, and its radius."""
    source = np.random.default_rng(0)
    for radius in 0.05 * 1.15 ** np.arange(60):
        points = source.normal(size=(4000, gap.weight.shape[1]))
        points *= (
            radius * source.uniform(size=(4000, 1)) ** 0.2 / np.linalg.norm(points, norm, axis=1)[:, None]
        )
        moved = gap.act(gap.hidden + points @ gap.weight.T) - gap.act(gap.hidden)
        wrong = gap.level + moved @ gap.head <= 0
        if wrong.sum() > 20:
            return points[wrong], float(radius)
    raise AssertionError("no adversarial point in a ball this large")


@pytest.mark.parametrize("norm", [1.0, 2.0, math.inf])
def test_every_adversarial_point_is_within_the_limits_of_the_cap(norm: float) -> None:
    narrower = []
    for seed in range(6):
        gap = drawn(seed)
        points, radius = nearest(gap, norm)
        found = cap_limits(gap, radius, norm)
        assert found is not None, "there are adversarial points in the ball"
        hidden = gap.hidden + points @ gap.weight.T
        assert bool((hidden >= found[0]).all())
        assert bool((hidden <= found[1]).all())
        before = gap.limits(radius, norm)
        narrower.append(float((found[1] - found[0]).mean() / (before[1] - before[0]).mean()))
    assert min(narrower) < 0.8


@pytest.mark.parametrize("norm", [1.0, 2.0, math.inf])
def test_the_cap_changes_no_radius_and_saves_programs(norm: float, monkeypatch: pytest.MonkeyPatch) -> None:
    solved = {"plain": 0, "cap": 0}
    relaxed = branching._relaxed

    def radius(gap: Gap, ball: float) -> float:
        solve = l2_distance if norm == 2 else milp_distance
        options = {} if norm == 2 else {"norm": norm}
        found = solve(gap, room=None, best=ball, deadline=time.monotonic() + 60, **options)  # type: ignore[operator]
        assert found.status == "exact"
        return float(found.upper)

    for seed in range(6):
        gap = drawn(seed)
        _, ball = nearest(gap, norm)
        both = {}
        for kind in solved:

            def counted(*given, kind=kind):  # type: ignore[no-untyped-def]
                solved[kind] += 1
                return relaxed(*given)

            with monkeypatch.context() as patch:
                patch.setattr(branching, "_relaxed", counted)
                if kind == "plain":
                    for place in ("branching", "milp"):
                        patch.setattr(f"undertow.adversary.exact.{place}.cap_limits", Gap.limits)
                both[kind] = radius(gap, ball)
        assert both["cap"] == pytest.approx(both["plain"], rel=1e-8)
    if norm == 2:
        assert solved["cap"] < 0.9 * solved["plain"]
