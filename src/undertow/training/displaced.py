"""Weights somewhere else for a moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor

__all__ = ["displaced"]


@contextmanager
def displaced(weights: Mapping[str, Tensor], *, by: Mapping[str, Tensor]) -> Iterator[None]:
    """Add shifts to the weights of these names within the block, and put them back exactly after it.

    >>> import torch
    >>> weights = {"w": torch.ones(2)}
    >>> with displaced(weights, by={"w": torch.tensor([1.0, 1e-9])}):
    ...     weights["w"].tolist()
    [2.0, 1.0]
    >>> weights["w"].tolist()
    [1.0, 1.0]
    """
    here = {name: weights[name].clone() for name in by}
    try:
        for name, shift in by.items():
            weights[name].add_(shift)
        yield
    finally:
        for name, weight in here.items():
            weights[name].copy_(weight)
