"""‖W‖₂ of many matrices of one shape at once, cheaply enough to be asked at every moment of training."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from undertow.core.precision import matmul_precision
from undertow.jacobian.largest_ritz import largest_ritz, log_polynomial
from undertow.jacobian.tridiagonal import miss_threshold

__all__ = ["largest_entries", "largest_singular", "need_scaling"]

_SMALL = 192  # of the smaller side: up to here the eigenvalues of the Gram matrix take less time than Lanczos
_TINY = 32
_LONG = 3  # columns to a row
_FIRST_LOOK, _LOOK_GROWTH = {"cpu": 9, "cuda": 12}, 1.4
_ROOM = 32  # vectors that there is room for at first
_PLAIN = (1e-5, 1e4)
"""Matrices whose largest entries a lie between are not copied and scaled. ‖W Wᵀv‖² has fourth powers in it: a⁴(rc)² is
to stay below float32's 3·10³⁸, and 10⁻¹² of a⁴, which a bound may hang on, above its 10⁻³⁸."""


@matmul_precision("float32")  # the bounds do not cover the rounding of TF32
def largest_singular(
    stack: Tensor, *, rtol: float = 4e-6, risk: float = 1e-3, largest: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """‖W_m‖₂ of matrices (M, r, c) and bounds of their errors, both (M,) in float64; finite matrices, none all zero.

    ``largest`` are their largest entries, (M,), where somebody knows them.

    Small ones by the eigenvalues of W Wᵀ on the smaller side, exactly. Large ones by Lanczos on it from a random start,
    with all vectors kept and orthogonalised, until the bound of Van Dorsselaer, Hochstenbach & Van der Vorst (2000) is
    within ``rtol`` (``undertow.jacobian.tridiagonal`` derives it); with probability ``risk`` at most, over the starts,
    one of the bounds fails. Vectors have the precision of the matrices; float32's rounding is part of the error.

    >>> value, error = largest_singular(torch.diag(torch.tensor([2.0, 5.0]))[None])
    >>> round(value.item(), 12), error.item() < 1e-12
    (5.0, True)
    """
    wide = stack.detach() if stack.shape[1] <= stack.shape[2] else stack.detach().mT
    largest = largest_entries(stack) if largest is None else largest
    scaling = need_scaling(*torch.stack(largest.aminmax()).tolist())
    units = largest if scaling else torch.ones_like(largest)
    wide = wide / units[:, None, None] if scaling else wide
    if wide.shape[1] <= _SMALL:
        wide = wide.double()
        gram = wide @ wide.mT
        # A GPU takes small matrices one after the other, milliseconds each.
        gram = gram.cpu() if wide.shape[1] <= _TINY else gram
        top = torch.linalg.eigvalsh(gram)[:, -1].to(wide.device)
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
    entries = stack.detach().flatten(1)
    return torch.maximum(entries.amax(1), -entries.amin(1))  # aminmax takes a CPU twenty times as long


def need_scaling(least: float, most: float) -> bool:
    """Whether matrices with largest entries from ``least`` to ``most`` are to be divided by them first.

    >>> need_scaling(1e-3, 1.0), need_scaling(1e-9, 1.0)
    (False, True)
    """
    return least < _PLAIN[0] or most > _PLAIN[1]


def _lanczos(wide: Tensor, rtol: float, risk: float) -> tuple[Tensor, Tensor]:
    """λ₁(W Wᵀ) from below, and how far above it may be.

    Between two looks at the T_k nothing is asked of the device.
    """
    members, small, _ = wide.shape
    start = torch.randn(members, small, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    basis, diagonal, off = wide.new_empty(members, _ROOM, small), list[Tensor](), list[Tensor]()
    basis[:, 0] = torch.nn.functional.normalize(start, dim=1).to(wide)
    rounding = max(1e-13, torch.finfo(wide.dtype).eps * math.sqrt(wide.shape[2]) / 2)
    times = _square_of(wide)
    known = _Known(members, -math.log(miss_threshold(small, risk)), rtol=rtol, rounding=rounding)
    look = min(_FIRST_LOOK.get(wide.device.type, 12), small)
    for step in range(small):
        if step + 1 == basis.shape[1]:
            basis = torch.cat([basis, torch.empty_like(basis)], 1)
        image = times(basis[:, step])
        kept = basis[:, : step + 1]
        along = _products(kept, image)
        image = _without(image, kept, along)
        image = _without(image, kept, _products(kept, image))
        length = torch.linalg.vector_norm(image, dim=1, keepdim=True)
        torch.div(image, length.clamp_min(1e-30), out=basis[:, step + 1])
        diagonal.append(along[:, -1:])
        off.append(length)
        if step + 1 == look:
            entries = torch.stack([torch.cat(diagonal, 1), torch.cat(off, 1)])
            known.look(*entries.double().cpu().numpy(), whole=look == small)
            if known.all:
                break
            look = min(math.ceil(_LOOK_GROWTH * look), small)
    top = torch.from_numpy(known.top).to(wide.device)
    return top, torch.from_numpy(known.room).to(wide.device) + rounding * top


def _square_of(wide: Tensor) -> Callable[[Tensor], Tensor]:
    """v ↦ W Wᵀ v. A GPU has a short W Wᵀ in the time of a few products with a long W, and keeps it in its cache."""
    if wide.device.type != "cpu" and wide.shape[2] >= _LONG * wide.shape[1]:
        gram = torch.bmm(wide, wide.mT)
        return lambda vectors: _products(gram, vectors)
    return lambda vectors: _products(wide, _products(wide.mT, vectors))


class _Known:
    """What the runs of all matrices have shown: λ₁ from below (``top``), and how far above it may be (``room``)."""

    def __init__(self, members: int, log_target: float, *, rtol: float, rounding: float) -> None:
        self.top, self.room = np.zeros(members), np.zeros(members)
        self._certain = np.zeros(members, dtype=bool)
        self._log_target, self._rtol, self._rounding = log_target, rtol, rounding

    @property
    def all(self) -> bool:
        return bool(self._certain.all())

    def look(self, diagonal: NDArray[np.float64], off: NDArray[np.float64], *, whole: bool) -> None:
        """Go on with T_k, (M, k) each, for the matrices that are not yet known well enough.

        Is log p_k(θ + room) above the target, so is λ₁ below θ + room. A next vector that is rounding alone: the
        start's space has closed, and holds all there is to find.
        """
        open_ = ~self._certain
        diagonal, off = diagonal[open_], off[open_]
        closed = off <= self._rounding * np.maximum.accumulate(diagonal, 1)
        beyond = np.maximum.accumulate(closed, 1)  # from where it closed on: what follows is noise
        off = np.where(beyond, 0.0, off)
        diagonal[:, 1:] = np.where(beyond[:, :-1], diagonal[:, :1], diagonal[:, 1:])
        exact = beyond[:, -1] | whole
        top, above = largest_ritz(diagonal, off)
        room = np.where(exact, above - top, 2 * self._rtol * top)
        proved = log_polynomial(diagonal, off, top + room) >= self._log_target
        self.top[open_], self.room[open_] = top, room
        self._certain[open_] = exact | proved


def _without(image: Tensor, kept: Tensor, along: Tensor) -> Tensor:
    """image_m − Σ_i along_mi kept_mi."""
    if image.device.type != "cpu":
        return torch.baddbmm(image[:, :, None], kept.mT, along[:, :, None], alpha=-1)[:, :, 0]
    return image - _products(kept.mT, along)


def _products(matrices: Tensor, vectors: Tensor) -> Tensor:
    """A_m v_m, (M, r): a batched product takes a CPU ten times as long as one matrix after the other."""
    if matrices.device.type != "cpu":
        return torch.bmm(matrices, vectors[:, :, None])[:, :, 0]
    if len(matrices) == 1:
        return (matrices[0] @ vectors[0])[None]
    return torch.stack([matrix @ vector for matrix, vector in zip(matrices, vectors, strict=True)])
