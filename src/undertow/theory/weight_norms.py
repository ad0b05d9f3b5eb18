"""Norms of all weights of a network together, and their duals: one for each way of descending steepest.

============== ================================  ===================================  ==========================
``"2"``        √Σ w²                             the same                             gradient descent
``"inf"``      max |w|                           Σ |w|                                sign descent, Adam
``"1"``        Σ |w|                             max |w|                              coordinate descent
``"spectral"`` max over layers of ‖W_k‖₂         Σ over layers of nuclear norms       spectral descent, Muon
``"layerwise"``max over layers of ‖W_k‖_F        Σ over layers of ‖U_k‖_F             layers normalised one by one
============== ================================  ===================================  ==========================

The first column of formulas is ‖θ‖, the second ‖u‖_* = max of ⟨θ, u⟩ over ‖θ‖ ≤ 1. What is no matrix counts as a
matrix of one column, whose spectral and nuclear norms are both its length.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor

from undertow.core.errors import InputError, nearest

__all__ = ["WEIGHT_NORMS", "WeightNorm", "as_weight_norm", "dual_norm", "weight_norm"]

WeightNorm = Literal["1", "2", "inf", "spectral", "layerwise"]
WEIGHT_NORMS: tuple[WeightNorm, ...] = ("1", "2", "inf", "spectral")
"""Those in which some optimiser of the library descends steepest: what measures read where none are named."""
_NAMED: tuple[WeightNorm, ...] = (*WEIGHT_NORMS, "layerwise")


def as_weight_norm(given: float | str) -> WeightNorm:
    """1, 2, "inf" (or infinity), "spectral" or "layerwise", by its name.

    >>> as_weight_norm(2), as_weight_norm(float("inf")), as_weight_norm("spectral")
    ('2', 'inf', 'spectral')
    """
    number = isinstance(given, int | float) and not isinstance(given, bool)
    word = f"{given:g}" if number else str(given)
    for name in _NAMED:
        if word == name:
            return name
    raise InputError(f"weight_norm = {given!r} is no norm of weights; {nearest(word, _NAMED)}")


def weight_norm(weights: Iterable[Tensor], norm: WeightNorm) -> float:
    """‖θ‖ of all these tensors together, in float64.

    >>> layers = [torch.tensor([[3.0, 0.0], [0.0, -4.0]]), torch.tensor([[1.0]])]
    >>> [round(weight_norm(layers, norm), 4) for norm in ("1", "2", "inf", "spectral", "layerwise")]
    [8.0, 5.099, 4.0, 4.0, 5.0]
    """
    each = [weight.detach().double() for weight in weights]
    if norm == "spectral":
        return max(float(torch.linalg.matrix_norm(_matrix(weight), 2)) for weight in each)
    if norm == "layerwise":
        return max(float(torch.linalg.vector_norm(weight)) for weight in each)
    return _together(each, {"1": 1.0, "2": 2.0, "inf": torch.inf}[norm])


def dual_norm(weights: Iterable[Tensor], norm: WeightNorm) -> float:
    """‖u‖_*, the dual of ``weight_norm``: ⟨θ, u⟩ ≤ ‖θ‖ ‖u‖_* with equality for some θ.

    >>> layers = [torch.tensor([[3.0, 0.0], [0.0, -4.0]]), torch.tensor([[1.0]])]
    >>> [round(dual_norm(layers, norm), 4) for norm in ("1", "2", "inf", "spectral", "layerwise")]
    [4.0, 5.099, 8.0, 8.0, 6.0]
    """
    each = [weight.detach().double() for weight in weights]
    if norm == "spectral":
        return sum(float(torch.linalg.matrix_norm(_matrix(weight), "nuc")) for weight in each)
    if norm == "layerwise":
        return sum(float(torch.linalg.vector_norm(weight)) for weight in each)
    return _together(each, {"1": torch.inf, "2": 2.0, "inf": 1.0}[norm])


def _matrix(weight: Tensor) -> Tensor:
    return weight.flatten(1) if weight.dim() > 1 else weight.reshape(-1, 1)


def _together(tensors: list[Tensor], order: float) -> float:
    """A norm of norms, safe at any scale."""
    parts = torch.stack([torch.linalg.vector_norm(tensor, order) for tensor in tensors])
    return float(torch.linalg.vector_norm(parts, order))
