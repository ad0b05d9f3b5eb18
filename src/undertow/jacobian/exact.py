"""Norms computed directly: a scalar output is one gradient, a small side a small Gram matrix."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from undertow.jacobian.operator import JacobianOperator

__all__ = ["by_squaring", "exact_norms", "largest_eigenvalue", "rounding_bound"]

_TINY = 1e-300


def exact_norms(operator: JacobianOperator, *, keep_vectors: bool = False) -> tuple[Tensor, Tensor | None]:
    """‖J(x_i)‖₂ in float64, (N,), and on request the matching unit vectors on the small side.

    The largest singular value is the root of the largest eigenvalue of the Gram matrix of the smaller
    side, which takes one product per basis vector of that side.
    """
    gram, scale = operator.gram()
    eigenvalue, vector = largest_eigenvalue(gram.double(), keep_vectors=keep_vectors)
    norms = eigenvalue.clamp_min(0).sqrt() * scale.double()
    return norms, None if vector is None else vector.to(operator.dtype)


def largest_eigenvalue(gram: Tensor, *, keep_vectors: bool = False) -> tuple[Tensor, Tensor | None]:
    """Largest eigenvalues (N,) of positive semi-definite matrices (N, k, k) in float64, and eigenvectors (N, k).

    >>> largest_eigenvalue(torch.diag(torch.tensor([3.0, 1.0], dtype=torch.float64))[None])[0].item()
    3.0
    """
    size = gram.shape[-1]
    if size == 1:
        return gram[:, 0, 0], torch.ones_like(gram[:, 0])
    if gram.device.type == "cuda" and size > 32:
        return by_squaring(gram)  # the GPU's eigensolver takes larger matrices one at a time
    try:
        if keep_vectors:
            values, vectors = torch.linalg.eigh(gram)
            return values[:, -1], vectors[:, :, -1]
        return torch.linalg.eigvalsh(gram)[:, -1], None
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]  # happens on many repeated eigenvalues
        return by_squaring(gram)


def by_squaring(gram: Tensor) -> tuple[Tensor, Tensor]:
    """Largest eigenvalue and an eigenvector by repeated squaring G, G², G⁴, …, rescaled by the trace.

    After s squarings (tr G^q)^{1/q}, q = 2^s, exceeds λ_1 by at most the factor k^{1/q}, whatever the
    spectrum; nothing can fail to converge, and rounding at level s is divided by 2^s.

    >>> round(by_squaring(torch.diag(torch.tensor([3.0, 3.0, 1.0], dtype=torch.float64))[None])[0].item(), 9)
    3.0
    """
    trace = gram.diagonal(dim1=1, dim2=2).sum(1)
    zero = trace <= 0
    log_eigenvalue = trace.clamp_min(_TINY).log()
    power = gram / torch.where(zero, 1.0, trace)[:, None, None]
    for level in range(1, 45):
        power = power @ power
        trace = power.diagonal(dim1=1, dim2=2).sum(1).clamp_min(_TINY)
        log_eigenvalue = log_eigenvalue + trace.log() / 2.0**level
        power = power / trace[:, None, None]
        if level % 5 == 0 and bool((zero | (trace > 1 - 1e-15)).all()):
            break  # every power is a projector of rank one: nothing changes any more
    # Equal top eigenvalues leave a projector of higher rank, whose columns are all eigenvectors.
    column = power.diagonal(dim1=1, dim2=2).argmax(1)
    vector = power[torch.arange(len(power), device=power.device), column]
    vector = vector / vector.norm(dim=1, keepdim=True).clamp_min(_TINY)
    return torch.where(zero, 0.0, log_eigenvalue.exp()), vector


def rounding_bound(value: Tensor, operator: JacobianOperator) -> Tensor:
    """Rounding in a norm obtained through products of the working precision, as an absolute bound.

    A model of the errors, not an analysis of every kernel: a product of length n summed pairwise errs
    by about log₂(n) units in the last place, and a deep network is a chain of such products.
    """
    unit = torch.finfo(operator.dtype).eps
    return value * unit * (32 + 2 * math.log2(operator.in_size + operator.out_size))
