"""The energy penalty: S(net)², the mean of ‖J(x)‖₂² over samples, by leading vectors kept from step to step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from torch import Tensor

from undertow.core.sections import Count
from undertow.training.penalties.leading import leading_squares, warm_start
from undertow.training.penalties.penalty import Penalty, Vectors
from undertow.training.penalties.seen import Seen, Signs

__all__ = ["EnergyPenalty"]


class EnergyPenalty(Penalty):
    """weight · S(net)², S² = (1/N) Σ_i ‖J(x_i)‖₂² (Wang, Min & Ruan 2024, Eq. 7).

    Each sample's leading vector is remembered (``rows`` and ``memory`` of a call) and improved by ``steps`` of the
    power method whenever the sample is met, two products each. Until it has settled the value is too small; the
    gradient is that of the value with vectors held fixed. One output is exact at once. Without a memory vectors
    start at random in every call: then take more steps, or the Jacobian penalty, which is unbiased from one.

    Args:
        weight: What the square is multiplied by.
        steps: Steps of the power method for every sample and call.

    >>> import torch
    >>> net = torch.nn.Linear(2, 2, bias=False)
    >>> _ = net.weight.data.copy_(torch.tensor([[3.0, 0.0], [0.0, 1.0]]))
    >>> round(EnergyPenalty(0.5, steps=20)(net, torch.ones(4, 2)).item(), 4)  # half of 3²
    4.5
    """

    name: Literal["energy"] = "energy"
    steps: Count = 1

    def __init__(self, *in_order: Any, **settings: Any) -> None:
        super().__init__(*in_order, **settings)

    @property
    def remembers(self) -> bool:
        return True

    def of_members(self, seen: Seen, signs: Signs, vectors: Mapping[str, Tensor]) -> tuple[Tensor, Vectors]:
        start = warm_start(vectors.get("net"), seen.outputs, signs, 0)
        squares, left = leading_squares(seen.outputs, seen.x, start, steps=self.steps)
        return squares.mean(1), {"net": left}
