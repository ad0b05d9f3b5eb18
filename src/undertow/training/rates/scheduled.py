"""Rates that follow a plan: warm-up, then a cosine, a straight line or steps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, Self

from pydantic import model_validator

from undertow.core.sections import NonNegative, Positive
from undertow.training.rates.rule import Horizon, RateRule

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Scheduled"]


class Scheduled(RateRule):
    """η_t = η · warm-up(t) · shape(t), with times given in epochs.

    ==============  ===================================================================================
    ``warmup``      epochs over which the rate rises in a straight line: (t + 1)/W for the first W units
    ``shape``       after it: "constant"; "cosine", end + (1 − end)(1 + cos πs)/2 over the rest s of the
                    training; "linear", 1 − (1 − end)s; "steps", the rate times ``factor`` at each milestone
    ``end``         the rate at the end of a cosine or a line, as a share of η
    ``milestones``  epochs at which "steps" happen, counted from the start of training
    ``per``         whether the rate changes with every step or stays the same within an epoch
    ==============  ===================================================================================

    >>> import torch
    >>> rule, horizon = Scheduled(shape="steps", milestones=(1, 2), factor=0.5), Horizon(3, 2, 0.0)
    >>> [rule.rates(torch.ones(1), torch.tensor(t), {}, horizon).item() for t in range(6)]
    [1.0, 1.0, 0.5, 0.5, 0.25, 0.25]
    """

    name: Literal["scheduled"] = "scheduled"
    shape: Literal["constant", "cosine", "linear", "steps"] = "cosine"
    warmup: NonNegative = 0.0
    end: NonNegative = 0.0
    milestones: tuple[Positive, ...] = ()
    factor: Positive = 0.1
    per: Literal["step", "epoch"] = "step"

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if (self.shape == "steps") != bool(self.milestones):
            raise ValueError("milestones are the epochs of the shape 'steps': give both or neither")
        return self

    def rates(
        self,
        base: Tensor,
        count: Tensor,
        state: Mapping[str, Tensor],  # noqa: ARG002
        horizon: Horizon,
    ) -> Tensor:
        unit = horizon.steps_per_epoch if self.per == "step" else 1  # units of time in an epoch
        now = count if self.per == "step" else count.div(horizon.steps_per_epoch, rounding_mode="floor")
        now = now.double()
        first = self.warmup * unit
        factor = self._shape(now, first, horizon.epochs * unit, unit)
        if first > 0:
            factor = factor * ((now + 1) / first).clamp(max=1.0)
        return base * factor

    def _shape(self, now: Tensor, first: float, last: float, unit: int) -> Tensor:
        share = ((now - first) / max(last - first, 1.0)).clamp(0.0, 1.0)
        if self.shape == "cosine":
            return self.end + (1 - self.end) * (1 + (math.pi * share).cos()) / 2
        if self.shape == "linear":
            return 1 - (1 - self.end) * share
        factor = now * 0 + 1
        for milestone in self.milestones:
            factor = factor * (now >= milestone * unit).double().mul(self.factor - 1).add(1)
        return factor
