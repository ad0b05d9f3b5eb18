"""The precision of matrix products and convolutions on a GPU, switched for a block of code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

__all__ = ["MatmulPrecision", "matmul_precision"]

MatmulPrecision = Literal["float32", "tf32"]


@contextmanager
def matmul_precision(kind: MatmulPrecision) -> Iterator[None]:
    """Within it float32 matrix products and convolutions have this precision, whatever the surrounding program chose.

    PyTorch by itself computes products in float32, but convolutions in TF32.

    >>> import torch
    >>> with matmul_precision("tf32"):
    ...     torch.get_float32_matmul_precision()
    'high'
    """
    import torch  # here, because configurations name a precision without computing anything

    products, convolutions = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    coarse = kind == "tf32"
    torch.set_float32_matmul_precision("high" if coarse else "highest")
    torch.backends.cudnn.allow_tf32 = coarse
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(products)
        torch.backends.cudnn.allow_tf32 = convolutions
