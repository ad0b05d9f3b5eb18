"""‖W‖₂ of many matrices of one shape at once, cheaply enough to be asked at every moment of training."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from undertow.jacobian.tridiagonal import LanczosMatrix, miss_threshold

__all__ = ["largest_singular"]

_SMALL = 192  # of the smaller side: up to here the eigenvalues of the Gram matrix take less time than Lanczos
_FIRST_LOOK, _LOOK_GROWTH = 8, 1.4
_CLOSED = 1e-13  # of the largest eigenvalue: a next vector that is shorter is rounding


def largest_singular(stack: Tensor, *, rtol: float = 4e-6, risk: float = 1e-5) -> tuple[Tensor, Tensor]:
    """‖W_m‖₂ of matrices (M, r, c) and bounds of their errors, both (M,) in float64; finite matrices, none all zero.

    Small ones by the eigenvalues of W Wᵀ on the smaller side, exactly. Large ones by Lanczos on it from a random start,
    with all vectors kept and orthogonalised twice, until the bound of Van Dorsselaer, Hochstenbach & Van der Vorst
    (2000) is within ``rtol``; with probability ``risk`` at most, over the starts, one of the bounds fails. Products are
    in the precision of the matrices, all else in float64; the rounding of float32's sums is part of the error.

    >>> value, error = largest_singular(torch.diag(torch.tensor([2.0, 5.0]))[None])
    >>> round(value.item(), 12), error.item() < 1e-12
    (5.0, True)
    """
    wide = stack.detach() if stack.shape[1] <= stack.shape[2] else stack.detach().mT
    scale = wide.abs().amax((1, 2), keepdim=True)
    if wide.shape[1] <= _SMALL:
        wide = wide.double() / scale.double()
        top = torch.linalg.eigvalsh(wide @ wide.mT)[:, -1]
        # An eigenvalue of the rounded Gram matrix is off by about its size times the sum's length.
        error = top * (wide.shape[2] * 2.0**-52)
    else:
        top, error = _lanczos(wide / scale, rtol, risk / len(wide))
    value, units = top.sqrt(), scale.flatten().double()
    return value * units, (top + error).sqrt().sub(value) * units


def _lanczos(wide: Tensor, rtol: float, risk: float) -> tuple[Tensor, Tensor]:
    """λ₁(W Wᵀ) from below, and how far above it may be."""
    members, small, _ = wide.shape
    start = torch.randn(members, small, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    vector = torch.nn.functional.normalize(start.to(wide.device), dim=1)
    log_target = -math.log(miss_threshold(small, risk))
    rounding = max(_CLOSED, torch.finfo(wide.dtype).eps * math.sqrt(wide.shape[2]) / 2)
    basis = vector.new_empty(members, small, small)  # pages that are never written are never taken
    diagonal, off, look = list[Tensor](), list[Tensor](), _FIRST_LOOK
    while True:
        steps = len(diagonal) + 1
        basis[:, steps - 1] = vector
        image = _products(wide, _products(wide.mT, vector.to(wide.dtype))).double()
        diagonal.append((image * vector).sum(1))
        kept = basis[:, :steps]
        for _ in range(2):
            image = image - _products(kept.mT, _products(kept, image))
        length = image.norm(dim=1)
        closed = length <= rounding * torch.stack(diagonal).amax(0)
        off.append(length.masked_fill(closed, 0.0))
        if steps >= min(look, small):
            matrix = LanczosMatrix(torch.stack(diagonal, 1), torch.stack(off, 1))
            top = matrix.ritz()
            above = matrix.upper_bound(top, log_target) - top
            done = torch.stack(off).eq(0).any(0) | (
                steps >= small
            )  # the whole space of the start: all there is
            above = above.masked_fill(done, 0.0) + rounding * top
            if bool((above <= (2 * rtol + rounding) * top).all()):
                return top, above
            look = math.ceil(_LOOK_GROWTH * look)
        vector = (image / length.clamp_min(1e-300)[:, None]).masked_fill(closed[:, None], 0.0)


def _products(matrices: Tensor, vectors: Tensor) -> Tensor:
    """A_m v_m, (M, r): a batched product takes a CPU ten times as long as one matrix after the other."""
    if matrices.device.type != "cpu":
        return torch.bmm(matrices, vectors[:, :, None])[:, :, 0]
    return torch.stack([matrix @ vector for matrix, vector in zip(matrices, vectors, strict=True)])
