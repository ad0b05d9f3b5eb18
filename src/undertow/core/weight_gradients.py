"""A word from whoever trains to layers that know a faster way to the gradients of their weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["first_weight_gradients", "wants_first_weight_gradients"]

_wanted: ContextVar[bool] = ContextVar("undertow_weight_gradients", default=False)


@contextmanager
def first_weight_gradients() -> Iterator[None]:
    """What a network computes within it is differentiated by its weights, once, and by nothing else.

    >>> with first_weight_gradients():
    ...     wants_first_weight_gradients()
    True
    """
    token = _wanted.set(True)
    try:
        yield
    finally:
        _wanted.reset(token)


def wants_first_weight_gradients() -> bool:
    """Whether a layer is asked for first derivatives by its weights alone."""
    return _wanted.get()
