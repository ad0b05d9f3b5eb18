"""A softmax as the operations that bounds can be carried through, its masked entries left out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from undertow.adversary.certificates.aten_rules import Template
from undertow.adversary.certificates.recorded_graph import UnreadableError
from undertow.adversary.certificates.score_masks import MaskedScores

if TYPE_CHECKING:
    from undertow.adversary.certificates.graph_builder import GraphBuilder

__all__ = ["SOFTMAX", "softmax"]

SOFTMAX = ("_softmax", "_safe_softmax")
_DIFFERENCES = 64  # entries of a softmax up to which all their differences are formed
_NOTHING = (
    -1e300
)  # masks below are −∞: no score comes near to the smallest number of float64, which stands for it


def softmax(builder: GraphBuilder, template: Template, masked: MaskedScores | None) -> int:
    """1/Σ_j exp(v_j − v_i), which does not overflow; of very many entries exp(v)/Σ exp(v), with fewer terms.

    With a mask v = s + M: entries of −∞ are in no sum, and their share is 0 whatever x is. A row without others is NaN,
    and refused, but where ``_safe_softmax`` gives zeros.
    """
    at, shape = (template.inputs[0] if masked is None else masked.base), template.shapes[0]
    axis = template.argument(1) % len(shape)
    zeros = torch.zeros(shape, dtype=torch.float64, device=builder.device)
    entries = _Entries(axis, zeros, zeros + 1, zeros, zeros)
    if masked is not None:
        entries = _Entries.of(masked, axis)
    if template.name == "_softmax" and bool(entries.empty.any()):
        raise UnreadableError(
            "a softmax has a row in which every entry is masked by −∞, which is NaN: leave each row an entry, or mask "
            "by the smallest number of the dtype"
        )
    found = (_by_differences if shape[axis] <= _DIFFERENCES else _by_sums)(builder, at, entries)
    kept = entries.kept
    if bool(kept.all()):
        return found
    return builder.made(found, lambda v: v * kept, lambda m: m * kept, kind=("kept",), constants=(kept,))


@dataclass(frozen=True, eq=False)
class _Entries:
    """The rows of a softmax along ``axis``: shares are those of s + ``level`` where ``kept`` is 1, and 0 elsewhere.

    ``empty`` is 1 in rows that keep nothing. ``lost`` is what was added to all of a row: no share changes by it, but it
    rounds scores, up to all of them alike where it is 10³⁸.
    """

    axis: int
    level: Tensor
    kept: Tensor
    empty: Tensor
    lost: Tensor

    @staticmethod
    def of(masked: MaskedScores, axis: int) -> _Entries:
        top = masked.mask.amax(axis, keepdim=True)
        empty = (top == -math.inf).expand_as(masked.mask)
        level = masked.mask - torch.where(top == -math.inf, 0.0, top)
        kept = level > _NOTHING
        lost = torch.where(empty, 0.0, top.abs().clamp(max=-_NOTHING)) * masked.moving
        return _Entries(axis, torch.where(kept, level, 0.0), kept.double(), empty.double(), lost)


def _by_differences(builder: GraphBuilder, at: int, entries: _Entries) -> int:
    own, other = entries.axis, entries.axis + 1  # in the table of all pairs
    level, kept, empty, lost = entries.level, entries.kept, entries.empty, entries.lost
    pairs = kept.unsqueeze(own) * kept.unsqueeze(other)
    pairs.diagonal(dim1=own, dim2=other).zero_()  # the difference of an entry and itself is nothing
    gap = (level.unsqueeze(own) - level.unsqueeze(other)) * pairs
    apart = builder.made(
        at,
        lambda v: (v.unsqueeze(own) - v.unsqueeze(other)) * pairs + gap,
        lambda m: (_both(m, own) + _both(lost, own)) * pairs + gap.abs(),
        kind=("differences", own),
        constants=(pairs, gap, lost),
    )
    grown, counted = builder.curve(apart, "exp of scores"), kept.unsqueeze(own)
    total = builder.made(
        grown,
        lambda v: (v * counted).sum(other) + empty,
        lambda m: (m * counted).sum(other) + empty,
        kind=("sum", other),
        constants=(counted, empty),
    )
    return builder.curve(total, "share")


def _both(size: Tensor, own: int) -> Tensor:
    return size.unsqueeze(own) + size.unsqueeze(own + 1)


def _by_sums(builder: GraphBuilder, at: int, entries: _Entries) -> int:
    axis, level, kept, lost = entries.axis, entries.level, entries.kept, entries.lost
    shape, empty = builder.operations[at].shape, entries.empty.amax(axis, keepdim=True)
    if bool((level != 0).any()) or bool((lost > 0).any()):
        at = builder.made(
            at,
            lambda v: v + level,
            lambda m: m + level.abs() + lost,
            kind=("masked",),
            constants=(level, lost),
        )
    grown = builder.curve(at, "exp")
    total = builder.made(
        grown,
        lambda v: (v * kept).sum(axis, keepdim=True) + empty,
        lambda m: (m * kept).sum(axis, keepdim=True) + empty,
        kind=("sum", axis),
        constants=(kept, empty),
    )
    return builder.product((grown, builder.curve(total, "reciprocal")), shape, matrices=False)
