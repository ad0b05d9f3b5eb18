"""Functions made faster by ``torch.compile`` where that works, and left as they are where it does not."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar

import torch

__all__ = ["compiled"]

_ROOM = 256  # of one function: for every network, and every number of them, it is compiled anew

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """The function, compiled at its first call; a warning and the function itself where there is no compiler.

    Small operations become few, which is what a training step of a small network on a GPU consists of. Results
    differ from the uncompiled ones by rounding.
    """
    quick: Callable[P, R] | None = torch.compile(function, dynamic=False)

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        nonlocal quick
        if quick is None:
            return function(*args, **kwargs)
        try:
            with _room():
                return quick(*args, **kwargs)
        except Exception as error:
            found = function(*args, **kwargs)  # an error of the function's own comes from here
            quick = None
            said = f"{type(error).__name__}: {error}".splitlines()[0]
            warnings.warn(f"torch.compile failed, training goes on uncompiled ({said})", stacklevel=2)
            return found

    return call


def _room() -> AbstractContextManager[object]:
    """Within it a function may be compiled more often than the eight times after which PyTorch goes on uncompiled."""
    import torch._dynamo  # here, because it takes seconds, and only who compiles needs it

    config: Any = torch._dynamo.config
    names = ("recompile_limit", "cache_size_limit")  # the second is the name in older versions
    limits: AbstractContextManager[object] = config.patch(
        {name: _ROOM for name in names if hasattr(config, name)}
    )
    return limits
