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

On the CPU everything is computed from the pivots q_j of λI − T = LDLᵀ and their derivatives in λ: k small vector
operations a pass. A GPU would spend its time launching those, so there T is a dense batch (N, k, k), for which matrix
products and a Cholesky factorisation do the same.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from undertow.jacobian.eigen import by_squaring

__all__ = [
    "DenseLanczosMatrix",
    "LanczosMatrix",
    "PivotLanczosMatrix",
    "a_priori_steps",
    "lanczos_matrix",
    "miss_threshold",
]

_TINY = 1e-300


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


def lanczos_matrix(diagonal: Tensor, off: Tensor) -> LanczosMatrix:
    """The matrices T_k of a batch, in the form that suits where the batch lives."""
    return (
        DenseLanczosMatrix(diagonal, off)
        if diagonal.device.type == "cuda"
        else PivotLanczosMatrix(diagonal, off)
    )


class LanczosMatrix:
    """A batch of T_k with diagonal (N, k) and off-diagonal (N, k), whose last column is the length b_k beyond T_k.

    A zero in the off-diagonal means that the Krylov space has closed there; what follows in that row is padding.
    """

    _scale: Tensor

    def ritz(self, *, rtol: float = 1e-12) -> Tensor:
        """The largest eigenvalue θ, (N,), to well within ``rtol``, and never more than it but for rounding."""
        raise NotImplementedError

    def vector(self, ritz: Tensor) -> Tensor:
        """Unit eigenvectors of T_k for θ, (N, k)."""
        raise NotImplementedError

    def take(self, samples: Tensor) -> LanczosMatrix:
        """The matrices of some of the samples, by a mask or an index."""
        raise NotImplementedError

    def _log_and_slope(self, point: Tensor) -> tuple[Tensor, Tensor]:
        """log p_k and its derivative at a point in units of the scale; −∞ at or below the largest Ritz value."""
        raise NotImplementedError

    def _log(self, point: Tensor) -> Tensor:
        """The first of the two alone, where that is cheaper."""
        return self._log_and_slope(point)[0]

    def log_polynomial(self, point: Tensor) -> Tensor:
        """log p_k at one point per sample, (N,); −∞ where it is not beyond the largest Ritz value.

        >>> matrix = PivotLanczosMatrix(torch.zeros(1, 1).double(), torch.full((1, 1), 2.0).double())
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


class PivotLanczosMatrix(LanczosMatrix):
    """By the pivots of λI − T, one vector over the samples at a time."""

    def __init__(self, diagonal: Tensor, off: Tensor) -> None:
        # Columns first: the recurrences below walk over k with vectors of length N.
        self._scale = (diagonal + off).amax(1).clamp_min(_TINY)
        self._diagonal = (diagonal / self._scale[:, None]).T.contiguous()
        self._off = (off / self._scale[:, None]).T.contiguous()
        self._off_squared = self._off.square()

    def ritz(self, *, rtol: float = 1e-12) -> Tensor:
        """By Laguerre's iteration from above, which is monotone for real roots.

        >>> a, b = torch.tensor([[2.0, 2.0]], dtype=torch.float64), torch.tensor([[1.0, 0.5]], dtype=torch.float64)
        >>> round(PivotLanczosMatrix(a, b).ritz().item(), 9)
        3.0
        """
        inner = self._off.clone()
        inner[-1] = 0
        disks = self._diagonal + inner
        disks[1:] += inner[:-1]
        point = disks.amax(0) * (1 + 1e-14) + 1e-14
        running = torch.ones_like(point, dtype=torch.bool)
        for _ in range(60):
            first, second, smallest = self._derivatives(point)
            degree = float(len(self._diagonal))
            root = ((degree - 1) * (degree * second - first * first)).clamp_min(0).sqrt()
            # A hair short of the full step, so that rounding does not carry it past the root.
            step = (1 - 1e-10) * degree / (first + root)
            running &= (smallest > 0) & torch.isfinite(step)
            point = torch.where(running, point - step, point)
            running &= (
                step > min(rtol, 1e-9) * point.abs()
            )  # the last steps cost little: convergence is cubic
            if not bool(running.any()):
                break
        return point * self._scale

    def _derivatives(self, point: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """p'/p and (p'/p)² − p''/p of p = det(λI − T) at a point, and the smallest pivot there."""
        pivot = point - self._diagonal[0]
        slope, bend = torch.ones_like(point), torch.zeros_like(point)
        smallest, first = pivot.clone(), slope / pivot
        second = first.square()
        for diagonal, off_squared in zip(self._diagonal[1:], self._off_squared[:-1], strict=True):
            ratio = off_squared / pivot
            relative = slope / pivot
            bend = ratio * (bend / pivot - 2 * relative.square())
            slope = 1 + ratio * relative
            pivot = point - diagonal - ratio
            torch.minimum(smallest, pivot, out=smallest)
            relative = slope / pivot
            first += relative
            second += relative.square() - bend / pivot
        return first, second, smallest

    def _log_and_slope(self, point: Tensor) -> tuple[Tensor, Tensor]:
        pivot, slope = point - self._diagonal[0], torch.ones_like(point)
        smallest = pivot.clone()
        product, logs, derivative = torch.ones_like(point), torch.zeros_like(point), torch.zeros_like(point)
        for j in range(len(self._diagonal)):
            if j > 0:
                ratio = self._off_squared[j - 1] / pivot
                slope = 1 + ratio * slope / pivot
                pivot = point - self._diagonal[j] - ratio
                torch.minimum(smallest, pivot, out=smallest)
            pivot = pivot.clamp_min(1e-30)
            derivative += slope / pivot
            product *= pivot / self._off[j].clamp_min(1e-30)
            if j % 4 == 3:  # a logarithm costs as much as ten products, and four factors cannot overflow
                logs += product.log()
                product = torch.ones_like(point)
        logs += product.log()
        return torch.where(smallest > 0, logs, -math.inf), derivative

    def take(self, samples: Tensor) -> PivotLanczosMatrix:
        part = object.__new__(PivotLanczosMatrix)
        part._scale = self._scale[samples]
        part._diagonal, part._off = self._diagonal[:, samples], self._off[:, samples]
        part._off_squared = self._off_squared[:, samples]
        return part

    def vector(self, ritz: Tensor) -> Tensor:
        """By inverse iteration from just above θ."""
        point = ritz / self._scale * (1 + 1e-13) + _TINY
        steps = len(self._diagonal)
        pivots = [_nonzero(point - self._diagonal[0])]
        for j in range(1, steps):
            pivots.append(_nonzero(point - self._diagonal[j] - self._off_squared[j - 1] / pivots[-1]))
        vector = torch.ones_like(self._diagonal)
        for _ in range(2):
            columns = [vector[0]]
            for j in range(1, steps):
                columns.append(vector[j] + self._off[j - 1] / pivots[j - 1] * columns[-1])
            solution = [columns[-1] / pivots[-1]]
            for j in range(steps - 2, -1, -1):
                solution.append((columns[j] + self._off[j] * solution[-1]) / pivots[j])
            vector = torch.stack(solution[::-1])
            vector = vector / vector.abs().amax(0).clamp_min(_TINY)
            vector = vector / vector.norm(dim=0).clamp_min(_TINY)
        return vector.T


def _nonzero(pivot: Tensor) -> Tensor:
    return torch.where(pivot.abs() < 1e-290, torch.full_like(pivot, 1e-290), pivot)


class DenseLanczosMatrix(LanczosMatrix):
    """As dense matrices: the top eigenvector by repeated squaring, determinants by Cholesky factorisation."""

    def __init__(self, diagonal: Tensor, off: Tensor) -> None:
        self._scale = (diagonal + off).amax(1).clamp_min(_TINY)
        inner = off[:, :-1] / self._scale[:, None]
        self._matrix = torch.diag_embed(diagonal / self._scale[:, None])
        self._matrix += torch.diag_embed(inner, 1) + torch.diag_embed(inner, -1)
        self._log_off = (off / self._scale[:, None]).clamp_min(1e-30).log().sum(1)
        self._vector: Tensor | None = None

    def ritz(self, *, rtol: float = 1e-12) -> Tensor:
        """The Rayleigh quotient of the top eigenvector, so never more than θ.

        >>> a, b = torch.tensor([[2.0, 2.0]], dtype=torch.float64), torch.tensor([[1.0, 0.5]], dtype=torch.float64)
        >>> round(DenseLanczosMatrix(a, b).ritz().item(), 9)
        3.0
        """
        # Single precision is enough for the vector: the quotient's error is the square of the vector's. A power of
        # 1000/rtol leaves nothing of eigenvalues that differ from the top by more than a hundredth of rtol.
        levels = min(40, math.ceil(math.log2(1000 / rtol)))
        _, vector = by_squaring(self._matrix.float(), levels=levels)
        self._vector = torch.nn.functional.normalize(vector.double(), dim=1)
        image = torch.bmm(self._matrix, self._vector[:, :, None])[:, :, 0]
        return (image * self._vector).sum(1) * self._scale

    def vector(self, ritz: Tensor) -> Tensor:  # noqa: ARG002
        assert self._vector is not None, "ask for the Ritz value first"
        return self._vector

    def take(self, samples: Tensor) -> DenseLanczosMatrix:
        part = object.__new__(DenseLanczosMatrix)
        part._scale, part._matrix, part._log_off = (
            self._scale[samples],
            self._matrix[samples],
            self._log_off[samples],
        )
        part._vector = None if self._vector is None else self._vector[samples]
        return part

    def _factor(self, point: Tensor) -> tuple[Tensor, Tensor]:
        """The Cholesky factor of point·I − T, and log p_k."""
        shifted = torch.diag_embed(point[:, None].expand(-1, self._matrix.shape[1])) - self._matrix
        factor, failed = torch.linalg.cholesky_ex(shifted)
        logs = 2 * factor.diagonal(dim1=1, dim2=2).clamp_min(1e-150).log().sum(1) - self._log_off
        return factor, torch.where(failed == 0, logs, -math.inf)

    def _log(self, point: Tensor) -> Tensor:
        return self._factor(point)[1]

    def _log_and_slope(self, point: Tensor) -> tuple[Tensor, Tensor]:
        factor, logs = self._factor(point)
        # d log det(λI − T)/dλ = tr (λI − T)⁻¹ = ‖L⁻¹‖_F²
        identity = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device).expand_as(factor)
        inverse = torch.linalg.solve_triangular(factor, identity, upper=False)
        return logs, inverse.square().sum((1, 2))
