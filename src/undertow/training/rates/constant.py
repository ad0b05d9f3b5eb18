"""The same rate in every step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from undertow.training.rates.rule import Horizon, RateRule

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Constant"]


class Constant(RateRule):
    """η_t = η, the recipe's learning rate."""

    name: Literal["constant"] = "constant"

    def rates(
        self,
        base: Tensor,
        count: Tensor,  # noqa: ARG002
        state: Mapping[str, Tensor],  # noqa: ARG002
        horizon: Horizon,  # noqa: ARG002
    ) -> Tensor:
        return base
