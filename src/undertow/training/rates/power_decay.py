"""Rates that fall with a power of the number of the step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from undertow.core.sections import NonNegative
from undertow.training.rates.rule import Horizon, RateRule

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Power"]


class Power(RateRule):
    """η_t = η (t + 1)^-a in update t = 0, 1, …

    Steps of a fixed length, as those of sign descent, do not settle with a constant rate; with a = ½ their sum diverges
    and their squares' sum grows like a logarithm, which is what theorems on their margins ask for.

    >>> import torch
    >>> [Power().rates(torch.ones(1), torch.tensor(t), {}, Horizon(9, 1, 0.0)).item() for t in (0, 3, 15)]
    [1.0, 0.5, 0.25]
    """

    name: Literal["power"] = "power"
    exponent: NonNegative = 0.5

    def rates(
        self,
        base: Tensor,
        count: Tensor,
        state: Mapping[str, Tensor],  # noqa: ARG002
        horizon: Horizon,  # noqa: ARG002
    ) -> Tensor:
        return base * (count.double() + 1) ** -self.exponent
