"""The basis of a Lanczos run, which grows without ever being copied."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["LanczosBasis"]

_BYTES = 2**25  # of a block, beyond which it holds a single vector of each matrix
_MOST = 64  # vectors in a block


class LanczosBasis:
    """Orthonormal vectors of M matrices in the order in which they came, in blocks (M, b, P).

    One tensor for all would have to be copied to grow, and hold twice as much while that goes on.

    >>> basis = LanczosBasis(torch.tensor([[1.0, 0.0, 0.0]]))
    >>> basis.append(torch.tensor([[0.0, 1.0, 0.0]]))
    >>> rest, removed = basis.without(torch.tensor([[3.0, 4.0, 5.0]]))
    >>> rest.tolist(), removed.tolist(), len(basis)
    ([[0.0, 0.0, 5.0]], [[3.0, 4.0]], 2)
    """

    def __init__(self, first: Tensor) -> None:
        room = _BYTES // max(1, first.numel() * first.element_size())
        self._rows = min(max(1, room), _MOST)
        self._blocks: list[Tensor] = []
        self._count = 0
        self.append(first)

    def __len__(self) -> int:
        return self._count

    def append(self, vector: Tensor) -> None:
        """One more vector of every matrix, (M, P)."""
        place = self._count % self._rows
        if place == 0:
            self._blocks.append(vector.new_empty(len(vector), self._rows, vector.shape[1]))
        self._blocks[-1][:, place] = vector
        self._count += 1

    def vector(self, place: int) -> Tensor:
        """The one at a place, (M, P)."""
        return self._blocks[place // self._rows][:, place % self._rows]

    def without(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        """``vector`` (M, P), changed in place, less its components along the basis, and these, (M, len)."""
        removed = []
        for block in self._filled():
            part = torch.bmm(block, vector[:, :, None])
            vector.unsqueeze(1).baddbmm_(part.mT, block, alpha=-1)
            removed.append(part[:, :, 0])
        return vector, torch.cat(removed, dim=1)

    def combined(self, coordinates: Tensor) -> Tensor:
        """Combinations (M, c, P) with coordinates (M, c, len)."""
        blocks = list(self._filled())
        parts = torch.split(coordinates.to(blocks[0]), [block.shape[1] for block in blocks], dim=2)
        total = torch.bmm(parts[0], blocks[0])
        for part, block in zip(parts[1:], blocks[1:], strict=True):
            total.baddbmm_(part, block)
        return total

    def take(self, index: Tensor) -> LanczosBasis:
        """The basis of some of the matrices only."""
        if len(index) == len(self._blocks[0]):  # always in rising order
            return self
        some = object.__new__(LanczosBasis)
        some._rows, some._count = self._rows, self._count
        some._blocks = [block[index] for block in self._blocks]
        return some

    def _filled(self) -> list[Tensor]:
        last = self._count - self._rows * (len(self._blocks) - 1)
        return [*self._blocks[:-1], self._blocks[-1][:, :last]]
