"""Attention masks: entries of scores that are −∞, or so low that a softmax gives them nothing.

A network fills them in, or adds them, before a softmax. As a part of an affine map −∞ would be no number, and −10³⁸
would drown what it is added to. So scores that were masked are known twice: as the operation that was recorded, and as
the ``base`` without its mask, s, and the mask M, whose sum s + M they are. What only rearranges or scales them does the
same to both, a softmax takes both, and nothing else is given scores that are infinite.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from undertow.adversary.certificates.aten_rules import REARRANGING, Template

__all__ = ["MaskedScores", "carries_mask", "mask_of", "moving_entries", "unmasked"]

_LARGE = 1e3  # constants from which on they are a mask, and no bias: exp(−10³) is 0 in float64
_FILLING = frozenset(("add", "sub", "masked_fill", "where"))
_WRITING = frozenset(("cat", "diagonal_scatter", "index_put"))


@dataclass(frozen=True, eq=False)
class MaskedScores:
    """s + M: the operation ``base`` is s, ``mask`` is M; ``moving`` is 1 where s may depend on the input, else 0."""

    base: int
    mask: Tensor
    moving: Tensor


def carries_mask(template: Template) -> bool:
    """Whether an operation does to a sum s + M what it does to s and to M."""
    depending = template.depending()
    if template.name in _FILLING or template.name in _WRITING:
        return not (template.name == "where" and 0 in depending)
    if template.name == "mul":
        return len(template.places) == 1
    return depending == [0] and (template.name == "div" or template.name in REARRANGING)


def unmasked(template: Template) -> Template:
    """The same operation without the large numbers that it adds or fills in.

    >>> from undertow.adversary.certificates.recorded_graph import record
    >>> start, _, steps, _ = record(lambda x: x + torch.tensor([2.0, -torch.inf]), torch.ones(1, 2))
    >>> unmasked(Template(steps[0], {id(start): 0}))(torch.ones(1, 2).double())
    tensor([[3., 1.]], dtype=torch.float64)
    """
    whole = template.name in _FILLING  # elsewhere these are places
    if not whole and template.name not in _WRITING:
        return template
    args, _ = tree_unflatten(list(range(len(template.leaves))), template.structure)
    # factors are not among these
    places = [at for at in tree_flatten(args)[0] if _large(template.leaves[at], whole=whole)]
    if not places:
        return template
    found = copy.copy(template)
    found.leaves = [_small(leaf) if at in places else leaf for at, leaf in enumerate(template.leaves)]
    return found


def _large(leaf: Any, *, whole: bool) -> bool:
    if isinstance(leaf, Tensor):
        return (leaf.is_floating_point() or (whole and leaf.dtype != torch.bool)) and bool(
            (leaf.abs() >= _LARGE).any()
        )
    known = isinstance(leaf, float) or (whole and isinstance(leaf, int) and not isinstance(leaf, bool))
    return known and abs(leaf) >= _LARGE


def _small(leaf: Any) -> Any:
    return torch.where(leaf.abs() >= _LARGE, 0, leaf) if isinstance(leaf, Tensor) else type(leaf)(0)


def mask_of(template: Template, masks: list[Tensor]) -> Tensor | None:
    """M of the result, from that of each input (zeros where it has none); None where that is +∞ or no number.

    With s ↦ L s + b the operation is s + M ↦ (L s + b′) + (L M + b − b′), b′ the offset without its large numbers.
    """
    mask = template(*masks) - unmasked(template)(*map(torch.zeros_like, masks))
    return None if bool(mask.isnan().any()) or bool((mask == math.inf).any()) else mask


def moving_entries(template: Template, moving: list[Tensor]) -> Tensor:
    """Which entries of the result may depend on the input, 1 or 0, from those of each input."""
    base = unmasked(template)
    return (base.absolute(*moving) > base.absolute(*map(torch.zeros_like, moving))).double()
