"""Batched Golub–Kahan–Lanczos for the largest singular value of every sample's Jacobian."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from undertow.jacobian import tridiagonal
from undertow.jacobian.operator import JacobianOperator

__all__ = ["Krylov", "golub_kahan"]

# Share of fresh randomness in a warm start: enough to notice a new top direction, too little to lose the old one.
_WARM_NOISE = 0.1


@dataclass(frozen=True)
class Krylov:
    """Per sample: Ritz value, upper bound, residual, steps, miss probability, right vector on the small side."""

    value: Tensor
    upper: Tensor
    residual: Tensor
    steps: Tensor
    risk: Tensor
    converged: Tensor
    vectors: Tensor | None


def golub_kahan(
    operator: JacobianOperator,
    start: Tensor,
    *,
    warm: Tensor | None,
    rtol: float,
    max_steps: int,
    risk: float,
    keep_vectors: bool,
) -> Krylov:
    """Bidiagonalise J(x_i) from ``start`` (N, small side), each sample until its own bound is met.

    J V_k = U_k B_k and Jᵀ U_k = V_k B_kᵀ + β_k v_{k+1} e_kᵀ; T = BᵀB is the Lanczos matrix of JᵀJ. The
    basis on the small side is reorthogonalised in full (the other side needs none for the largest
    singular value, Simon & Zha 2000). If the Krylov space closes before that (rank smaller than the
    steps), β = 0 and the Ritz value is the norm itself.

    A sample has converged when its residual ‖Jᵀu − σv‖ ≤ rtol·σ and, from a random start, the upper
    bound that fails with probability ≤ ``risk`` is within rtol·σ too. From a ``warm`` start only the
    residual is asked for; ``risk`` then says what the fresh share of the start alone can promise.
    """
    run = _Run(operator, start, warm, rtol, max_steps, risk, keep_vectors)
    while run.advance():
        pass
    return run.result()


class _Run:
    def __init__(
        self,
        operator: JacobianOperator,
        start: Tensor,
        warm: Tensor | None,
        rtol: float,
        max_steps: int,
        risk: float,
        keep_vectors: bool,
    ) -> None:
        count, self.dimension = start.shape
        self.rtol, self.risk, self.warm = rtol, risk, warm is not None
        self.operator = operator
        self.adjoint = operator.out_size < operator.in_size
        self.max_steps = min(max_steps, self.dimension)
        self.threshold = tridiagonal.miss_threshold(self.dimension, risk) * (
            _WARM_NOISE if self.warm else 1.0
        )
        # Below this fraction of the largest coefficient a new direction is rounding, and the space has closed.
        self.closing = 4 * torch.finfo(start.dtype).eps * math.sqrt(self.dimension)
        self.basis = start.new_empty(count, min(32, self.max_steps), self.dimension)
        self.basis[:, 0] = _mixed(start, warm)
        self.left: Tensor | None = None
        self.alpha = start.new_zeros(count, self.max_steps, dtype=torch.float64)
        self.beta = torch.zeros_like(self.alpha)
        self.largest = start.new_zeros(count)
        self.unit: Tensor | None = None
        self.step = 0
        self.next_check = min(6, self.max_steps)
        self.active = torch.arange(count)
        # What has been found, by sample, on the CPU until the end.
        self.value = torch.zeros(count, dtype=torch.float64)
        self.upper = torch.full_like(self.value, math.inf)
        self.residual = torch.full_like(self.value, math.inf)
        self.miss = torch.ones_like(self.value)
        self.steps = torch.zeros(count, dtype=torch.int64)
        self.converged = torch.zeros(count, dtype=torch.bool)
        self.vectors = torch.zeros_like(start) if keep_vectors else None

    def _forward(self, vector: Tensor) -> Tensor:
        image = self.operator.vjp(vector) if self.adjoint else self.operator.jvp(vector)
        return image if self.unit is None else image * self.unit

    def _backward(self, vector: Tensor) -> Tensor:
        image = self.operator.jvp(vector) if self.adjoint else self.operator.vjp(vector)
        return image if self.unit is None else image * self.unit

    def advance(self) -> bool:
        """One step for all active samples; False when none is left."""
        right = self.basis[:, self.step]
        left = self._forward(right)
        if self.step == 0:
            left = self._rescale_if_extreme(left)
        elif self.left is not None:
            left = torch.addcmul(left, self.left, self.beta[:, self.step - 1, None].to(left.dtype), value=-1)
        alpha = torch.linalg.vector_norm(left, dim=1)
        self.largest = torch.maximum(self.largest, alpha)
        alpha = torch.where(alpha <= self.closing * self.largest, 0.0, alpha)
        self.left = left.mul_(_inverse(alpha)[:, None])
        onward = torch.addcmul(self._backward(self.left), right, alpha[:, None], value=-1)
        onward = self._reorthogonalised(onward)
        beta = torch.linalg.vector_norm(onward, dim=1)
        self.largest = torch.maximum(self.largest, beta)
        open_space = (alpha > 0) & (beta > self.closing * self.largest) & (self.step + 1 < self.dimension)
        beta = torch.where(open_space, beta, 0.0)
        self.alpha[:, self.step] = alpha.double()
        self.beta[:, self.step] = beta.double()
        self.step += 1
        last = self.step >= self.max_steps
        if not last:
            self._append(onward.mul_(_inverse(beta)[:, None]))
        if last or self.step >= self.next_check:
            self._check(last)
        return len(self.active) > 0

    def _rescale_if_extreme(self, left: Tensor) -> Tensor:
        """Work with J/c where J is so small or large that squares would leave float32's range."""
        size = left.abs().amax(1)
        extreme = (size > 0) & ((size < 1e-12) | (size > 1e12))
        if not bool(extreme.any()):
            return left
        self.unit = torch.where(extreme, 1 / size, 1.0)[:, None]
        return left * self.unit

    def _reorthogonalised(self, vector: Tensor) -> Tensor:
        known = self.basis[:, : self.step + 1]
        overlap = torch.bmm(known, vector[:, :, None])
        return torch.baddbmm(vector[:, None, :], overlap.mT, known, alpha=-1)[:, 0]

    def _append(self, vector: Tensor) -> None:
        if self.step == self.basis.shape[1]:
            more = min(self.basis.shape[1], self.max_steps - self.basis.shape[1])
            self.basis = torch.cat(
                [self.basis, self.basis.new_empty(len(vector), more, self.dimension)], dim=1
            )
        self.basis[:, self.step] = vector

    def _check(self, last: bool) -> None:
        """What is known by now of every active sample; those whose bound is met leave."""
        alpha, beta = self.alpha[:, : self.step].cpu(), self.beta[:, : self.step].cpu()
        diagonal = alpha.square()
        diagonal[:, 1:] += beta[:, :-1].square()
        matrix = tridiagonal.LanczosMatrix(diagonal, alpha * beta)
        ritz = matrix.ritz()
        vector = matrix.vector(ritz)
        value = ritz.clamp_min(0).sqrt()
        closed = (beta == 0).any(1)
        # The left Ritz vector is B y / σ, and the residual β_k times its last entry α_k y_k / σ.
        residual = torch.where(
            closed, 0.0, beta[:, -1] * alpha[:, -1] * vector[:, -1].abs() * _inverse(value)
        )
        upper = torch.where(closed, value, matrix.upper_bound(ritz, self.threshold).sqrt())
        tolerance = self.rtol * value
        excess = residual if self.warm else torch.maximum(residual, upper - value)
        good = closed | (excess <= tolerance)

        leaving = torch.ones_like(good) if last else good
        index = self.active[leaving]
        beyond = (value + torch.maximum(residual, tolerance)).square()
        log_miss = math.log(self.risk / self.threshold) - matrix.log_polynomial(beyond)
        unit = 1.0 if self.unit is None else self.unit[:, 0].double().cpu()[leaving]
        self.value[index] = value[leaving] / unit
        self.upper[index] = upper[leaving] / unit
        self.residual[index] = residual[leaving] / unit
        self.miss[index] = torch.where(closed, 0.0, log_miss.exp().clamp_max(1.0))[leaving]
        self.converged[index] = good[leaving]
        self.steps[index] = ((beta[leaving] > 0).cumprod(1).sum(1) + 1).clamp_max(self.step)
        if self.vectors is not None and len(index) > 0:
            self._keep_vectors(vector, leaving, index)
        if last:
            self.active = self.active[:0]
        else:
            self._schedule(excess[~good], tolerance[~good])
            self._drop(good)

    def _keep_vectors(self, small: Tensor, leaving: Tensor, index: Tensor) -> None:
        assert self.vectors is not None
        here = leaving.to(self.basis.device)
        coordinates = small[leaving].to(self.basis)
        vectors = torch.bmm(coordinates[:, None, :], self.basis[here, : self.step])[:, 0]
        self.vectors[index.to(vectors.device)] = vectors

    def _schedule(self, excess: Tensor, tolerance: Tensor) -> None:
        """The next check, where the slower half should be done: at a spectrum's edge the error falls as 1/k²."""
        if len(excess) == 0:
            return
        ratio = float((excess / tolerance.clamp_min(1e-300)).median())
        guess = self.step * min(max(ratio, 1.0) ** 0.5, 1.5)
        self.next_check = min(max(self.step + 3, math.ceil(guess)), self.max_steps)

    def _drop(self, good: Tensor) -> None:
        """Take finished samples out of the batch, once that pays for the copy."""
        remaining = int((~good).sum())
        if remaining == 0:
            self.active = self.active[:0]
        elif remaining <= 0.75 * len(good):
            index = (~good).nonzero()[:, 0]
            self.active = self.active[index]
            index = index.to(self.basis.device)
            self.operator = self.operator.take(index)
            self.basis = self.basis[index]
            self.alpha, self.beta, self.largest = self.alpha[index], self.beta[index], self.largest[index]
            self.left = None if self.left is None else self.left[index]
            self.unit = None if self.unit is None else self.unit[index]

    def result(self) -> Krylov:
        device = self.basis.device
        return Krylov(
            value=self.value.to(device),
            upper=self.upper.to(device),
            residual=self.residual.to(device),
            steps=self.steps.to(device),
            risk=self.miss.to(device),
            converged=self.converged.to(device),
            vectors=self.vectors,
        )


def _mixed(start: Tensor, warm: Tensor | None) -> Tensor:
    """Unit start vectors: random ones, or warm ones with a share of randomness.

    The miss probability bounds a density, so it holds around any fixed warm component, at the noise's scale.
    """
    start = start / torch.linalg.vector_norm(start, dim=1, keepdim=True)
    if warm is None:
        return start
    length = torch.linalg.vector_norm(warm, dim=1, keepdim=True)
    mixed: Tensor = torch.where(length > 0, warm / length.clamp_min(1e-30) + _WARM_NOISE * start, start)
    length = torch.linalg.vector_norm(mixed, dim=1, keepdim=True)
    return mixed.div_(length)


def _inverse(value: Tensor) -> Tensor:
    return torch.where(value > 0, 1 / value, 0.0)
