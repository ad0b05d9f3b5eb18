"""Which features a layer has learned: the decomposition of its weights by the clusters' centres and the noise.

Li, Pan, Lyu & Li (2025) write each neuron of a two-layer network as its start, plus the centres μ_j of the
clusters, plus the noise ξ_i = x_i − μ_{j(i)} of the training points:

    w_r(t) = w_r(0) + Σ_j λ_rj μ_j/‖μ_j‖² + Σ_i σ_ri ξ_i/‖ξ_i‖².

Gradient descent can only add multiples of the x_i, so the decomposition is exact. With these factors λ_rj is how much
the neuron's input at μ_j has grown where centres are orthogonal, and is of order one however large d is.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from undertow.core.errors import InputError

__all__ = ["Coefficients", "Decomposition", "FeatureBasis", "check_rows", "decompose", "summarise"]


@dataclass(frozen=True, eq=False)
class Decomposition:
    """λ (m, k), σ (m, n), how much of the change they leave unexplained, and whether they are the only ones."""

    features: Tensor
    noise: Tensor
    residual: float
    unique: bool


class FeatureBasis:
    """The centres and the noise of the training points, ready to decompose many changes of weights.

    ``points`` (n, d) are the training points, ``cluster`` (n,) says to which centre each belongs. ``unique`` is False
    for k + n > d or points without noise: several decompositions are exact then, and the smallest is given.
    """

    def __init__(self, centres: Tensor, points: Tensor, cluster: Tensor) -> None:
        mu = centres.double()
        atoms = torch.cat([mu, points.to(mu) - mu[cluster]])
        self._k = len(mu)
        self._lengths = atoms.square().sum(1).sqrt()
        # With rows of length one, nearly orthogonal directions give a well conditioned Gram matrix.
        self._units = atoms / self._lengths.clamp(min=1e-300)[:, None]
        gram = self._units @ self._units.T
        factor, failed = torch.linalg.cholesky_ex(gram)
        independent = len(atoms) <= atoms.shape[1] and bool((self._lengths > 0).all())
        self.unique = independent and not bool(failed)
        self._inverse = (
            torch.cholesky_inverse(factor) if self.unique else torch.linalg.pinv(gram, hermitian=True)
        )

    def decompose(self, change: Tensor) -> Decomposition:
        """λ and σ of the change w(t) − w(0), (m, d), by least squares in float64."""
        change = change.double()
        units = change @ self._units.T @ self._inverse
        # A second pass on what is left takes away the rounding of the first.
        left = change - units @ self._units
        correction = left @ self._units.T @ self._inverse
        units, left = units + correction, left - correction @ self._units
        size = float(change.norm())
        residual = float(left.norm()) / size if size > 0 else 0.0
        coefficients = units * self._lengths
        return Decomposition(coefficients[:, : self._k], coefficients[:, self._k :], residual, self.unique)


def decompose(change: Tensor, centres: Tensor, points: Tensor, cluster: Tensor) -> Decomposition:
    """λ and σ of one change of weights (m, d); see :class:`FeatureBasis`, which many of them can share.

    ``residual`` is the norm of what is left over, relative to the change.

    >>> centres, points = torch.eye(4)[:2], torch.tensor([[1.0, 0.0, 0.5, 0.0]])
    >>> found = decompose(torch.tensor([[2.0, 3.0, 0.0, 0.0]]), centres, points, torch.tensor([0]))
    >>> found.features.tolist(), found.residual < 1e-12, found.unique
    ([[2.0, 3.0]], True, True)
    """
    check_rows(change, centres)
    return FeatureBasis(centres, points, cluster).decompose(change)


@dataclass(frozen=True)
class Coefficients:
    """λ in six numbers, as the feature-averaging theorem speaks of it."""

    own_least: float
    """The smallest own-class coefficient of any neuron: the theorem's Ω(1)."""
    own_mean: float
    own_ratio: float
    """The largest λ_rj/λ_rl of one neuron over its own class, 1 ± o(1); inf where the smallest is not positive."""
    own_spread: float
    """The largest |λ_rj/λ̄_r − 1| of one neuron over its own class: 0 for features averaged equally."""
    cross_largest: float
    """The largest |λ| across classes, o(1)."""
    cross_share: float
    """The same, relative to the mean own coefficient."""


def summarise(features: Tensor, own: Tensor) -> Coefficients:
    """The theorem's quantities of λ (m, k), with ``own`` (m, k) from ``own_features``.

    >>> own = torch.tensor([[True, True, False]])
    >>> summary = summarise(torch.tensor([[2.0, 4.0, -0.3]]), own)
    >>> summary.own_least, summary.own_ratio, round(summary.cross_share, 3)
    (2.0, 2.0, 0.1)
    """
    features = features.double()
    low = torch.where(own, features, torch.inf).amin(1)
    high = torch.where(own, features, -torch.inf).amax(1)
    ratio = torch.where(low > 0, high / low, torch.inf)
    mean = torch.where(own, features, 0.0).sum(1) / own.sum(1)
    largest_off = torch.where(own, (features / mean[:, None] - 1).abs(), 0.0)
    cross = torch.where(own, 0.0, features).abs().amax()
    own_mean = features[own].mean()
    return Coefficients(
        own_least=float(low.min()),
        own_mean=float(own_mean),
        own_ratio=float(ratio.max()),
        own_spread=float(largest_off.amax()),
        cross_largest=float(cross),
        cross_share=float(cross / own_mean.abs()),
    )


def check_rows(weight: Tensor, centres: Tensor) -> None:
    """Refuse weights and centres that are no matrices with rows of the same length."""
    if weight.ndim != 2 or centres.ndim != 2 or weight.shape[1] != centres.shape[1]:
        raise InputError(
            f"weights {tuple(weight.shape)} and centres {tuple(centres.shape)} must be matrices with rows of the same "
            "length, (m, d) and (k, d)."
        )
