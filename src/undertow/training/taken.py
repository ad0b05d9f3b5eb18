"""A step as trackers and theory are told of it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["StepTaken"]


@dataclass(frozen=True)
class StepTaken:
    """What became of a step of one network.

    ``rate`` is the effective one: with plain gradient descent the step was −rate·∇L, whatever was written for
    it (α/frame with a loss-based rate, η/L where steps follow ∇log L). It is infinite where such a quotient passes
    the largest float. Not ``accepted`` means that an epoch was taken back, and the network is as it was before it.

    >>> StepTaken(0.1)
    StepTaken(rate=0.1, accepted=True)
    """

    rate: float
    accepted: bool = True
