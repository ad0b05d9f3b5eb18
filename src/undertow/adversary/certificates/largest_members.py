"""Which inputs an output is the largest of: of poolings, and of maxima along axes."""

from __future__ import annotations

import torch
from torch import Tensor

from undertow.adversary.certificates.aten_rules import (
    Template,
    adaptive_members,
    pooling_windows,
    window_members,
)

__all__ = ["largest_members"]


def largest_members(template: Template, shape: tuple[int, ...]) -> Tensor | None:
    """The flat places (outputs, window) that each output looks at, −1 for none; None for other operations."""
    name, inputs = template.name, template.shapes[0]
    if name in ("max_pool2d_with_indices", "max_pool3d_with_indices"):
        return window_members(pooling_windows(template), inputs, shape)
    if name in ("adaptive_max_pool2d", "adaptive_max_pool3d"):
        return adaptive_members(inputs, shape)
    return _along_axes(template, shape) if name in ("amax", "max") else None


def _along_axes(template: Template, shape: tuple[int, ...]) -> Tensor:
    inputs, named = template.shapes[0], template.argument(1)
    named = [named] if isinstance(named, int) else named or range(len(inputs))
    axes = sorted({axis % len(inputs) for axis in named})
    numbers = torch.arange(torch.Size(inputs).numel()).reshape(inputs)
    rest = [axis for axis in range(len(inputs)) if axis not in axes]
    return numbers.permute(*rest, *axes).reshape(torch.Size(shape).numel(), -1)
