"""Networks that keep checkpoints of their activations, computed as if they kept all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch.utils.checkpoint as kept

__all__ = ["plain_checkpoints"]


class _Plain:
    """In the place of the operation that computes a part of the network again in its backward pass."""

    @staticmethod
    def apply(function: Any, _preserve_rng_state: bool, *args: Any) -> Any:
        return function(*args)


def _nothing_around(*_: Any, **__: Any) -> Iterator[None]:
    yield


@contextmanager
def plain_checkpoints() -> Iterator[None]:
    """Within it ``torch.utils.checkpoint`` only calls: the values are the same, and any derivative can be taken.

    One kind of checkpoint refuses derivatives in anything but all leaves, the other a network whose hooks have changed
    since its forward pass.
    """
    names = ("CheckpointFunction", "_checkpoint_without_reentrant_generator")
    before = [getattr(kept, name) for name in names]
    try:
        for name, plain in zip(names, (_Plain, _nothing_around), strict=True):
            setattr(kept, name, plain)
        yield
    finally:
        for name, whole in zip(names, before, strict=True):
            setattr(kept, name, whole)
