"""Functions that take derivatives, called where PyTorch keeps nothing that derivatives need."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

__all__ = ["outside_inference_mode", "with_derivatives"]

P = ParamSpec("P")
R = TypeVar("R")


def outside_inference_mode(function: Callable[P, R]) -> Callable[P, R]:
    """The function as if nobody had called ``torch.inference_mode()``: of a validation step, say, or around a script.

    >>> @outside_inference_mode
    ... def slope(x: Tensor) -> Tensor:
    ...     return torch.autograd.grad(x.requires_grad_().square().sum(), x)[0]
    >>> with torch.inference_mode():
    ...     slope(torch.tensor([3.0]))
    tensor([6.])
    """

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        with torch.inference_mode(False):
            own: Any = function
            found: R = own(*map(_usable, args), **{name: _usable(each) for name, each in kwargs.items()})
            return found

    return called


def with_derivatives(tensor: Tensor) -> Tensor:
    """The tensor itself, or a copy where it was made in inference mode, of which no derivative is taken."""
    if not tensor.is_inference():
        return tensor
    with torch.inference_mode(False):
        return tensor.clone()


def _usable(given: Any) -> Any:
    if isinstance(given, Tensor):
        return with_derivatives(given)
    if isinstance(given, Mapping):  # extras
        return {name: _usable(each) for name, each in given.items()}
    return given
