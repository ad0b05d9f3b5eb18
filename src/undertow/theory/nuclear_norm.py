"""The matrix of least nuclear norm that has given entries: what convex matrix completion finds."""

from __future__ import annotations

import torch
from torch import Tensor

from undertow.core.errors import InputError

__all__ = ["nuclear_completion"]


def nuclear_completion(
    matrix: Tensor, seen: Tensor, *, rtol: float = 1e-6, max_steps: int = 20000
) -> tuple[Tensor, float]:
    """argmin ‖W‖_* subject to W_ij = Y_ij where seen, by Douglas–Rachford splitting, and how far it moved last.

    One step soft-thresholds the singular values, the other puts the seen entries back (Candès & Recht 2009 for the
    problem; Lions & Mercier 1979 for the method). It stops where a step moves the solution by less than ``rtol`` of its
    norm; the second value is what the last one did. The entries seen are met exactly.

    >>> Y = torch.tensor([[1.0, 1.0], [1.0, 0.0]])
    >>> W, moved = nuclear_completion(Y, torch.tensor([[True, True], [True, False]]))
    >>> round(float(W[1, 1]), 3), moved < 1e-6      # rank one
    (1.0, True)
    """
    if matrix.shape != seen.shape or seen.dtype is not torch.bool:
        raise InputError("nuclear_completion wants a matrix and a mask of its shape, True where it is seen.")
    Y = torch.where(seen, matrix.double(), 0.0)
    threshold = float(torch.linalg.matrix_norm(Y, 2)) / 10  # any positive one converges; this one soon
    point, moved = Y.clone(), float("inf")
    W = Y.clone()
    for _ in range(max_steps):
        left, values, right = torch.linalg.svd(point, full_matrices=False)
        shrunk = (left * (values - threshold).clamp(min=0)) @ right
        reflected = 2 * shrunk - point
        onto = torch.where(seen, Y, reflected)
        point = point + onto - shrunk
        moved, W = float((onto - W).norm() / onto.norm().clamp(min=1e-300)), onto
        if moved < rtol:
            break
    return W, moved
