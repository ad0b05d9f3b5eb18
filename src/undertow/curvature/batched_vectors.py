"""Vectors of several networks, (M, P): products, lengths and orthogonality, each network's apart."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["inner", "inverse", "length", "orthogonal_to", "unit"]


def inner(left: Tensor, right: Tensor) -> Tensor:
    """⟨u, v⟩, (M,) float64, in the vectors' own precision: a copy in another takes longer than the product.

    >>> inner(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]])).tolist()
    [11.0]
    """
    return torch.bmm(left[:, None, :], right[:, :, None])[:, 0, 0].double()


def length(vector: Tensor) -> Tensor:
    """‖v‖, (M,) float64, summed in it: of vectors in any units."""
    found: Tensor = torch.linalg.vector_norm(vector, dim=1, dtype=torch.float64)
    return found


def unit(vector: Tensor) -> Tensor:
    """v/‖v‖, and 0 for 0."""
    size = length(vector)[:, None]
    return torch.where(size > 0, vector / size.clamp_min(1e-300).to(vector), 0.0).to(vector)


def inverse(value: Tensor) -> Tensor:
    """1/value, and 0 for 0."""
    return torch.where(value > 0, 1 / value, 0.0)


def orthogonal_to(known: Tensor, vector: Tensor) -> Tensor:
    """Each vector, (M, P), less its components along the orthonormal rows of ``known``, (M, k, P)."""
    if known.shape[1] == 0:
        return vector
    overlap = torch.bmm(known, vector[:, :, None])
    return torch.baddbmm(vector[:, None, :], overlap.mT, known, alpha=-1)[:, 0]
