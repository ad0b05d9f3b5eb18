"""A limit on the time that a computation takes, wherever in torch it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

__all__ = ["Deadline", "TimeUp", "whatever_the_time"]


class TimeUp(BaseException):
    """The time for something is up. No ``Exception``: what looks for other ways after an error must not go on."""


class Deadline(TorchFunctionMode):
    """Ends what is done within by :class:`TimeUp`, at the first operation on a tensor after so many seconds.

    Only there: switching gradients back on is an operation of torch as well, and one that must not be left out. It ends
    it once: what is put in order on the way out has all the time that it needs.

    >>> import torch
    >>> try:
    ...     with Deadline(0.01):
    ...         while True: _ = torch.ones(1) + 1
    ... except TimeUp:
    ...     print("time is up")
    time is up
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.end = time.perf_counter() + seconds
        self._over = False

    @property
    def passed(self) -> bool:
        """Whether it was this one that ended what was done; there may be another around it."""
        return self._over

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        del types
        on_tensors = any(isinstance(each, Tensor) for each in args)
        if on_tensors and not self._over and time.perf_counter() > self.end:
            self._over = True
            raise TimeUp
        return func(*args, **(kwargs or {}))


def whatever_the_time() -> AbstractContextManager[None]:
    """Within it no deadline ends anything: for what puts tensors back as they were."""
    return torch._C.DisableTorchFunction()
