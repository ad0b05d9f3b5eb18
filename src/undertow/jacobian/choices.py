"""Operations that choose one of several numbers, which noise alone may fail to show where two of these tie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = ["Ties", "chooses", "chosen_otherwise", "tie"]

_POOLS = {
    "max_pool2d_with_indices": 2,
    "max_pool3d_with_indices": 3,
    "adaptive_max_pool2d": 2,
    "adaptive_max_pool3d": 3,
}
"""Which give places in the last so many axes, taken as one."""
_ALONG_AN_AXIS = ("max", "min", "sort", "topk", "kthvalue", "median", "nanmedian")
_EVENLY = ("amax", "amin", "maximum", "minimum")
"""Where autograd divides a slope between all that tie, so that noise shows a tie as soon as it breaks it."""
_TILTS = {torch.float32: 2**8, torch.float64: 2**20}
"""Roundings by which numbers that are chosen from are told apart: more than noise adds to most differences."""
_NEAR = 16.0
"""Times as far apart numbers may be and still be said to tie, so that none is missed for the noise that they have."""
_STEPS = (0.5698402909980532, 0.7548776662466927, 0.3247179572447460, 0.1795090245002402)
"""Of the last axes, from the last one: on a circle, small multiples of these and their sums stay apart."""


@dataclass
class Ties:
    """Whether numbers that a network chooses from were seen to tie."""

    seen: bool = False


def chooses(func: Any) -> bool:
    """Whether an operation takes one of several numbers.

    >>> chooses(torch.ops.aten.amax.default), chooses(torch.ops.aten.relu.default)
    (True, False)
    """
    return _name(func) in (*_POOLS, *_ALONG_AN_AXIS, *_EVENLY)


def tie(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether ``func`` chooses between numbers of which some may tie: by their places, another would be chosen.

    What wins told apart upwards and downwards wins in between too, as sizes move along lines. Operations that give no
    places are not looked into.

    >>> pool = torch.ops.aten.max_pool2d_with_indices.default
    >>> [tie(pool, (torch.tensor([[[1.0, second]]]), [1, 2]), {}) for second in (1.0, 1.1)]
    [True, False]
    """
    if not chooses(func):
        return False
    up, down = (chosen_otherwise(func, args, kwargs, upwards=each, reach=_NEAR) for each in (True, False))
    return up is None or down is None or not torch.equal(up[1], down[1])


def chosen_otherwise(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, upwards: bool, reach: float = 1.0
) -> tuple[Tensor, ...] | None:
    """What ``func`` gives where entries that tie are told apart by their places, ``upwards`` or downwards; values stay.

    Of a tie the last place wins in one of these and the first in the other: one of them is not what the network took.
    None where the operation does not choose.

    >>> pool = torch.ops.aten.max_pool2d_with_indices.default
    >>> [chosen_otherwise(pool, (torch.ones(1, 1, 1, 2), [1, 2]), {}, upwards=up)[1].item() for up in (False, True)]
    [0, 1]
    """
    name, given = _name(func), args[0] if args else None
    if not isinstance(given, Tensor) or given.dtype not in _TILTS or given.dim() == 0:
        return None
    if len(func._schema.returns) != 2 or name not in (*_POOLS, *_ALONG_AN_AXIS):
        return None
    values, places = func(_tilted(given, reach if upwards else -reach), *args[1:], **kwargs)
    if name in _POOLS:
        axes = _POOLS[name]
        values = given.flatten(-axes).gather(-1, places.flatten(-axes)).view_as(places)
    else:
        axis = _argument(func, args, kwargs, "dim")
        gone = places.dim() < given.dim()
        values = given.gather(axis, places.unsqueeze(axis) if gone else places)
        values = values.squeeze(axis) if gone else values
    return values, places


def _tilted(given: Tensor, reach: float) -> Tensor:
    """The numbers moved by roundings that depend on their places; zeros stay zeros."""
    slope = torch.zeros((), dtype=torch.float64, device=given.device)
    for axis, step in zip(range(min(given.dim() - 1, len(_STEPS)) or 1), _STEPS, strict=False):
        places = torch.arange(given.shape[-1 - axis], dtype=torch.float64, device=given.device)
        slope = slope + (places * step).view(-1, *[1] * axis)
    numbers = torch.finfo(given.dtype)
    share = (reach * _TILTS[given.dtype] * numbers.eps * (slope.remainder(1.0) - 0.5)).to(given.dtype)
    # Infinities, as of masks, stay what they are. Zeros that tie are mostly ReLUs at rest, whose slope is taken to be
    # autograd's too; told apart, every head behind a ReLU and before its max-pooling would be one without a bound.
    return torch.addcmul(given, given.abs().clamp_(max=numbers.max), share)


def _argument(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> Any:
    for place, argument in enumerate(func._schema.arguments):
        if argument.name == name:
            return args[place] if place < len(args) else kwargs.get(name, argument.default_value)
    return -1


def _name(func: Any) -> str:
    return str(func.__name__).split(".")[0]
