"""Attention computed step by step: what fuses it has no second derivative, and inside of vmap none at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

__all__ = ["plain_attention"]


@contextmanager
def plain_attention() -> Iterator[None]:
    """Within it no attention, nor a whole encoder layer in eval mode, is one fused operation."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
