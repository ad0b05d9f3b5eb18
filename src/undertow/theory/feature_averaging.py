"""What the feature-averaging theorems predict (Li, Pan, Lyu & Li 2025): networks, directions, radii.

Everything is about k clusters around orthogonal centres μ_j of norm √d, the first |J₊| of them positive. The
papers give orders of magnitude, Θ(√d) and Θ(√(d/k)); the constants below are worked out here, at the centres
themselves, where the noise is zero.
"""

from __future__ import annotations

import math

from torch import Tensor

from undertow.models.grouped_centres import THRESHOLD, grouped_network

__all__ = [
    "THRESHOLD",
    "averaged_direction",
    "averaged_radius",
    "grouped_network",
    "grouped_radius",
    "read_out_radius",
]


def averaged_direction(centres: Tensor, signs: Tensor) -> Tensor:
    """The unit vector along Σ_{J₊} μ_j − Σ_{J₋} μ_j: class +1 is attacked against it, class −1 along it.

    >>> import torch
    >>> averaged_direction(torch.eye(2), torch.tensor([1, -1])).tolist()
    [0.7071067690849304, -0.7071067690849304]
    """
    direction = signs.to(centres) @ centres
    unit: Tensor = direction / direction.norm()
    return unit


def grouped_radius(d: int, *, group: int, opponents: int, threshold: float = THRESHOLD) -> float:
    """The distance from a centre to the decision boundary of ``grouped_network``; a tie is an error.

    At μ_j its own neuron is at 1 − β, each of the ``opponents`` at −β, and all of these neurons move by √(g/d)
    for every unit of length, in orthogonal directions. To reach f = 0 with q opponents switched on the sum of
    these moves is 1 − β + qβ, and spread evenly over q + 1 directions it is shortest:

        R = √(d/g) · min_q (1 − β + qβ)/√(1 + q),   q = 0 … opponents.

    With q = 1 this is √(d/2g), half the distance between centres for g = 1, whatever β is: no network can do
    better there. The other q are no shorter as long as √(3/2) − 1 ≤ β ≤ 1 − 1/√2 (0.22 … 0.29), the upper end of
    which is the default; with smaller β several opponents at once are, and β = 0 gives ``read_out_radius``.

    >>> round(grouped_radius(3072, group=1, opponents=5), 1)         # f_robust: √(2d)/2
    39.2
    >>> round(grouped_radius(3072, group=5, opponents=1), 1)         # averaged over k/2 = 5: √(d/k)
    17.5
    """
    moves = [(1 - threshold + q * threshold) / math.sqrt(1 + q) for q in range(opponents + 1)]
    return math.sqrt(d / group) * min(moves)


def averaged_radius(d: int, k: int) -> float:
    """√(d/k): how far averaged features let a centre move against both classes' averages at once.

    At μ_j one class's neuron is at λ, the other's at 0, and along the averaged direction both move by
    λ√k/(2√d) for every unit of length. For other biases the radii of the two classes change, but both
    patterns (λ, 0) and (0, λ) stay 2√(d/k) apart: their sum cannot exceed that.

    >>> round(averaged_radius(3072, 10), 1)
    17.5
    """
    return math.sqrt(d / k)


def read_out_radius(d: int, k: int) -> float:
    """√(2d/(k+2)): the radius of Σ_{J₊} ReLU(⟨w_j, x⟩) − Σ_{J₋} ReLU(⟨w_j, x⟩) for w_j ∝ μ_j, without biases.

    One neuron at λ falls while k/2 neurons at 0 rise, each by λ/√d for every unit of length in its own
    direction. So decoupled features alone give the order √(d/k) again, better by a factor below √2; it is the
    biases of f_robust, or the competition of a k-class decision, that make √d of it.

    >>> round(read_out_radius(3072, 10), 1)
    22.6
    """
    return math.sqrt(d / (1 + k / 2))
