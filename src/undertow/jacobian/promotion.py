"""A network's double: the same function evaluated in float64, whatever precision it was written in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from undertow.core.every_operation import EveryOperation
from undertow.core.network_copies import copy_in

__all__ = ["Promoting", "double_of"]


class Promoting(EveryOperation):  # type: ignore[no-untyped-call]
    """Within it every floating number is computed in float64.

    Networks hold constants in float32 and cast to it on the way (a softmax "in float32", a mask, a closure over
    weights), which would quietly bring back the rounding that float64 is to show. ``needed`` says afterwards whether
    any did.

    >>> with Promoting():
    ...     (torch.ones(2).double() @ torch.ones(2, 2)).softmax(0, dtype=torch.float32).dtype
    torch.float64
    """

    def __init__(self) -> None:
        super().__init__()
        self.needed = False

    def called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not any(map(_is_lower, args)) and not any(map(_is_lower, kwargs.values())):
            return func(
                *args, **kwargs
            )  # most calls, and walking through their arguments takes longer than some
        self.needed = True
        return func(*tree_map(_promoted, args), **tree_map(_promoted, kwargs))


def _is_lower(each: Any) -> bool:
    """Whether there is anything to be promoted in an argument."""
    if isinstance(each, Tensor):
        return each.dtype in _LOWER
    if isinstance(each, list | tuple):
        return any(map(_is_lower, each))
    return isinstance(each, torch.dtype) and each in _LOWER


def _promoted(each: Any) -> Any:
    if isinstance(each, Tensor) and each.dtype in _LOWER:
        return each.double()
    return torch.float64 if isinstance(each, torch.dtype) and each in _LOWER else each


_LOWER = (torch.float32, torch.float16, torch.bfloat16)


def double_of(f: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """``f`` in float64, to be called within :class:`Promoting`; the user's own network is never cast.

    A function, or a network that cannot be copied, is left to that mode alone.

    >>> net = nn.Linear(2, 1)
    >>> double_of(net).weight.dtype, net.weight.dtype
    (torch.float64, torch.float32)
    """
    if not isinstance(f, nn.Module):
        return f
    try:
        return copy_in(f, torch.float64)
    except Exception:  # whatever a network's own __deepcopy__ or a held generator may raise
        return f
