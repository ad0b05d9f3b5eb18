"""A bound on what rounding does to per-sample Jacobians, from products with a few random vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from undertow.jacobian.choices import Ties

__all__ = [
    "DRAWS",
    "FEW_DRAWS",
    "FEW_SAFETY",
    "Pullback",
    "Pullbacks",
    "Rounding",
    "rounding_of",
    "seen_share",
]

DRAWS = 3
"""Draws of noise, two vectors each: the effect of one perturbation, or of two that cancel, can be small by chance."""
_VECTORS = 2 * DRAWS
_FEW_OUTPUTS = 2  # up to which every row of the Jacobian is compared, under two draws
_SMOOTH = (
    1e-4  # of Jᵀg: more than roundings of float32 add up to, less than a switched ReLU shows in most networks
)
FEW_DRAWS = 2
FEW_SAFETY = 64.0
"""What a difference seen whole under two draws is multiplied by: both may be small by chance."""

Pullback = Callable[[Tensor], Tensor]
Pullbacks = Callable[[Sequence[Tensor]], Iterable[Tensor]]
"""Several v ↦ Jᵀv one after the other, or at once where that is cheaper."""


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
    given: Pullbacks,
    perturbed: Callable[[int], Pullback],
    *,
    like: Tensor,
    risk: float,
    negligible: float = 0.0,
    hopeless: float = math.inf,
    decided: bool = False,
    ties: Ties | None = None,
) -> Rounding:
    """Compare Jᵀg with and without noise for a few vectors g of the shape (N, out_size) of ``like``.

    ``perturbed`` gives v ↦ Jᵀv for each draw of noise. In float64 one draw is enough where its bound is a
    ``negligible`` share of Jᵀg, so that chance would have to hide far more than it left to be seen; and in any
    precision where it shows more than a ``hopeless`` share of every sample's. Where values are ``decided`` in float64
    and products are not, what the first draw moves is a sum of many small roundings, unless it shows as much as a
    switched ReLU would: the other vectors are then compared under the same draw, without further passes over values.
    Where numbers that are chosen from tie, as the first draw tells ``ties``, there are two draws before that: one of
    them shows it.

    >>> twice, almost = (lambda vectors: [2.0 * v for v in vectors]), (lambda v: (2 + 1e-6) * v)
    >>> found = rounding_of(twice, lambda draw: almost, like=torch.zeros(3, 5).double(), risk=1e-3)
    >>> bool((found.error >= 1e-6).all()), bool((found.error < 1e-4).all()), bool((found.most >= 2).all())
    (True, True, True)
    """
    if like.shape[1] <= _FEW_OUTPUTS:
        return _of_every_row(given, perturbed, like)
    generator = torch.Generator(device=like.device).manual_seed(1)  # from 0 the Lanczos starts are drawn
    options: dict[str, Any] = {"generator": generator, "dtype": like.dtype, "device": like.device}
    vectors = [torch.randn(like.shape, **options) for _ in range(_VECTORS)]
    gap = length = torch.zeros(len(like), dtype=torch.float64, device=like.device)
    moved: Pullback | None = None
    looks, seen, each = 2 if negligible and like.dtype is torch.float64 else 1, 0, _VECTORS // DRAWS
    smooth = False
    for place, (vector, image) in enumerate(zip(vectors, given(vectors), strict=True)):
        length = torch.maximum(length, _length(image))
        if seen < place:
            continue  # the first look was enough
        if place == each * (2 if ties is not None and ties.seen else 1):
            bound = gap / seen_share(risk / (2 * looks), seen)
            little = looks == 2 and bool((bound <= negligible * length).all())
            if little or bool((gap > hopeless * length).all()):
                continue
            coarser = like.dtype is not torch.float64
            smooth = decided and coarser and bool((gap <= _SMOOTH * length).all())
        if place % each == 0 and not smooth:
            moved = perturbed(place // each)
        assert moved is not None
        gap, seen = torch.maximum(gap, _length(moved(vector) - image)), seen + 1
    return Rounding(gap / seen_share(risk / (2 * looks), seen), length / seen_share(risk / 2, _VECTORS))


def _of_every_row(given: Pullbacks, perturbed: Callable[[int], Pullback], like: Tensor) -> Rounding:
    """The same where the outputs are so few that ‖E‖₂ ≤ ‖E‖_F comes from all rows of E."""
    basis = [torch.zeros_like(like) for _ in range(like.shape[1])]
    for index, vector in enumerate(basis):
        vector[:, index] = 1
    images = list(given(basis))
    gap = torch.zeros(len(like), dtype=torch.float64, device=like.device)
    for draw in range(FEW_DRAWS):
        moved = perturbed(draw)
        gap = torch.maximum(
            gap, _total(_length(moved(v) - image) for v, image in zip(basis, images, strict=True))
        )
    return Rounding(FEW_SAFETY * gap, _total(map(_length, images)))


def _total(lengths: Iterable[Tensor]) -> Tensor:
    found: Tensor = torch.linalg.vector_norm(torch.stack(list(lengths)), dim=0)
    return found


def _length(vector: Tensor) -> Tensor:
    found: Tensor = torch.linalg.vector_norm(
        vector, dim=1, dtype=torch.float64
    )  # squares of float32 may overflow
    return found
