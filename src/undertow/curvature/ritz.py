"""What a Lanczos run knows of the largest eigenvalues of a symmetric matrix that need not be definite."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from undertow.jacobian.tridiagonal import LanczosMatrix

__all__ = ["RitzValues", "top_of_two"]


class RitzValues:
    """Eigenvalues of M tridiagonal matrices T_k with diagonal (M, k) and off-diagonal (M, k), as b_k is beyond T_k.

    The polynomials p_k of :mod:`undertow.jacobian.tridiagonal` do not change when a multiple of the identity is
    added to both A and T_k, and nothing in their bound needs a definite A. So the bounds of a semi-definite matrix are
    used on T_k + sI, with s from Gershgorin's disks.

    >>> a, b = torch.tensor([[-5.0, 1.0]]).double(), torch.tensor([[0.0, 0.5]]).double()
    >>> RitzValues(a, b).value.tolist()        # the largest, though -5 is larger in modulus
    [1.0]
    """

    def __init__(self, diagonal: Tensor, off: Tensor) -> None:
        self._diagonal, self._off = diagonal, off
        inner = off[:, :-1]
        matrix = torch.diag_embed(diagonal)
        matrix += torch.diag_embed(inner, 1) + torch.diag_embed(inner, -1)
        self.values: Tensor
        self.vectors: Tensor
        self.values, self.vectors = torch.linalg.eigh(matrix)  # ascending, (M, k), and columns (M, k, k)

    @property
    def value(self) -> Tensor:
        """θ, the largest, (M,): a Rayleigh quotient, so never more than the largest eigenvalue of A."""
        return self.values[:, -1]

    def coordinates(self, count: int) -> Tensor:
        """Unit eigenvectors of the ``count`` largest, in falling order, (M, count, k)."""
        return self.vectors[:, :, -count:].flip(2).mT

    @property
    def residual(self) -> Tensor:
        """‖Ax − θx‖ = b_k |y_k|, (M,): some eigenvalue of A lies that close to θ."""
        return self.residuals[:, -1]

    @property
    def residuals(self) -> Tensor:
        """The same of every Ritz value, (M, k)."""
        return self._off[:, -1, None] * self.vectors[:, -1].abs()

    def log_polynomial(self, point: Tensor) -> Tensor:
        """log p_k at one point per matrix, (M,); −∞ where it is not beyond θ."""
        return self._shifted.log_polynomial(point + self._shift)

    def upper_bound(self, log_target: float) -> Tensor:
        """The point beyond θ where log p_k = ``log_target``, (M,)."""
        return self._shifted.upper_bound(self.value + self._shift, log_target, begin=2.0) - self._shift

    @cached_property
    def _shift(self) -> Tensor:
        disks = self._diagonal.clone()
        disks[:, 1:] -= self._off[:, :-1]
        disks[:, :-1] -= self._off[:, :-1]
        return -disks.amin(1).clamp_max(0.0)

    @cached_property
    def _shifted(self) -> LanczosMatrix:
        return LanczosMatrix(self._diagonal + self._shift[:, None], self._off)


def top_of_two(first: Tensor, second: Tensor, between: Tensor) -> Tensor:
    """The largest eigenvalue of [[a, c], [c, b]].

    >>> top_of_two(torch.tensor(0.0), torch.tensor(3.0), torch.tensor(2.0))
    tensor(4.)
    """
    return (first + second) / 2 + torch.hypot((first - second) / 2, between)
