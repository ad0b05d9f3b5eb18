"""Spectral descent: every weight matrix moves by an orthogonal one, steepest descent in the spectral norm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from undertow.training.directions.direction import Direction, Memory, divided, move

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SpectralDescent", "polar_factor"]

_STEPS = 30


class SpectralDescent(Direction):
    """W ← W − η UVᵀ for each matrix's gradient G = UΣVᵀ; vectors by g/‖g‖₂, which is the same for one column.

    The norm of all parameters is the largest spectral norm of a layer (Bernstein & Newhouse 2024, Carlson et al.
    2015). A convolution counts as the matrix outputs × (inputs · height · width).

    >>> import torch
    >>> weight = {"w": torch.zeros(1, 2, 2)}
    >>> SpectralDescent().step(weight, {"w": torch.tensor([[[9.0, 0.0], [0.0, -0.1]]])}, {}, torch.tensor([1.0]))
    >>> weight["w"].round(decimals=6).tolist()
    [[[-1.0, 0.0], [0.0, 1.0]]]
    """

    name: Literal["spectral-descent"] = "spectral-descent"

    @property
    def forgetting(self) -> float | None:
        return 0.0

    def step(
        self,
        weights: Mapping[str, Tensor],
        gradients: Mapping[str, Tensor],
        memory: Memory,  # noqa: ARG002
        rates: Tensor,
    ) -> None:
        for name, gradient in gradients.items():
            matrix = gradient.flatten(2) if gradient.dim() > 2 else gradient[..., None]
            move(weights[name], polar_factor(matrix).view_as(gradient), rates)


def polar_factor(matrix: Tensor) -> Tensor:
    """UVᵀ of matrices UΣVᵀ (M, p, q), by products alone, so that a GPU can replay it; 0 for a matrix of zeros.

    X ← X (15 − 10 XᵀX + 3 (XᵀX)²)/8 from X = G/‖G‖_F in float64: a singular value s below 1 grows by 15/8 a step
    until it is close to 1, and then the error is cubed. After 30 steps those above 10⁻⁸ of ‖G‖_F are 1 to rounding,
    and those below 10⁻¹², which is what rounding makes of exact zeros, are still about 0.

    >>> import torch
    >>> polar_factor(torch.tensor([[[0.0, 2.0], [1e-6, 0.0]]])).round(decimals=6).tolist()
    [[[0.0, 1.0], [1.0, 0.0]]]
    """
    wide = matrix.shape[-1] > matrix.shape[-2]
    tall = (matrix.mT if wide else matrix).double()
    tall = divided(tall, tall.flatten(1).abs().amax(1))  # first: squares of small entries would vanish
    factor = divided(tall, tall.flatten(1).norm(dim=1))
    for _ in range(_STEPS):
        gram = factor.mT @ factor
        factor = (15 * factor - factor @ (10 * gram - 3 * gram @ gram)) / 8
    return (factor.mT if wide else factor).to(matrix.dtype)
