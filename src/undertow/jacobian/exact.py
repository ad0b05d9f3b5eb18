"""Norms computed directly: a scalar output is one gradient, a small side a small Gram matrix."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from undertow.jacobian.eigen import largest_eigenvalue
from undertow.jacobian.operator import JacobianOperator

__all__ = ["exact_norms", "rounding_bound"]


def exact_norms(operator: JacobianOperator, *, keep_vectors: bool = False) -> tuple[Tensor, Tensor | None]:
    """‖J(x_i)‖₂ in float64, (N,), and on request the matching unit vectors on the small side.

    The largest singular value is the root of the largest eigenvalue of the Gram matrix of the smaller
    side, which takes one product per basis vector of that side.
    """
    gram, scale = operator.gram()
    eigenvalue, vector = largest_eigenvalue(gram.double(), keep_vectors=keep_vectors)
    norms = eigenvalue.clamp_min(0).sqrt() * scale.double()
    return norms, None if vector is None else vector.to(operator.dtype)


def rounding_bound(value: Tensor, operator: JacobianOperator) -> Tensor:
    """Rounding in a norm obtained through products of the working precision, as an absolute bound.

    A model of the errors, not an analysis of every kernel: a product of length n summed pairwise errs
    by about log₂(n) units in the last place, and a deep network is a chain of such products.
    """
    unit = torch.finfo(operator.dtype).eps
    return value * unit * (32 + 2 * math.log2(operator.in_size + operator.out_size))
