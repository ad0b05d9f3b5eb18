"""The sharpness beyond which an optimiser leaves a quadratic minimum: where training hovers at the edge of stability.

Near a minimum with Hessian H, every eigendirection evolves by itself, by a linear recurrence in the eigenvalue λ. It
stays bounded while the roots of its characteristic polynomial do not leave the unit disk; for the methods below that
happens first at the root −1, at a λ that is the threshold. Cohen, Kaur, Li, Kolter & Talwalkar (2021) observe
full-batch training to hover just above it (Section 2, and Appendix B for momentum).

==============  ===================================================  ======================
heavy ball      v ← βv + g(w),          w ← w − ηv                   (2 + 2β) / η
Nesterov        v ← βv + g(w − ηβv),    w ← w − ηv                   (2 + 2β) / ((1 + 2β) η)
averaged        v ← βv + (1 − β)g(w),   w ← w − ηv                   (2 + 2β) / ((1 − β) η)
==============  ===================================================  ======================

β = 0 is gradient descent, 2/η, in all of them.
"""

from __future__ import annotations

from typing import Literal, get_args

from undertow.core.errors import InputError, nearest

__all__ = ["Momentum", "stability_threshold"]

Momentum = Literal["heavy-ball", "nesterov", "averaged"]


def stability_threshold(rate: float, *, beta: float = 0.0, momentum: Momentum = "heavy-ball") -> float:
    """The largest eigenvalue at which the method with rate η and momentum β still stays at a minimum.

    >>> stability_threshold(0.01)
    200.0
    >>> round(stability_threshold(0.01, beta=0.9), 6)
    380.0
    >>> round(stability_threshold(0.01, beta=0.9, momentum="nesterov"), 6)
    135.714286
    """
    if not rate > 0:
        raise InputError(f"rate = {rate} is not a positive step size.")
    if not 0 <= beta < 1:
        raise InputError(f"beta = {beta} is not in [0, 1).")
    if momentum not in get_args(Momentum):
        raise InputError(f"momentum = {momentum!r}: {nearest(str(momentum), get_args(Momentum))}")
    slowed = {"heavy-ball": 1.0, "nesterov": 1 + 2 * beta, "averaged": 1 - beta}[momentum]
    return (2 + 2 * beta) / (slowed * rate)
