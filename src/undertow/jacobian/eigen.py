"""Largest eigenvalues of batches of small symmetric matrices."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["by_squaring", "largest_eigenvalue"]

_LARGEST_BATCH = 1 << 15
"""Matrices in one call of the GPU's eigensolver, which fails from 65,536 on."""


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
    if gram.device.type == "cuda" and len(gram) > _LARGEST_BATCH:
        pieces = [
            largest_eigenvalue(each, keep_vectors=keep_vectors) for each in torch.split(gram, _LARGEST_BATCH)
        ]
        vectors = [vector for _, vector in pieces if vector is not None]
        return torch.cat([value for value, _ in pieces]), torch.cat(vectors) if keep_vectors else None
    try:
        if keep_vectors:
            values, basis = torch.linalg.eigh(gram)
            return values[:, -1], basis[:, :, -1]
        return torch.linalg.eigvalsh(gram)[:, -1], None
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]  # happens on many repeated eigenvalues
        return by_squaring(gram)


def by_squaring(gram: Tensor, *, levels: int = 44) -> tuple[Tensor, Tensor]:
    """Largest eigenvalue and an eigenvector by repeated squaring G, G², G⁴, …, rescaled by the trace.

    After s squarings (tr G^q)^{1/q}, q = 2^s, exceeds λ_1 by at most the factor k^{1/q}, whatever the
    spectrum; nothing can fail to converge, and rounding at level s is divided by 2^s.

    >>> round(by_squaring(torch.diag(torch.tensor([3.0, 3.0, 1.0], dtype=torch.float64))[None])[0].item(), 9)
    3.0
    """
    trace = gram.diagonal(dim1=1, dim2=2).sum(1)
    zero = trace <= 0
    tolerance = 4 * torch.finfo(gram.dtype).eps
    tiny = torch.finfo(gram.dtype).tiny
    log_eigenvalue = trace.clamp_min(tiny).log()
    power = gram / torch.where(zero, 1.0, trace)[:, None, None]
    for level in range(1, levels + 1):
        power = power @ power
        trace = power.diagonal(dim1=1, dim2=2).sum(1).clamp_min(tiny)
        log_eigenvalue = log_eigenvalue + trace.log() / 2.0**level
        power = power / trace[:, None, None]
        if level % 5 == 0 and bool((zero | (trace > 1 - tolerance)).all()):
            break  # every power is a projector of rank one: nothing changes any more
    # Equal top eigenvalues leave a projector of higher rank, whose columns are all eigenvectors.
    column = power.diagonal(dim1=1, dim2=2).argmax(1)
    vector = power[torch.arange(len(power), device=power.device), column]
    vector = vector / vector.norm(dim=1, keepdim=True).clamp_min(tiny)
    return torch.where(zero, 0.0, log_eigenvalue.exp()), vector
