"""The thresholds against simulations on a quadratic, just below and just above."""

from __future__ import annotations

import pytest

from undertow.core.errors import InputError
from undertow.theory.edge_of_stability import Momentum, stability_threshold


def furthest(curvature: float, rate: float, beta: float, momentum: Momentum, steps: int = 4000) -> float:
    """|w| at the end of training on λw²/2 from w = 1."""
    w, v = 1.0, 0.0
    for _ in range(steps):
        at = w - rate * beta * v if momentum == "nesterov" else w
        gradient = curvature * at
        v = beta * v + (gradient * (1 - beta) if momentum == "averaged" else gradient)
        w -= rate * v
        if abs(w) > 1e12:
            break
    return abs(w)


@pytest.mark.parametrize("momentum", ["heavy-ball", "nesterov", "averaged"])
@pytest.mark.parametrize("beta", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("rate", [1e-3, 0.5])
def test_a_quadratic_is_left_just_above_and_not_just_below(
    momentum: Momentum, beta: float, rate: float
) -> None:
    threshold = stability_threshold(rate, beta=beta, momentum=momentum)
    assert furthest(0.99 * threshold, rate, beta, momentum) < 1e-3
    assert furthest(1.01 * threshold, rate, beta, momentum) > 1e3


def test_without_momentum_all_are_gradient_descent() -> None:
    assert stability_threshold(0.1) == pytest.approx(20)
    assert stability_threshold(0.1, momentum="nesterov") == stability_threshold(0.1, momentum="averaged")


def test_what_has_no_threshold_is_refused() -> None:
    with pytest.raises(InputError, match="step size"):
        stability_threshold(0.0)
    with pytest.raises(InputError, match=r"\[0, 1\)"):
        stability_threshold(0.1, beta=1.0)
    with pytest.raises(InputError, match="did you mean 'nesterov'"):
        stability_threshold(0.1, momentum="nestrov")  # type: ignore[arg-type]
