"""The collaboration penalty: ϱ² at a seam, by leading vectors that are kept from step to step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from undertow.core.sections import Count, Text
from undertow.training.penalties.leading import leading_squares, warm_start
from undertow.training.penalties.penalty import Penalty, Vectors
from undertow.training.penalties.seen import Seen, Signs

__all__ = ["CollaborationPenalty"]


class CollaborationPenalty(Penalty):
    """weight · ϱ² at ``seam``, ϱ² = Σ ‖J_net‖₂² / Σ ‖J_head‖₂² ‖J_tail‖₂² over samples (Wang, Min & Ruan 2024, Eq. 9).

    It holds down how far head and tail stretch the same directions, and leaves alone how much each stretches: ϱ
    does not change where weights are scaled. Squared, since ϱ has no gradient at 0.

    Each sample's three leading vectors are remembered (``rows`` and ``memory`` of a call) and improved by ``steps`` of
    the power method whenever the sample is met: two products for each of net, head and tail. The gradient is that of
    the value with vectors held fixed, by the envelope theorem that of ϱ² once they have settled; before, norms are
    too small, the tail's most, and ϱ comes out too large. Without a memory vectors start at random in every call:
    then take more steps. Of a batch that training takes in parts, because it is large, it is the mean of their ϱ².

    Args:
        seam: Where the network is cut, one of ``undertow.seams(net, x)``.
        weight: What the square is multiplied by.
        steps: Steps of the power method for every sample and call.

    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 1, bias=False))
    >>> _ = net[0].weight.data.copy_(torch.diag(torch.tensor([3.0, 1.0])))
    >>> _ = net[1].weight.data.copy_(torch.tensor([[0.0, 2.0]]))  # the head reads what the tail stretches least
    >>> round(CollaborationPenalty("0", 1.0, steps=20)(net, torch.ones(4, 2)).item(), 6)  # (2 / (2 · 3))²
    0.111111
    """

    IN_ORDER: ClassVar[tuple[str, ...]] = ("seam", "weight")

    name: Literal["collaboration"] = "collaboration"
    seam: Text
    steps: Count = 1

    def __init__(self, *in_order: Any, **settings: Any) -> None:
        super().__init__(*in_order, **settings)

    @property
    def cut(self) -> str:
        return self.seam

    @property
    def remembers(self) -> bool:
        return True

    def of_members(self, seen: Seen, signs: Signs, vectors: Mapping[str, Tensor]) -> tuple[Tensor, Vectors]:
        sides = {
            "net": (seen.outputs, seen.x),
            "head": (seen.outputs, seen.shift),
            "tail": (seen.at_seam, seen.x),
        }
        squares: dict[str, Tensor] = {}
        found: Vectors = {}
        for draw, (name, (outputs, inputs)) in enumerate(sides.items()):
            start = warm_start(vectors.get(name), outputs, signs, draw)
            squares[name], found[name] = leading_squares(outputs, inputs, start, steps=self.steps)
        product = (squares["head"] * squares["tail"]).mean(1)
        smallest = torch.finfo(product.dtype).tiny  # 0/0 is 0, for a network that is constant
        return squares["net"].mean(1) / product.clamp(min=smallest), found
