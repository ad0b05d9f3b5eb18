"""Whether all that is said of an affine map agrees: its values, rows through it, and the sizes of its terms.

A faster way to the same numbers that is not one, or a size that is too small, would prove too much. What an operation
may be given beside its tensors (factors, signs, numbers to fill in) is more than rules can name: so every map that was
read is tried at one random point.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from undertow.adversary.certificates.operations import AffineMap
from undertow.adversary.certificates.recorded_graph import UnreadableError

__all__ = ["checked_map"]

_RTOL = 1e-9


def checked_map(operation: AffineMap, device: torch.device) -> AffineMap:
    """The map itself; an `UnreadableError` where it is not W v + b, or |W| m + |b| is smaller than it must be.

    >>> wrong = AffineMap((1,), (0,), lambda v: -2 * v, lambda m: m, ((1,),), kind=("times",))
    >>> checked_map(wrong, torch.device("cpu"))
    Traceback (most recent call last):
    undertow.adversary.certificates.recorded_graph.UnreadableError: the weights of times could not be read
    """
    if not math.prod(operation.shape) or not all(map(math.prod, operation.input_shapes)):
        return operation  # slices of nothing have no weights
    some = [_drawn(shape, device) for shape in operation.input_shapes]
    zeros = [torch.zeros_like(part) for part in some]
    direct = operation.apply(*(part[0] for part in some))
    offset = torch.zeros_like(direct) if operation.offset is None else operation.offset
    linear, size = direct - offset, offset.abs()
    most = operation.sizes([part.abs() for part in some])[0]
    slack = _RTOL * (1 + float(most.abs().amax()))
    row = _drawn(operation.shape, device).unsqueeze(0)
    total, largest = (row[0, 0] * linear).sum(), (row[0, 0].abs() * (most - size)).sum()
    parts = operation.backward(row)
    grown = operation.backward_absolute(row.abs())
    through = sum((_dot(back, part) for back, part in zip(parts, some, strict=True)), zeros[0].new_zeros(()))
    above = sum(
        (_dot(back, part.abs()) for back, part in zip(grown, some, strict=True)), through.new_zeros(())
    )
    agrees = (
        _near(operation.values(some)[0], direct, slack)
        and _near(operation.apply(*(part[0] for part in zeros)), offset, slack)
        and _near(operation.sizes(zeros)[0], size, slack)
        and bool((linear.abs() + size <= most + slack).all())
        and _near(through, total, slack * row.numel())
        and _near(above, largest, slack * row.numel())
    )
    if not agrees:
        raise UnreadableError(f"the weights of {operation.kind[0]} could not be read")
    return operation


def _drawn(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """One sample (1, *S) of normal numbers, the same every time."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(1, *shape, generator=generator, dtype=torch.float64).to(device)


def _dot(rows: Tensor, part: Tensor) -> Tensor:
    return (rows[0, 0] * part[0]).sum()


def _near(one: Tensor, other: Tensor, slack: float) -> bool:
    return one.shape == other.shape and bool(((one - other).abs() <= slack).all())
