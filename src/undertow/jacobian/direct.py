"""Norms computed directly: a scalar output is one gradient, a small side a small Gram matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from undertow.jacobian.eigen import largest_eigenvalue
from undertow.jacobian.operator import JacobianOperator
from undertow.jacobian.rounding import Pullbacks

__all__ = ["ExactNorms", "exact_norms", "rounding_bound"]


@dataclass(frozen=True)
class ExactNorms:
    """‖J(x_i)‖₂ in float64, (N,), the unit vectors on the small side where asked for, and Jᵀv by what was computed."""

    value: Tensor
    vectors: Tensor | None
    pullbacks: Pullbacks


def exact_norms(operator: JacobianOperator, *, keep_vectors: bool = False) -> ExactNorms:
    """The largest singular values as roots of the largest eigenvalues of the Gram matrices of the smaller side.

    That takes one product per basis vector of that side.
    """
    gram, scale, pullbacks = operator.gram()
    eigenvalue, vector = largest_eigenvalue(gram.double(), keep_vectors=keep_vectors)
    norms = eigenvalue.clamp_min(0).sqrt() * scale.double()
    return ExactNorms(norms, None if vector is None else vector.to(operator.dtype), pullbacks)


def rounding_bound(value: Tensor, operator: JacobianOperator) -> Tensor:
    """Rounding in what is done with given products: Gram matrices, coefficients, sums of n terms.

    A product of length n summed pairwise errs by about log₂(n) units in the last place. What rounding does to the
    Jacobian itself is measured (:mod:`undertow.jacobian.rounding`).
    """
    unit = torch.finfo(operator.dtype).eps
    return value * unit * (32 + 2 * math.log2(operator.in_size + operator.out_size))
