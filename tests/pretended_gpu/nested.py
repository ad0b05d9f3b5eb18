"""Tensors among an operation's arguments, which are lists at the deepest; quicker than trees of any kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

__all__ = ["each_tensor", "tensors_in"]


def tensors_in(value: Any) -> list[Tensor]:
    """All of them, from first to last.

    >>> import torch
    >>> len(tensors_in((1, [torch.ones(1), None], torch.ones(1))))
    2
    """
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (tuple, list)):
        return []
    found: list[Tensor] = []
    for each in value:
        if isinstance(each, Tensor):
            found.append(each)
        elif isinstance(each, (tuple, list)):
            found += tensors_in(each)
    return found


def each_tensor(change: Callable[[Tensor], Tensor], value: Any) -> Any:
    """The same with every tensor changed.

    >>> import torch
    >>> each_tensor(torch.neg, (1, [torch.ones(1)], {"out": None}))
    (1, [tensor([-1.])], {'out': None})
    """
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, (tuple, list)):
        return type(value)([each_tensor(change, each) for each in value]) if value else value
    if isinstance(value, dict):
        return {name: each_tensor(change, each) for name, each in value.items()}
    return value
