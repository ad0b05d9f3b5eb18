"""The precision of matrix products on a GPU, switched for a block of code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

__all__ = ["MatmulPrecision", "matmul_precision"]

MatmulPrecision = Literal["float32", "tf32"]


@contextmanager
def matmul_precision(kind: MatmulPrecision) -> Iterator[None]:
    """Within it float32 matrix products have this precision, whatever the surrounding program chose.

    >>> import torch
    >>> with matmul_precision("tf32"):
    ...     torch.get_float32_matmul_precision()
    'high'
    """
    import torch  # here, because configurations name a precision without computing anything

    before = torch.get_float32_matmul_precision()
    wanted = "high" if kind == "tf32" else "highest"
    if before == wanted:
        yield
        return
    torch.set_float32_matmul_precision(wanted)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
