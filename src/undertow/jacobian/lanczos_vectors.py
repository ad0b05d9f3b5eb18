"""The vectors of a batch of Lanczos runs: where they start, and how they are kept orthogonal."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["WARM_NOISE", "inverse_or_zero", "orthogonal_to", "unit_starts"]

WARM_NOISE = 0.3
"""The share of fresh randomness in a warm start, before it has length one again."""


def unit_starts(start: Tensor, warm: Tensor | None) -> Tensor:
    """Unit start vectors: random ones, or warm ones with a share of randomness.

    The miss probability bounds a density, so it holds around any fixed warm component, at the noise's scale.

    >>> unit_starts(torch.tensor([[3.0, 4.0]]), None)
    tensor([[0.6000, 0.8000]])
    """
    start = start / torch.linalg.vector_norm(start, dim=1, keepdim=True)
    if warm is None:
        return start
    length = torch.linalg.vector_norm(warm, dim=1, keepdim=True)
    mixed: Tensor = torch.where(length > 0, warm / length.clamp_min(1e-30) + WARM_NOISE * start, start)
    length = torch.linalg.vector_norm(mixed, dim=1, keepdim=True)
    return mixed.div_(length)


def orthogonal_to(known: Tensor, vector: Tensor) -> Tensor:
    """Each vector, (N, n), less its components along the orthonormal rows of ``known``, (N, k, n).

    >>> orthogonal_to(torch.tensor([[[1.0, 0.0]]]), torch.tensor([[3.0, 4.0]]))
    tensor([[0., 4.]])
    """
    overlap = torch.bmm(known, vector[:, :, None])
    return torch.baddbmm(vector[:, None, :], overlap.mT, known, alpha=-1)[:, 0]


def inverse_or_zero(value: Tensor) -> Tensor:
    """1/v where v > 0, and 0 elsewhere."""
    return torch.where(value > 0, 1 / value, 0.0)
