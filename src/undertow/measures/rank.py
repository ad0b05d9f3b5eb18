"""Stable rank of matrices and of every weight of a network."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, overload

import torch
from torch import Tensor, nn

from undertow.core.enclosing import innermost
from undertow.core.errors import InputError, ModelError
from undertow.core.stacked_members import StackedMembers
from undertow.core.status import Status
from undertow.core.unwrapping import unwrapped
from undertow.core.weights_in_use import weights_in_use
from undertow.jacobian.largest_singular import largest_entries, largest_singular, need_scaling
from undertow.jacobian.norms import matrix_norm
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading, StackedMeasure

__all__ = ["StableRank", "StableRankResult", "stable_rank", "stable_ranks", "weight_matrices"]


class StableRankResult(float):
    """‖W‖_F² / ‖W‖₂² of one matrix: a number that knows its error bound and how the matrix was read."""

    error: float
    status: Status
    shape: tuple[int, int]
    reading: str

    def __new__(
        cls, value: float, *, error: float, status: Status, shape: tuple[int, int], reading: str
    ) -> StableRankResult:
        self = super().__new__(cls, value)
        self.error, self.status, self.shape, self.reading = error, status, shape, reading
        return self

    @property
    def value(self) -> float:
        return float(self)


@overload
def stable_rank(weight: Tensor, *, rtol: float = ...) -> StableRankResult: ...
@overload
def stable_rank(weight: nn.Module, *, rtol: float = ...) -> dict[str, StableRankResult]: ...
def stable_rank(
    weight: Tensor | nn.Module, *, rtol: float = 1e-6
) -> StableRankResult | dict[str, StableRankResult]:
    """Stable rank ‖W‖_F² / ‖W‖₂², between 1 and rank(W), of a matrix or of every weight of a module.

    Kou, Chen & Gu (2023) bound its limit under gradient descent by 2 for two-layer ReLU networks and by 1
    for leaky ReLU. A convolution (out, in, *kernel) is read as the matrix (out, in·kernel) that acts on
    patches, which is not the norm of the convolution as a map between images.

    Args:
        weight: a matrix, or a module: then a dictionary by the names of its parameters of two or more axes.
        rtol: bounds the error of ‖W‖₂ for large matrices (by Lanczos, in float64; one chance in a million that the
            bound fails).

    >>> stable_rank(torch.eye(3)).value
    3.0
    >>> list(stable_rank(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))))
    ['0.weight', '2.weight']
    """
    if isinstance(weight, nn.Module):
        weight = innermost(unwrapped(weight))
        found = {name: _of(matrix, reading, rtol) for name, matrix, reading in weight_matrices(weight)}
        if not found:
            raise ModelError("the network has no weight of two or more axes, so no stable rank.")
        return found
    if not isinstance(weight, Tensor) or weight.dim() != 2:
        raise InputError(
            "stable_rank takes a matrix or a torch.nn.Module; reshape the tensor to two axes first."
        )
    return _of(weight, "matrix", rtol)


class StableRank(NamedMeasure, StackedMeasure):
    """‖W‖_F² / ‖W‖₂² of every weight matrix, keyed by the parameter's name.

    The spectral norm is bounded from below, and the truth so lies below a reading.
    """

    name: ClassVar[str] = "stable-rank"

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        yield from self.batched([net], x, y)[0]

    def batched(
        self,
        networks: Sequence[nn.Module],
        x: Tensor,  # noqa: ARG002
        y: Tensor | None,  # noqa: ARG002
    ) -> list[list[Reading]]:
        """Matrix by matrix, those of all networks at once: cheap enough for every moment of a training."""
        readings: list[list[Reading]] = [[] for _ in range(len(networks))]
        for name, stack in _stacks(networks):
            for own, value, error in zip(readings, *stable_ranks(stack), strict=True):
                own.append((name, value, error))
        if not readings[0]:
            raise ModelError("the network has no weight of two or more axes, so no stable rank.")
        return readings


def _stacks(networks: Sequence[nn.Module]) -> Iterator[tuple[str, Tensor]]:
    """Name and matrices (M, r, c) of every weight."""
    if isinstance(networks, StackedMembers) and all(
        weight.dim() <= 3 for weight in networks.weights.values()
    ):
        yield from ((name, weight) for name, weight in networks.weights.items() if weight.dim() == 3)
        return
    for several in zip(*(weight_matrices(innermost(unwrapped(net))) for net in networks), strict=True):
        matrices = [matrix for _, matrix, _ in several]
        yield several[0][0], torch.stack(matrices) if len(several) > 1 else matrices[0][None]


def stable_ranks(stack: Tensor) -> tuple[list[float], list[float]]:
    """Stable ranks of matrices (M, r, c) and bounds of their errors, to 10⁻⁵ of the singular values' own.

    >>> [round(value, 9) for value in stable_ranks(torch.stack([torch.eye(3), torch.ones(3, 3)]))[0]]
    [3.0, 1.0]
    """
    _refuse_kinds(stack)
    scaled = stack.detach() if stack.dtype in (torch.float32, torch.float64) else stack.detach().float()
    largest = largest_entries(scaled)
    least, most = torch.stack(largest.aminmax()).tolist()  # NaN where one entry is
    if not math.isfinite(most):
        raise InputError("the matrix holds NaN or Inf.")
    zero = largest == 0
    if need_scaling(least, most):
        scaled = scaled / largest.where(~zero, 1.0)[:, None, None]
        scaled[zero, 0, 0] = 1.0  # of nothing there is no norm to be found
        largest = torch.ones_like(largest)
    squares = torch.linalg.vector_norm(scaled, dim=2).double().square().sum(1)
    norms, errors = largest_singular(scaled, largest=largest)
    # No stable rank is below 1; rounding in float32 may be, of a matrix of rank one.
    values = (squares / norms.square()).clamp_min(1.0).masked_fill(zero, 0.0)
    below = (squares / (norms + errors).square()).clamp_min(1.0).masked_fill(zero, 0.0)
    found, bounds = torch.stack([values, values - below]).tolist()
    return found, bounds


_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def weight_matrices(net: nn.Module) -> list[tuple[str, Tensor, str]]:
    """Name, matrix and how it was read, for every weight of ``net`` with two or more axes.

    Of a layer with weight normalisation, or any other parametrisation, the weight that it multiplies with.
    """
    matrices: list[tuple[str, Tensor, str]] = []
    seen: dict[
        int, Tensor
    ] = {}  # an id is a name only while the tensor lives, and parametrisations make new ones
    for prefix, module in net.named_modules():
        for name, tensor in weights_in_use(module):
            if tensor.dim() < 2 or id(tensor) in seen:
                continue
            seen[id(tensor)] = tensor
            read, words = _reading(module, name)
            matrices.append((f"{prefix}.{name}" if prefix else name, read(tensor.detach()), words))
    return matrices


def _reading(module: nn.Module, name: str) -> tuple[Callable[[Tensor], Tensor], str]:
    if name == "weight" and isinstance(module, _TRANSPOSED):
        return lambda w: w.transpose(0, 1).flatten(1), "out × in·kernel (transposed convolution)"
    if name == "weight" and isinstance(module, _CONVOLUTIONS):
        return lambda w: w.flatten(1), "out × in·kernel (per group)"
    return lambda w: w.flatten(1), "matrix"


def _of(matrix: Tensor, reading: str, rtol: float) -> StableRankResult:
    _refuse_kinds(matrix)
    matrix = matrix.detach()
    rows, columns = matrix.shape
    if matrix.numel() == 0:
        raise InputError(f"the matrix has shape {(rows, columns)}: it is empty.")
    if not bool(torch.isfinite(matrix).all()):
        raise InputError("the matrix holds NaN or Inf.")
    scale = float(matrix.abs().max())
    if scale == 0:
        # The limit of a vanishing matrix is undefined; zero says that there is no direction at all.
        return StableRankResult(0.0, error=0.0, status=Status.EXACT, shape=(rows, columns), reading=reading)
    scaled = matrix.double() / scale
    norms = matrix_norm(scaled, rtol=rtol)
    squared = float(scaled.square().sum())
    value = squared / norms.value.item() ** 2
    error = value - squared / (norms.value.item() + norms.error.item()) ** 2
    return StableRankResult(value, error=error, status=norms.status, shape=(rows, columns), reading=reading)


def _refuse_kinds(matrix: Tensor) -> None:
    """A sentence for tensors that have no such rank as they are."""
    if matrix.layout is not torch.strided:
        raise InputError("the matrix is sparse: call its to_dense() first.")
    if matrix.is_complex():
        raise InputError("the matrix is complex; stable ranks are of real ones: take its real or its imag.")
    if matrix.dtype == torch.bool:
        raise InputError("the matrix holds truth values: call its float() first.")
