"""How a GPU computes matrix products and convolutions, switched for a block of code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

__all__ = ["MatmulPrecision", "deterministic_convolutions", "matmul_precision"]

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

    coarse = kind == "tf32"
    try:
        products, convolutions = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    except RuntimeError:  # the program uses PyTorch's newer settings, of which the older ones cannot speak
        with _newer_settings("tf32" if coarse else "ieee"):
            yield
        return
    torch.set_float32_matmul_precision("high" if coarse else "highest")
    torch.backends.cudnn.allow_tf32 = coarse
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(products)
        torch.backends.cudnn.allow_tf32 = convolutions


@contextmanager
def _newer_settings(kind: str) -> Iterator[None]:
    import torch

    backends: Any = torch.backends  # what older versions of PyTorch lack, they do not need
    places = (backends.cuda.matmul, backends.cudnn.conv)
    before = [place.fp32_precision for place in places]
    try:
        for place in places:
            place.fp32_precision = kind
        yield
    finally:
        for place, precision in zip(places, before, strict=True):
            place.fp32_precision = precision


@contextmanager
def deterministic_convolutions() -> Iterator[None]:
    """Within it a GPU's convolutions, and their gradients, give the same bits every time."""
    import torch

    cudnn = torch.backends.cudnn
    before = cudnn.deterministic, cudnn.benchmark
    cudnn.deterministic, cudnn.benchmark = True, False
    try:
        yield
    finally:
        cudnn.deterministic, cudnn.benchmark = before
