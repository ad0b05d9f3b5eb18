"""Functions made faster by ``torch.compile`` where that works, and left as they are where it does not."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

__all__ = ["compiled"]

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
            return quick(*args, **kwargs)
        except Exception as error:
            found = function(*args, **kwargs)  # an error of the function's own comes from here
            quick = None
            said = f"{type(error).__name__}: {error}".splitlines()[0]
            warnings.warn(f"torch.compile failed, training goes on uncompiled ({said})", stacklevel=2)
            return found

    return call
