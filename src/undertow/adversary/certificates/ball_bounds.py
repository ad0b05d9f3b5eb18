"""What is known of every operation of a network on balls around samples."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from torch import Tensor

from undertow.adversary.certificates.member_batches import MemberBatch
from undertow.adversary.certificates.node_bounds import Relaxation

__all__ = ["BallBounds"]


@dataclass(eq=False)
class BallBounds:
    """What is known on the balls of radius ``eps`` (B,) around ``x`` (B, *S), operation by operation."""

    x: Tensor
    eps: Tensor
    batch: MemberBatch | None = None
    """Of several networks: which of them each sample is about."""
    limits: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    sizes: dict[int, Tensor] = field(default_factory=dict)
    relaxations: dict[int, Relaxation] = field(default_factory=dict)
    lengths: dict[int, Tensor] = field(default_factory=dict)
    """In L2: how far each result can be from its value at x, (B,)."""
    values: dict[int, Tensor] = field(default_factory=dict)
    """At x itself."""

    def taken(self, index: Tensor) -> BallBounds:
        """The balls of these samples, in this order, as often as they are named."""
        return BallBounds(
            self.x[index],
            self.eps[index],
            None if self.batch is None else MemberBatch.of(self.batch.who[index]),
            {at: (low[index], high[index]) for at, (low, high) in self.limits.items()},
            {at: size[index] for at, size in self.sizes.items()},
            {at: relaxation.taken(index) for at, relaxation in self.relaxations.items()},
            {at: length[index] for at, length in self.lengths.items()},
            {at: value[index] for at, value in self.values.items()},
        )

    def relaxed_by(self, relaxations: dict[int, Relaxation]) -> BallBounds:
        """The same balls with other relaxations of some operations."""
        return replace(self, relaxations={**self.relaxations, **relaxations})
