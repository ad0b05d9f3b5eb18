"""A bound on what rounding does to per-sample Jacobians, from products with a few random vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["DRAWS", "FEW_DRAWS", "FEW_SAFETY", "Pullback", "Rounding", "rounding_of", "seen_share"]

DRAWS = 3
"""Draws of noise, two vectors each: the effect of one perturbation, or of two that cancel, can be small by chance."""
_VECTORS = 2 * DRAWS
_FEW_OUTPUTS = 2  # up to which every row of the Jacobian is compared, under two draws
FEW_DRAWS = 2
FEW_SAFETY = 64.0
"""What a difference seen whole under two draws is multiplied by: both may be small by chance."""

Pullback = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Rounding:
    """Per sample, (N,): what is known of J from a few products with and without noise.

    ``error`` bounds ‖J_noise − J‖₂ and ``most`` bounds ‖J‖₂, together with a probability of at least 1 − risk.
    """

    error: Tensor
    most: Tensor


def seen_share(risk: float, vectors: int) -> float:
    """t with P(max_j ‖E g_j‖ < t ‖E‖₂) ≤ risk for Gaussian vectors g_j.

    ‖E g‖ ≥ ‖E‖₂ |⟨v, g⟩| for the top singular vector v, and P(|⟨v, g⟩| < t) ≤ t √(2/π).

    >>> round(seen_share(1e-4, 4), 4)
    0.1253
    """
    return float(risk ** (1 / vectors) * math.sqrt(math.pi / 2))


def rounding_of(
    given: Pullback, perturbed: Callable[[int], Pullback], *, like: Tensor, risk: float
) -> Rounding:
    """Compare Jᵀg with and without noise for a few vectors g of the shape (N, out_size) of ``like``.

    ``perturbed`` gives v ↦ Jᵀv for each draw of noise.

    >>> twice, almost = (lambda v: 2.0 * v), (lambda v: (2 + 1e-6) * v)
    >>> found = rounding_of(twice, lambda draw: almost, like=torch.zeros(3, 5).double(), risk=1e-3)
    >>> bool((found.error >= 1e-6).all()), bool((found.error < 1e-4).all()), bool((found.most >= 2).all())
    (True, True, True)
    """
    if like.shape[1] <= _FEW_OUTPUTS:
        return _of_every_row(given, perturbed, like)
    generator = torch.Generator(device=like.device).manual_seed(1)  # from 0 the Lanczos starts are drawn
    gap = length = torch.zeros(len(like), dtype=torch.float64, device=like.device)
    for draw in range(DRAWS):
        moved = perturbed(draw)
        for _ in range(_VECTORS // DRAWS):
            vector = torch.randn(like.shape, generator=generator, dtype=like.dtype, device=like.device)
            image = given(vector)
            length = torch.maximum(length, _length(image))
            gap = torch.maximum(gap, _length(moved(vector) - image))
    share = seen_share(risk / 2, _VECTORS)
    return Rounding(gap / share, length / share)


def _of_every_row(given: Pullback, perturbed: Callable[[int], Pullback], like: Tensor) -> Rounding:
    """The same where the outputs are so few that ‖E‖₂ ≤ ‖E‖_F comes from all rows of E."""
    rows = []
    for index in range(like.shape[1]):
        vector = torch.zeros_like(like)
        vector[:, index] = 1
        rows.append((vector, given(vector)))
    gap = torch.zeros(len(like), dtype=torch.float64, device=like.device)
    for draw in range(FEW_DRAWS):
        moved = perturbed(draw)
        gap = torch.maximum(gap, _total(_length(moved(vector) - image) for vector, image in rows))
    return Rounding(FEW_SAFETY * gap, _total(_length(image) for _, image in rows))


def _total(lengths: Iterable[Tensor]) -> Tensor:
    found: Tensor = torch.linalg.vector_norm(torch.stack(list(lengths)), dim=0)
    return found


def _length(vector: Tensor) -> Tensor:
    found: Tensor = torch.linalg.vector_norm(
        vector, dim=1, dtype=torch.float64
    )  # squares of float32 may overflow
    return found
