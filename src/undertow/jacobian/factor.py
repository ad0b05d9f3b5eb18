"""One linear map applied to batches, at tensor-core speed without losing float32."""

from __future__ import annotations

import torch
from torch import Tensor

from undertow.precision import matmul_precision

__all__ = ["Factor"]

_LARGE = 2**19  # entries from which splitting pays on a GPU


class Factor:
    """x ↦ x Wᵀ and y ↦ y W for a weight matrix W.

    A large float32 product on a GPU is split in three: with every factor written as hi + lo, hi having the ten
    mantissa bits that tensor cores read, x W = x_hi W_hi + x_hi W_lo + x_lo W_hi up to x_lo W_lo, about 2⁻²¹ of the
    product. That is float32's accuracy in well under half its time.
    """

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight
        self.splits = (
            weight.device.type == "cuda" and weight.dtype == torch.float32 and weight.numel() >= _LARGE
        )
        self._parts = _split(weight) if self.splits else (weight, weight)

    def times(self, x: Tensor) -> Tensor:
        """x Wᵀ."""
        return _in_three(x, *(part.T for part in self._parts)) if self.splits else x @ self.weight.T

    def back(self, y: Tensor) -> Tensor:
        """y W."""
        return _in_three(y, *self._parts) if self.splits else y @ self.weight


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
        product = x_low @ high  # small terms first
        product = torch.addmm(product, x_high, low, out=product)
        return torch.addmm(product, x_high, high, out=product)
