"""Polar factors of many matrices: all singular values made 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["polar_by_products", "polar_factor"]

_NOTHING = 1e-10  # of the largest: what rounding makes of exact zeros
_GROWING = 12 * (
    (3.4743, -1.7828, 0.29105),
)  # leaves [0.4, 2] above 1.2 and multiplies what is smaller by 3 or so
_SETTLING = (  # the best on [0.06, 2], on what that leaves, and so on; the last cubes what is left
    (3.6660, -2.5780, 0.47084),
    (2.8945, -2.1643, 0.47350),
    (2.0363, -1.4195, 0.39231),
    (1.8762, -1.2513, 0.37513),
    (1.875, -1.25, 0.375),
    (1.875, -1.25, 0.375),
)


def polar_factor(matrix: Tensor) -> Tensor:
    """UVᵀ of matrices UΣVᵀ (M, p, q), over singular values that are not 0; NaN where an entry is not finite.

    By their singular vectors on a CPU, in a quarter of the time; elsewhere by products alone, so that a GPU can replay
    it. A single row or column is divided by its length.

    >>> import torch
    >>> polar_factor(torch.tensor([[[0.0, 2.0], [1e-6, 0.0]]])).round(decimals=6).tolist()
    [[[0.0, 1.0], [1.0, 0.0]]]
    """
    wide = matrix.shape[-1] > matrix.shape[-2]
    tall = (matrix.mT if wide else matrix).double()
    largest = tall.abs().amax((1, 2), keepdim=True)
    tall = _divided(tall, largest)  # first: squares of small entries would vanish
    if tall.shape[-1] == 1:
        factor = _divided(tall, tall.square().sum((1, 2), keepdim=True).sqrt())
    else:
        factor = _by_vectors(tall) if matrix.device.type == "cpu" else polar_by_products(tall)
    return (factor.mT if wide else factor).to(matrix.dtype)


def _divided(matrices: Tensor, by: Tensor) -> Tensor:
    return matrices / by.where(by != 0, by.new_ones(()))


def _by_vectors(tall: Tensor) -> Tensor:
    import torch  # here: settings that name this direction are read without it

    finite = tall.isfinite().flatten(1).all(1)[:, None, None]
    left, values, right = torch.linalg.svd(tall.where(finite, 0.0), full_matrices=False)
    kept = values > _NOTHING * values[:, :1]
    factor: Tensor = (left * kept[:, None, :]) @ right
    return factor.where(finite, torch.nan)


def polar_by_products(tall: Tensor) -> Tensor:
    """UVᵀ of matrices (M, p, q) in float64 with p ≥ q, whose entries are about 1; 0 for a matrix of zeros.

    X ← aX + bX(XᵀX) + cX(XᵀX)² from X = 2G/‖G‖_F, with numbers (a, b, c) for each step that bring all singular values
    as near to 1 as one step can (Amsel, Persson, Musco & Gower 2025, The Polar Express), short of making large ones
    small again, whose vectors rounding would disturb. After eighteen steps those above 10⁻⁸ of ‖G‖_F are 1 to rounding,
    and what rounding makes of exact zeros is still about 0.

    >>> import torch
    >>> polar_by_products(torch.tensor([[[3.0, 0.0], [0.0, -1e-6]]], dtype=torch.float64)).round(decimals=6).tolist()
    [[[1.0, 0.0], [0.0, -1.0]]]
    """
    factor = 2 * _divided(tall, tall.square().sum((1, 2), keepdim=True).sqrt())
    for a, b, c in (*_GROWING, *_SETTLING):
        gram = factor.mT @ factor
        factor = factor.baddbmm(factor, gram.baddbmm(gram, gram, beta=b, alpha=c), beta=a)
    return factor
