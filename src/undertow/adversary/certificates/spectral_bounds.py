"""Proved upper bounds of ‖W‖₂ of the affine maps of a network."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from undertow.adversary.certificates.operations import AffineMap

__all__ = ["convolution_norm", "map_norms"]

_ROUNDED = 1 + 1e-10  # more than a singular value in float64 is wrong by, for matrices of any size met here
_FREQUENCIES = 64


def map_norms(operation: AffineMap) -> tuple[float, ...]:
    """‖W_i‖₂ of each input's part of an affine map, from above.

    A matrix: its largest singular value. A convolution: `convolution_norm`. Any map: Schur's test,
    ‖W‖₂² ≤ max row sum · max column sum of |W|, which is exact for diagonal maps and rearrangements.
    """
    if operation.matrix is not None:
        return (float(torch.linalg.matrix_norm(operation.matrix, 2)) * _ROUNDED,)
    schur = _schur(operation)
    if operation.kernel is not None:
        return (min(schur[0], convolution_norm(operation.kernel, operation.stride)),)
    return schur


def _schur(operation: AffineMap) -> tuple[float, ...]:
    device = None if operation.offset is None else operation.offset.device
    kernel = operation.kernel if operation.kernel is not None else operation.matrix
    device = kernel.device if kernel is not None else device
    ones = torch.ones(1, *operation.shape, dtype=torch.float64, device=device)
    columns = operation.backward_absolute(ones)
    found = []
    for index, column in enumerate(columns):
        given = [
            torch.full((1, *shape), float(at == index), dtype=torch.float64, device=device)
            for at, shape in enumerate(operation.input_shapes)
        ]
        rows = operation.sizes(given)
        if operation.offset is not None:
            rows = rows - operation.offset.abs() * (1 - 1e-12)
        found.append(math.sqrt(float(column.max()) * float(rows.max())) * _ROUNDED)
    return tuple(found)


def convolution_norm(kernel: Tensor, stride: tuple[int, ...] | None = None) -> float:
    """sup_ω ‖K̂(ω)‖₂ ≥ ‖W‖₂ of a convolution with zero padding; without its stride, of any stride.

    Padding by zeros takes a part of the convolution on the whole grid, whose norm is the supremum over frequencies of
    the norm of the (out, in) matrix K̂(ω) = Σ_t K_t exp(−iω·t). For fixed unit vectors u, v, u*K̂v is, but for a phase,
    a trigonometric polynomial of degree m = (size − 1)/2 on each axis, so that its largest value is at most 1/cos(πm/n)
    per axis times that on a grid of n > 2m points (Ehlich & Zeller 1964; Pfister & Liang 2018).

    With stride s, y_n = Σ_t K_t x_{sn+t} = Σ_p Σ_q K_{sq+p} x_{s(n+q)+p}: a convolution without stride of the s phases
    (x_{sm+p})_m as channels, into which x is only sorted.

    >>> round(convolution_norm(torch.ones(1, 1, 3, dtype=torch.float64)), 2)    # a sum of three neighbours
    3.0
    >>> round(convolution_norm(torch.ones(1, 1, 2, dtype=torch.float64), (2,)), 3)    # of pairs that share nothing
    1.414
    """
    axes = kernel.ndim - 2
    kernel = kernel if stride is None else _phases(kernel, stride)
    count = max(_FREQUENCIES, 8 * max(kernel.shape[2:]))
    # a real kernel: the other half of the frequencies has the same norms
    spectrum = torch.fft.rfftn(kernel.double(), s=(count,) * axes, dim=tuple(range(2, kernel.ndim)))
    matrices = spectrum.flatten(2).permute(2, 0, 1)
    gram = matrices @ matrices.mH if matrices.shape[1] <= matrices.shape[2] else matrices.mH @ matrices
    largest = math.sqrt(max(float(torch.linalg.eigvalsh(gram).amax()), 0.0))
    for size in kernel.shape[2:]:
        largest /= math.cos(math.pi * (size - 1) / 2 / count)
    return largest * _ROUNDED


def _phases(kernel: Tensor, stride: tuple[int, ...]) -> Tensor:
    """The kernel of the convolution of phases: (out, in·∏s, ⌈k/s⌉, …)."""
    for axis, step in enumerate(stride, start=2):
        missing = -kernel.shape[axis] % step
        kernel = torch.cat([kernel, kernel.new_zeros(_resized(kernel, axis, missing))], axis)
        before, after = kernel.shape[:axis], kernel.shape[axis + 1 :]
        kernel = kernel.reshape(*before, -1, step, *after).movedim(axis + 1, 2).flatten(1, 2)
    return kernel


def _resized(tensor: Tensor, axis: int, size: int) -> list[int]:
    return [size if at == axis else count for at, count in enumerate(tensor.shape)]
