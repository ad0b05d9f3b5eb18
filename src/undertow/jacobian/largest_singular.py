"""‖W‖₂ of many matrices of one shape at once, cheaply enough to be asked at every moment of training."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from undertow.jacobian.tridiagonal import miss_threshold

__all__ = ["largest_entries", "largest_singular"]

_SMALL = 192  # of the smaller side: up to here the eigenvalues of the Gram matrix take less time than Lanczos
_FIRST_LOOK, _LOOK_GROWTH = 9, 1.3
_NEWTON = 8
_ROOM = 32  # vectors that there is room for at first
_PLAIN = 1e12  # entries between its inverse and it are not scaled: their squares and sums are no trouble to float32


def largest_singular(stack: Tensor, *, rtol: float = 4e-6, risk: float = 1e-3) -> tuple[Tensor, Tensor]:
    """‖W_m‖₂ of matrices (M, r, c) and bounds of their errors, both (M,) in float64; finite matrices, none all zero.

    Small ones by the eigenvalues of W Wᵀ on the smaller side, exactly. Large ones by Lanczos on it from a random start,
    with all vectors kept and orthogonalised, until the bound of Van Dorsselaer, Hochstenbach & Van der Vorst (2000) is
    within ``rtol`` (``undertow.jacobian.tridiagonal`` derives it); with probability ``risk`` at most, over the starts,
    one of the bounds fails. Vectors have the precision of the matrices; float32's rounding is part of the error.

    >>> value, error = largest_singular(torch.diag(torch.tensor([2.0, 5.0]))[None])
    >>> round(value.item(), 12), error.item() < 1e-12
    (5.0, True)
    """
    wide = stack.detach() if stack.shape[1] <= stack.shape[2] else stack.detach().mT
    largest = largest_entries(stack)
    plain = bool((largest < _PLAIN).all()) and bool((largest > 1 / _PLAIN).all())
    units = torch.ones_like(largest) if plain else largest
    wide = wide if plain else wide / units[:, None, None]
    if wide.shape[1] <= _SMALL:
        wide = wide.double()
        top = torch.linalg.eigvalsh(wide @ wide.mT)[:, -1]
        error = top * (wide.shape[2] * 2.0**-52)  # sums of as many products, each rounded
    else:
        top, error = _lanczos(wide, rtol, risk / len(wide))
    value, units = top.sqrt(), units.double()
    return value * units, (top + error).sqrt().sub(value) * units


def largest_entries(stack: Tensor) -> Tensor:
    """max |W_ij| of each matrix, (M,), without a copy; NaN where one is.

    >>> largest_entries(torch.tensor([[[1.0, -3.0]]]))
    tensor([3.])
    """
    flat = stack.detach().flatten(1)
    return torch.maximum(flat.amax(1), -flat.amin(1))


def _lanczos(wide: Tensor, rtol: float, risk: float) -> tuple[Tensor, Tensor]:
    """λ₁(W Wᵀ) from below, and how far above it may be."""
    members, small, _ = wide.shape
    start = torch.randn(members, small, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    vector = torch.nn.functional.normalize(start, dim=1).to(wide)
    log_target = -math.log(miss_threshold(small, risk))
    rounding = max(1e-13, torch.finfo(wide.dtype).eps * math.sqrt(wide.shape[2]) / 2)
    basis, diagonal, off, look = (
        wide.new_empty(members, _ROOM, small),
        list[Tensor](),
        list[Tensor](),
        _FIRST_LOOK,
    )
    most = wide.new_zeros(members)
    for step in range(small):
        if step == basis.shape[1]:
            basis = torch.cat([basis, torch.empty_like(basis)], 1)
        basis[:, step] = vector
        image = _products(wide, _products(wide.mT, vector))
        diagonal.append((image * vector).sum(1))
        most = torch.maximum(most, diagonal[-1])
        kept = basis[:, : step + 1]
        for _ in range(2):
            image = image - _products(kept.mT, _products(kept, image))
        length = image.norm(dim=1)
        # A next vector that is rounding alone: the start's space has closed, and holds all there is to find.
        closed = length <= rounding * most
        vector = (image / length.clamp_min(1e-30)[:, None]).masked_fill(closed[:, None], 0.0)
        off.append(length.masked_fill(closed, 0.0))
        if step + 1 >= min(look, small):
            # On the CPU: a GPU takes such small matrices one after the other, milliseconds each.
            found = _top_and_room(torch.stack(diagonal, 1).cpu(), torch.stack(off, 1).cpu(), log_target)
            top, above = (each.to(wide.device) for each in found)
            if step + 1 == small or bool((above <= 2 * rtol * top).all()):
                break
            look = math.ceil(_LOOK_GROWTH * look)
    return top, above.masked_fill(torch.tensor(len(off) == small, device=above.device), 0.0) + rounding * top


def _top_and_room(diagonal: Tensor, off: Tensor, log_target: float) -> tuple[Tensor, Tensor]:
    """The largest Ritz value θ of each T_k, and s > 0 with log p_k(θ + s) = ``log_target``; 0 where the space closed.

    log p_k(λ) = Σ_i log(λ − θ_i) − Σ_j log b_j is convex and increasing in log s, so that Newton's iteration comes to
    the root from the right, where every iterate is a valid bound.
    """
    diagonal, off = diagonal.double(), off.double()
    inner = torch.diag_embed(off[:, :-1], offset=1)
    ritz = torch.linalg.eigvalsh(torch.diag_embed(diagonal) + inner + inner.mT)
    top, closed = ritz[:, -1], (off == 0).any(1)
    target = log_target + off.clamp_min(1e-300).log().sum(1)
    gaps, room = top[:, None] - ritz, 10 * top
    for _ in range(_NEWTON):
        terms = gaps + room[:, None]  # room may be smaller than the rounding of top
        excess, slope = terms.log().sum(1) - target, (room[:, None] / terms).sum(1)
        room = room * torch.exp(-excess / slope)
    return top, room.masked_fill(closed, 0.0)


def _products(matrices: Tensor, vectors: Tensor) -> Tensor:
    """A_m v_m, (M, r): a batched product takes a CPU ten times as long as one matrix after the other."""
    if matrices.device.type != "cpu":
        return torch.bmm(matrices, vectors[:, :, None])[:, :, 0]
    if len(matrices) == 1:
        return (matrices[0] @ vectors[0])[None]
    return torch.stack([matrix @ vector for matrix, vector in zip(matrices, vectors, strict=True)])
