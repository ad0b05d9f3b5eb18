"""The top left singular vectors v(x) of D(x)W, D = diag σ′(Wx): in which direction the first layer amplifies most."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from undertow.jacobian.eigen import largest_eigenvalue

__all__ = ["TopVectors", "tail_norms", "top_vectors"]


@dataclass(frozen=True)
class TopVectors:
    """Per point: ‖D(x)W‖₂ (P,), the unit vectors v(x) (P, m), and aᵀv(x) (P,), of which none is negative."""

    norm: Tensor
    left: Tensor
    towards: Tensor


def top_vectors(weight: Tensor, slopes: Tensor, head: Tensor) -> TopVectors:
    """v(x) for W (m, d) and the slopes σ′(Wx) of every point, (P, m), from the Gram matrix of the smaller side.

    A singular vector has no sign of its own, so that the products aᵀv(τ)·aᵀv(t) of Theorem 5.5 have none either. Here
    aᵀv ≥ 0: the theorem's main term is then the smallest of those that its text allows.

    >>> weight = torch.tensor([[3.0, 0.0], [0.0, 4.0]], dtype=torch.float64)
    >>> top = top_vectors(weight, torch.tensor([[1.0, 1.0], [1.0, 0.0]]).double(), torch.ones(2).double())
    >>> top.norm, top.left.abs()
    (tensor([4., 3.], dtype=torch.float64), tensor([[0., 1.],
            [1., 0.]], dtype=torch.float64))
    """
    kept, gram = _gram(weight, slopes)
    value, vectors = largest_eigenvalue(gram, keep_vectors=True)
    assert vectors is not None
    if kept is None:  # the right vectors u: DWu = ‖DW‖ v
        vectors = slopes * (vectors @ weight.T)
        vectors = vectors / vectors.norm(dim=1, keepdim=True).clamp_min(torch.finfo(vectors.dtype).tiny)
    else:
        vectors = torch.zeros_like(slopes).scatter(1, kept, vectors)
    towards = vectors @ head
    left = vectors * torch.where(towards < 0, -1.0, 1.0)[:, None]
    return TopVectors(value.clamp_min(0).sqrt(), left, towards.abs())


def tail_norms(weight: Tensor, slopes: Tensor) -> Tensor:
    """‖D(x)W‖₂ alone, (P,)."""
    return largest_eigenvalue(_gram(weight, slopes)[1])[0].clamp_min(0).sqrt()


def _gram(weight: Tensor, slopes: Tensor) -> tuple[Tensor | None, Tensor]:
    """WᵀD²W (P, d, d), or where that is smaller DWWᵀD without the neurons that a point has switched off.

    Those have zero rows: of ReLU networks about half are left, and an eighth of the work. Which ones they are comes
    first, (P, k), k being the most that any point has on; points with fewer keep some of their zero rows.
    """
    most = int((slopes != 0).sum(1).max())
    if most > weight.shape[1]:
        return None, (weight.T * slopes.square()[:, None, :]) @ weight
    kept = (slopes != 0).to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, : max(most, 1)]
    on = slopes.gather(1, kept)
    products = (weight @ weight.T)[kept[:, :, None], kept[:, None, :]]
    return kept, on[:, :, None] * products * on[:, None, :]
