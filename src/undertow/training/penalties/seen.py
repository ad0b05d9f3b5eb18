"""What a penalty sees of many networks: their outputs on samples, and what passes at a seam."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Seen", "Signs", "see"]

Signs = Callable[[Tensor, int], Tensor]
"""Random signs in the shape of a tensor (M, B, …), those of the n-th draw."""


@dataclass(frozen=True)
class Seen:
    """One pass of M networks over B samples each, which autograd can go back through any number of times.

    The Jacobian of a network is that of ``outputs`` (M, B, k) in ``x`` (M, B, …); with a seam, the tail's is that of
    ``at_seam`` (M, B, m) in ``x``, and the head's that of ``outputs`` in ``shift`` (M, B, m), zeros added there.
    """

    x: Tensor
    outputs: Tensor
    shift: Tensor
    at_seam: Tensor


def see(run: Callable[[Tensor], Tensor], x: Tensor, *, width: int | None = None) -> Seen:
    """Run networks on samples (M, B, …); with ``width``, ``run`` is of a ``SeamView`` with so many values there."""
    x = x.detach().requires_grad_()
    shift = x.new_zeros(*x.shape[:2], width or 0).requires_grad_()
    if width is None:
        return Seen(x, run(x), shift, shift)
    both = run(torch.cat([x.flatten(2), shift], 2))
    return Seen(x, both[..., :-width], shift, both[..., -width:])
