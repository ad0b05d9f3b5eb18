"""Spectral descent: every weight matrix moves by an orthogonal one, steepest descent in the spectral norm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from undertow.core.polar_factor import polar_factor
from undertow.training.directions.memoryless import Memoryless

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SpectralDescent"]


class SpectralDescent(Memoryless):
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

    def along(self, gradients: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return {name: polar_factor(_as_matrices(each)).view_as(each) for name, each in gradients.items()}


def _as_matrices(gradient: Tensor) -> Tensor:
    """(M, rows, columns); a vector is a column."""
    return gradient.flatten(2) if gradient.dim() > 2 else gradient[..., None]
