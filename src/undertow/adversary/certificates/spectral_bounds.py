"""Proved upper bounds of ‖W‖₂ of the affine maps of a network."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from undertow.adversary.certificates.operations import AffineMap

__all__ = ["convolution_norm", "largest_eigenvalue", "map_norms", "matrix_norm", "neuron_norms"]

_ROUNDED = 1 + 1e-10  # more than a singular value in float64 is wrong by, for matrices of any size met here
_EPS = torch.finfo(torch.float64).eps
_FREQUENCIES = 64
_SQUARINGS = 11


def map_norms(operation: AffineMap) -> tuple[float, ...]:
    """‖W_i‖₂ of each input's part of an affine map, from above.

    A matrix: `matrix_norm`. A convolution: `convolution_norm`. Any map: Schur's test,
    ‖W‖₂² ≤ max row sum · max column sum of |W|, which is exact for diagonal maps and rearrangements.
    """
    if operation.matrix is not None:
        return (matrix_norm(operation.matrix) * _ROUNDED,)
    schur = _schur(operation)
    if operation.kernel is not None:
        return (min(schur[0], convolution_norm(operation.kernel, operation.stride)),)
    return schur


def neuron_norms(operation: AffineMap) -> Tensor | None:
    """‖w_i‖₂ of every neuron of a dense layer or a convolution, to broadcast against its result; None for other maps.

    Of a convolution the kernel's: at the border, where a part of it meets nothing, w_i is shorter. Several networks
    have a leading axis.
    """
    if operation.matrix is not None:
        lengths = _lengths(operation.matrix.transpose(-1, -2))
        return lengths.reshape(*lengths.shape[:-1], *[1] * (len(operation.shape) - 1), -1)
    if operation.kernel is None or operation.windows is None:
        return None
    axes = len(operation.windows.size)
    lengths = _lengths(operation.kernel.flatten(-1 - axes))
    return lengths.reshape(*lengths.shape[:-1], 1, -1, *[1] * axes)


def _lengths(rows: Tensor) -> Tensor:
    """‖w‖₂ over the last axis, also where squares would vanish."""
    unit = rows.abs().amax(-1)
    scaled = rows / torch.where(unit > 0, unit, 1.0).unsqueeze(-1)
    found: Tensor = unit * torch.linalg.vector_norm(scaled, dim=-1)
    return found


def _schur(operation: AffineMap) -> tuple[float, ...]:
    device = next((constant.device for constant in operation.constants), None)
    ones = torch.ones(1, *operation.shape, dtype=torch.float64, device=device)
    columns = operation.backward_absolute(ones.unsqueeze(0))
    found = []
    for index, column in enumerate(columns):
        given = [
            torch.full((1, *shape), float(at == index), dtype=torch.float64, device=device)
            for at, shape in enumerate(operation.input_shapes)
        ]
        rows = operation.sizes(given)
        if operation.offset is not None:
            rows = rows - operation.offset.abs() * (1 - 1e-12)
        most = [float(part.max()) if part.numel() else 0.0 for part in (column, rows)]
        found.append(math.sqrt(most[0] * most[1]) * _ROUNDED)
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
    unit = float(kernel.abs().amax())
    if unit == 0:
        return 0.0
    kernel = kernel / unit  # whose squares neither vanish nor overflow
    kernel = kernel if stride is None else _phases(kernel, stride)
    count = max(_FREQUENCIES, 8 * max(kernel.shape[2:]))
    # a real kernel: the other half of the frequencies has the same norms
    spectrum = torch.fft.rfftn(kernel.double(), s=(count,) * axes, dim=tuple(range(2, kernel.ndim)))
    largest = math.sqrt(largest_eigenvalue(_gram(spectrum.flatten(2).permute(2, 0, 1))))
    for size in kernel.shape[2:]:
        largest /= math.cos(math.pi * (size - 1) / 2 / count)
    return unit * largest * _ROUNDED


def matrix_norm(matrix: Tensor) -> float:
    """‖W‖₂ of a matrix, from above.

    >>> round(matrix_norm(torch.tensor([[3.0, 0.0], [4.0, 0.0]]).double()), 6)
    5.0
    """
    unit = float(matrix.abs().amax())
    if unit == 0:
        return 0.0
    scaled = matrix / unit  # whose squares neither vanish nor overflow
    largest = float(torch.linalg.eigvalsh(_gram(scaled.unsqueeze(0))[0])[-1].clamp(min=0))
    # what rounding of the products and of the eigenvalue may be, as a share of ‖W‖_F² ≤ n·‖W‖₂²
    return unit * math.sqrt(largest) * (1 + 8 * sum(matrix.shape) * min(matrix.shape) * _EPS)


def _gram(matrices: Tensor) -> Tensor:
    return matrices @ matrices.mH if matrices.shape[1] <= matrices.shape[2] else matrices.mH @ matrices


def largest_eigenvalue(grams: Tensor) -> float:
    """The largest eigenvalue of any of the matrices G (F, n, n), all positive semidefinite: from above, within 0.2 %.

    λ^m ≤ tr G^m ≤ n·λ^m, and squaring doubles m: after eleven of them n^(1/m) is 1.002 for n = 64. Matrices of which
    (tr G^m)^(1/m) is less than another's (tr G^m/n)^(1/m) are left out. What rounding does to traces is a share of at
    most n²·2⁻⁵³ each time, of which the m-th root is taken.
    """
    size, power, logs = (
        grams.shape[-1],
        grams,
        torch.zeros(len(grams), dtype=torch.float64, device=grams.device),
    )
    trace = power.diagonal(dim1=-2, dim2=-1).real.sum(-1)
    if not bool((trace > 0).any()):
        return 0.0
    some = trace > 0
    power, logs = power[some] / trace[some, None, None], trace[some].log()
    exponent = 1.0
    for _ in range(_SQUARINGS):
        power = power @ power
        trace = power.diagonal(dim1=-2, dim2=-1).real.sum(-1)
        logs, exponent = 2 * logs + trace.log(), 2 * exponent
        power = power / trace[:, None, None]
        some = logs >= logs.amax() - math.log(size)
        power, logs = power[some], logs[some]
    return math.exp(float(logs.amax()) / exponent) * (1 + 64 * (size**2 + 64) * _EPS)


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
