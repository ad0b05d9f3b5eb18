"""What a Lanczos run knows about the largest eigenvalue: a certain lower bound, a probable upper one.

After k steps from a unit vector v, Lanczos holds a tridiagonal matrix T_k with diagonal a_1 … a_k and
off-diagonal b_1 … b_{k−1}, and the length b_k of the next vector. The polynomials p_0 = 1, p_1, …, p_k
with v_{j+1} = p_j(A) v satisfy, when A has eigenpairs (λ_i, q_i) and γ_i = ⟨v, q_i⟩,

    1 = ‖p_k(A) v‖² = Σ_i γ_i² p_k(λ_i)²  ≥  γ_1² p_k(λ_1)².

p_k(λ) = det(λI − T_k) / (b_1 ⋯ b_k) grows beyond its largest root θ, the Ritz value, and θ ≤ λ_1 always.
So λ_1 can exceed the point where p_k = 1/δ only if |γ_1| < δ: the start was that close to orthogonal to
the top direction. For a start drawn uniformly from the sphere in n dimensions that has probability at
most δ·√(2n/π). This is the bound of Van Dorsselaer, Hochstenbach & Van der Vorst (2000), which sharpens
the random-start estimates of Kuczyński & Woźniakowski (1992) by using the spectrum actually seen.

Everything follows from two recurrences over k for the pivots of λI − T, from the top, q_j = λ − a_j − b²_{j−1}/q_{j−1},
and from the bottom, r_j = λ − a_j − b²_j/r_{j+1}; each step of either is one operation on all samples.

- All q_j > 0 exactly when λ > θ. Many points are tried at once: every pass narrows θ's bracket by as many.
- log p_k(λ) = Σ log q_j − Σ log b_j.
- γ_j = q_j + r_j − (λ − a_j) is the reciprocal of the j-th diagonal entry of (λI − T)⁻¹. So Σ 1/γ_j is log p_k's slope,
  and from the smallest γ_j the eigenvector unrolls both ways with ratios b/q and b/r, all of them positive: the twisted
  factorisation of Dhillon & Parlett (2004), stable because it starts where the vector is large.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["LanczosMatrix", "a_priori_steps", "miss_threshold", "ritz_residual"]

_TINY = 1e-300
_POINTS = 8  # tried at once for each sample
_LAUNCH = 2**19  # numbers that a GPU works on in the time that it takes to begin


def miss_threshold(dimension: int, risk: float) -> float:
    """δ with P(|γ_1| < δ) ≤ risk for a uniformly random unit vector in ``dimension`` dimensions.

    The density of γ_1 is at most Γ(n/2) / (√π Γ((n−1)/2)) ≤ √(n/2π).

    >>> round(miss_threshold(784, 0.01), 6)
    0.000448
    """
    return risk * math.sqrt(math.pi / (2 * dimension))


def a_priori_steps(dimension: int, rtol: float, risk: float) -> int:
    """Steps after which a random start gives ‖J‖ to ``rtol`` whatever the spectrum, with probability 1 − risk.

    Kuczyński & Woźniakowski (1992), Theorem 4.2: P[(λ_1 − θ)/λ_1 > ε] ≤ 1.648 √n e^{−√ε (2k−1)}, ε = 2·rtol.

    >>> a_priori_steps(784, 1e-3, 0.01)
    95
    """
    steps = (math.log(1.648 * math.sqrt(dimension) / risk) / math.sqrt(2 * rtol) + 1) / 2
    return min(dimension, math.ceil(steps))


class LanczosMatrix:
    """A batch of T_k with diagonal (N, k) and off-diagonal (N, k), whose last column is the length b_k beyond T_k.

    A zero in the off-diagonal means that the Krylov space has closed there; what follows in that row is padding.
    """

    def __init__(self, diagonal: Tensor, off: Tensor) -> None:
        # Columns first: the recurrences below walk over k.
        self._scale = (diagonal + off).amax(1).clamp_min(_TINY)
        self._diagonal = (diagonal / self._scale[:, None]).T.contiguous()
        self._off = (off / self._scale[:, None]).T.contiguous()
        self._off_squared = self._off.square()
        self._vector: Tensor | None = None

    def ritz(self, *, rtol: float = 1e-12) -> Tensor:
        """The largest eigenvalue θ, (N,), to well within ``rtol``: a Rayleigh quotient, so never more than it.

        >>> a, b = torch.tensor([[2.0, 2.0]], dtype=torch.float64), torch.tensor([[1.0, 0.5]], dtype=torch.float64)
        >>> round(LanczosMatrix(a, b).ritz().item(), 9)
        3.0
        """
        inner = self._off[:-1]
        disks = self._diagonal.clone()
        disks[1:] += inner
        disks[:-1] += inner
        low = self._diagonal.amax(0)
        high = disks.amax(0) * (1 + 1e-14) + 1e-14
        # The quotient's error is the square of the vector's, so the bracket need not be as narrow as it will be exact.
        points = _POINTS if low.device.type == "cpu" else min(max(_LAUNCH // len(low), _POINTS), 4 * _POINTS)
        passes = math.ceil(math.log(1e3 / max(rtol, 1e-12)) / math.log(points + 1))
        fractions = torch.linspace(0, 1, points + 2, dtype=low.dtype, device=low.device)
        for _ in range(passes):
            ends = torch.lerp(low[:, None], high[:, None], fractions)
            beyond = self._least_pivot(ends[:, 1:-1]) > 0
            first = (~beyond).sum(1, keepdim=True)  # how many of the inner points are not beyond θ
            low, high = ends.gather(1, first)[:, 0], ends.gather(1, first + 1)[:, 0]
        vector = self._vector = self._twisted(high)
        image = self._diagonal.T * vector
        image[:, 1:] += inner.T * vector[:, :-1]
        image[:, :-1] += inner.T * vector[:, 1:]
        return (image * vector).sum(1) * self._scale

    def log_polynomial(self, point: Tensor) -> Tensor:
        """log p_k at one point per sample, (N,); −∞ where it is not beyond the largest Ritz value.

        >>> matrix = LanczosMatrix(torch.zeros(1, 1).double(), torch.full((1, 1), 2.0).double())
        >>> matrix.log_polynomial(torch.tensor([2.0]).double()).item()  # p_1(λ) = λ / b_1
        0.0
        """
        return self._log(point / self._scale)

    def upper_bound(
        self, ritz: Tensor, log_target: float, *, begin: float = 10.0, iterations: int = 12
    ) -> Tensor:
        """The point beyond θ where log p_k = ``log_target``, (N,); the search begins at ``begin``·θ.

        In s = log(λ − θ), log p_k is convex and increasing, with slope between 1 and k. Newton's iteration comes
        to the root from the right, where every iterate is a valid bound already; more of them tighten it.
        """
        root = ritz / self._scale
        s = torch.log((begin - 1) * root.clamp_min(1e-30))
        for _ in range(iterations):
            value, derivative = self._log_and_slope(root + s.exp())
            distance = (value - log_target) / (derivative * s.exp()).clamp_min(1.0)
            distance = torch.where(value > -math.inf, distance, -1.0)  # rounding has put the point below θ
            s = (s - distance).clamp(-36.0, 60.0)
            if bool((distance.abs() < 0.05).all()):
                break
        # A little to the right of the root, where it holds again; next to θ itself rounding decides, so look there
        # until it does.
        s = (s + 0.02).clamp_min(-30.0)
        short = torch.zeros_like(root, dtype=torch.bool)
        for _ in range(8):
            short = self._log(root + s.exp()) < log_target
            if not bool(short.any()):
                break
            s = torch.where(short, s + 2.0, s)
        return torch.where(short, math.inf, (root + s.exp()) * self._scale)

    def _least_pivot(self, points: Tensor) -> Tensor:
        """The smallest pivot at points (N, S): positive where the point is beyond θ."""
        pivots = points - self._diagonal[:, :, None]
        _eliminate(pivots.unbind(), self._off_squared[:, :, None].unbind())
        return pivots.amin(0)

    def _from_the_top(self, point: Tensor) -> Tensor:
        """q_j at one point per sample, (k, N)."""
        pivots = point - self._diagonal
        _eliminate(pivots.unbind(), self._off_squared.unbind())
        return pivots

    def _from_the_bottom(self, point: Tensor) -> Tensor:
        """r_j at one point per sample, (k, N)."""
        pivots = point - self._diagonal
        _eliminate(pivots.unbind()[::-1], self._off_squared[:-1].unbind()[::-1])
        return pivots

    def vector(self) -> Tensor:
        """Unit eigenvectors of T_k for θ, (N, k)."""
        assert self._vector is not None, "ask for the Ritz value first"
        return self._vector

    def _twisted(self, point: Tensor) -> Tensor:
        """The eigenvectors from the twisted factorisation at points just above θ."""
        # Just above θ rounding may leave a pivot at or below zero, and no more than rounding is lost by lifting it.
        top, bottom = (
            pivots.clamp_min(1e-18) for pivots in (self._from_the_top(point), self._from_the_bottom(point))
        )
        twist = (top + bottom - (point - self._diagonal)).abs().argmin(0, keepdim=True)
        off = self._off[:-1].clamp_min(1e-30)
        nothing = torch.zeros_like(point)[None]
        upward = torch.cat(
            [nothing, (off / top[:-1]).log().cumsum(0)]
        )  # log y_t − log y_j at j < t, summed from 0
        downward = torch.cat([nothing, (off / bottom[1:]).log().cumsum(0)])
        place = torch.arange(len(top), device=top.device)[:, None]
        logs = torch.where(
            place <= twist, upward.gather(0, twist) - upward, downward - downward.gather(0, twist)
        )
        return torch.nn.functional.normalize((logs - logs.amax(0)).exp(), dim=0).T

    def take(self, samples: Tensor) -> LanczosMatrix:
        """The matrices of some of the samples, by a mask or an index."""
        part = object.__new__(LanczosMatrix)
        part._scale = self._scale[samples]
        part._diagonal, part._off = self._diagonal[:, samples], self._off[:, samples]
        part._off_squared = self._off_squared[:, samples]
        part._vector = None if self._vector is None else self._vector[samples]
        return part

    def _log(self, point: Tensor) -> Tensor:
        return self._logs(self._from_the_top(point))

    def _logs(self, pivots: Tensor) -> Tensor:
        logs = (pivots.clamp_min(1e-150) / self._off.clamp_min(1e-30)).log().sum(0)
        return torch.where((pivots > 0).all(0), logs, -math.inf)

    def _log_and_slope(self, point: Tensor) -> tuple[Tensor, Tensor]:
        """log p_k and its derivative at a point in units of the scale; −∞ at or below the largest Ritz value."""
        top, bottom = self._from_the_top(point), self._from_the_bottom(point)
        entries = (top + bottom - (point - self._diagonal)).clamp_min(1e-150)
        return self._logs(top), entries.reciprocal().sum(0)


def _eliminate(pivots: Sequence[Tensor], off_squared: Sequence[Tensor]) -> None:
    """p_j ← p_j − b²_{j−1}/p_{j−1}, one after the other and in place.

    Rows, not a matrix and numbers of rows: taking a row out of it costs as much again as the operation.
    """
    for pivot, before, square in zip(pivots[1:], pivots, off_squared, strict=False):
        pivot.addcdiv_(square, before, value=-1)


def ritz_residual(diagonal: Tensor, off: Tensor, ritz: Tensor, vector: Tensor) -> Tensor:
    """‖JᵀJv − θv‖ for v = V y: b_k |y_k| beyond the space, and ‖T y − θ y‖ within it should y not be exact.

    >>> a, b = torch.tensor([[2.0, 2.0]]), torch.tensor([[1.0, 0.5]])
    >>> y = torch.tensor([[1.0, 1.0]]) / 2**0.5                             # T y = 3 y
    >>> round(ritz_residual(a, b, torch.tensor([3.0]), y).item(), 4)        # 0.5/√2
    0.3536
    """
    within = (diagonal - ritz[:, None]) * vector
    within[:, 1:] += off[:, :-1] * vector[:, :-1]
    within[:, :-1] += off[:, :-1] * vector[:, 1:]
    beyond = off[:, -1] * vector[:, -1]
    return torch.hypot(torch.linalg.vector_norm(within, dim=1), beyond)
