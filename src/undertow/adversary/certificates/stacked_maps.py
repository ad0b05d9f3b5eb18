"""The same layer of several networks as one map: each sample meets the weights of its own network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from undertow.adversary.certificates.member_batches import MemberBatch
from undertow.adversary.certificates.operations import AffineMap

__all__ = ["StackedMap", "stacked_map"]


@dataclass(frozen=True, eq=False)
class StackedMap(AffineMap):
    """``maps``, one for each network; ``matrix``, ``kernel`` and ``offset`` have a leading axis of networks.

    Matrices are one batched product. Maps with the same constants in all networks are one map. Others, convolutions
    among them, go network by network, each with all of its samples and rows at once.
    """

    maps: tuple[AffineMap, ...] = ()
    alike: bool = False

    def shift(self, batch: MemberBatch | None) -> Tensor | None:
        return self.offset if self.offset is None or batch is None else batch.each(self.offset)

    def values(self, inputs: Sequence[Tensor], batch: MemberBatch | None = None) -> Tensor:
        assert batch is not None
        if self.alike:
            return self.maps[0].values(inputs)
        if self.matrix is not None:
            return self._affine(inputs[0], self.matrix, self.offset, batch)
        return self._one_by_one(inputs, batch, lambda own, given: (own.values(given),))[0]

    def sizes(self, inputs: Sequence[Tensor], batch: MemberBatch | None = None) -> Tensor:
        assert batch is not None
        if self.alike:
            return self.maps[0].sizes(inputs)
        if self.matrix is not None:
            offset = None if self.offset is None else self.offset.abs()
            return self._affine(inputs[0], self.matrix.abs(), offset, batch)
        return self._one_by_one(inputs, batch, lambda own, given: (own.sizes(given),))[0]

    def _affine(self, value: Tensor, matrix: Tensor, offset: Tensor | None, batch: MemberBatch) -> Tensor:
        given = batch.spread(value)
        rows = given.flatten(1, -2) @ batch.met(matrix)
        found = batch.collected(rows.reshape(*given.shape[:-1], rows.shape[-1]))
        return found if offset is None else found + batch.each(offset)

    def backward(self, rows: Tensor, batch: MemberBatch | None = None) -> tuple[Tensor, ...]:
        if self.alike:
            return self.maps[0].backward(rows)
        assert batch is not None
        if self.matrix is not None:
            return (self._product(rows, self.matrix, batch),)
        return self._rows_one_by_one(rows, batch, lambda own, given: own.backward(given))

    def backward_absolute(self, rows: Tensor, batch: MemberBatch | None = None) -> tuple[Tensor, ...]:
        if self.alike:
            return self.maps[0].backward_absolute(rows)
        assert batch is not None
        if self.matrix is not None:
            return (self._product(rows, self.matrix.abs(), batch),)
        return self._rows_one_by_one(rows, batch, lambda own, given: own.backward_absolute(given))

    def _product(self, rows: Tensor, matrix: Tensor, batch: MemberBatch) -> Tensor:
        turned = batch.met(matrix).transpose(1, 2)
        if len(rows) == 1:  # the same rows for all samples: one product for each network
            found = rows.flatten(0, -2) @ turned
            return found.reshape(batch.count, *rows.shape[1:-1], -1)[batch.who - batch.first]
        given = batch.spread(rows)
        found = given.flatten(1, -2) @ turned
        return batch.collected(found.reshape(*given.shape[:-1], -1))

    def _rows_one_by_one(
        self, rows: Tensor, batch: MemberBatch, work: Callable[[AffineMap, Tensor], tuple[Tensor, ...]]
    ) -> tuple[Tensor, ...]:
        if len(rows) > 1:
            return self._one_by_one([rows], batch, lambda own, given: work(own, given[0]))
        each = [work(own, rows) for own in self.maps[batch.first : batch.first + batch.count]]
        return tuple(torch.cat(parts)[batch.who - batch.first] for parts in zip(*each, strict=True))

    def _one_by_one(
        self,
        inputs: Sequence[Tensor],
        batch: MemberBatch,
        work: Callable[[AffineMap, list[Tensor]], tuple[Tensor, ...]],
    ) -> tuple[Tensor, ...]:
        given = [batch.spread(value) for value in inputs]
        each = [
            work(self.maps[batch.first + member], [value[member] for value in given])
            for member in range(batch.count)
        ]
        return tuple(batch.collected(torch.stack(parts)) for parts in zip(*each, strict=True))


def stacked_map(maps: Sequence[AffineMap]) -> StackedMap:
    """One map of the same layers of several networks."""
    first = maps[0]
    given = {part.name: getattr(first, part.name) for part in fields(AffineMap)}
    alike = all(
        len(own.constants) == len(first.constants)
        and all(torch.equal(one, other) for one, other in zip(own.constants, first.constants, strict=True))
        for own in maps
    )
    given["offset"] = _stacked([own.offset for own in maps])
    given["matrix"] = None if first.matrix is None else _stacked([own.matrix for own in maps])
    given["kernel"] = None if first.kernel is None else _stacked([own.kernel for own in maps])
    return StackedMap(**given, maps=tuple(maps), alike=alike)


def _stacked(parts: Sequence[Tensor | None]) -> Tensor | None:
    """All of them along a leading axis; zeros for those that are none, None where all are."""
    known = next((part for part in parts if part is not None), None)
    if known is None:
        return None
    return torch.stack([torch.zeros_like(known) if part is None else part for part in parts])
