"""Linear maps applied to batches, each network's to its own samples, at tensor-core speed without losing float32."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from undertow.core.precision import matmul_precision

__all__ = ["Factor"]

_LARGE = 2**19  # entries from which splitting pays on a GPU


class Factor:
    """x ↦ x Wᵀ and y ↦ y W for one weight matrix, or for the matrices W_m, (M, out, in), of several networks.

    The samples of a batch follow one another network by network; ``counts[m]`` of them belong to the m-th.

    A large float32 product on a GPU is split in three: with every factor written as hi + lo, hi having the ten
    mantissa bits that tensor cores read, x W = x_hi W_hi + x_hi W_lo + x_lo W_hi up to x_lo W_lo, about 2⁻²¹ of the
    product. That is float32's accuracy in well under half its time.

    >>> factor = Factor(torch.tensor([[[2.0]], [[3.0]]]))
    >>> factor.times(torch.ones(3, 1), (1, 2))
    tensor([[2.],
            [3.],
            [3.]])
    """

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight if weight.dim() == 3 else weight[None]
        self.splits = (
            weight.device.type == "cuda" and weight.dtype == torch.float32 and weight[0].numel() >= _LARGE
        )
        self._parts = _split(self.weight) if self.splits else (self.weight,)

    @cached_property
    def kernel(self) -> Factor:
        """W Wᵀ, formed in float64: a row and a column struck out of it then lose nothing to the others' rounding."""
        wide = self.weight.double()
        return Factor((wide @ wide.mT).to(self.weight.dtype))

    def times(self, x: Tensor, counts: tuple[int, ...]) -> Tensor:
        """x Wᵀ."""
        return _each(x, tuple(part.mT for part in self._parts), counts)

    def back(self, y: Tensor, counts: tuple[int, ...]) -> Tensor:
        """y W."""
        return _each(y, self._parts, counts)


def _each(x: Tensor, parts: tuple[Tensor, ...], counts: tuple[int, ...]) -> Tensor:
    """Every network's samples times its own matrix, (M, n, k) in one part or two."""
    if counts.count(counts[0]) == len(counts):
        return _product(x.reshape(len(counts), counts[0], -1), parts).flatten(0, 1)
    found = x.new_empty(len(x), parts[0].shape[2])
    begin = 0
    for member, count in enumerate(counts):
        end = begin + count
        if count:
            found[begin:end] = _product(x[None, begin:end], tuple(part[member, None] for part in parts))[0]
        begin = end
    return found


def _product(x: Tensor, parts: tuple[Tensor, ...]) -> Tensor:
    if len(parts) == 2:
        return _in_three(x, *parts)
    return torch.bmm(x, parts[0]) if len(x) > 1 else (x[0] @ parts[0][0])[None]


def _split(x: Tensor) -> tuple[Tensor, Tensor]:
    """hi + lo = x exactly, where hi keeps ten mantissa bits.

    >>> hi, lo = _split(torch.tensor([1 + 2**-12]))
    >>> hi.item(), lo.item() == 2**-12
    (1.0, True)
    """
    high = (x.view(torch.int32) & -(2**13)).view(torch.float32)
    return high, x - high


def _in_three(x: Tensor, high: Tensor, low: Tensor) -> Tensor:
    x_high, x_low = _split(x.contiguous())
    with matmul_precision("tf32"):
        product = torch.bmm(x_low, high)  # small terms first
        product = torch.baddbmm(product, x_high, low, out=product)
        return torch.baddbmm(product, x_high, high, out=product)
