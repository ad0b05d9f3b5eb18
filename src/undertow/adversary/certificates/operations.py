"""What a recorded network is made of: affine maps, activations, maxima and products, each on one sample at a time.

A value has the shape (B, *S) and backward rows the shape (B, K, *S), where S is the shape that the recording saw: the
axis of the batch, of size 1, may be anywhere in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from undertow.adversary.certificates.activation_curves import Curve

__all__ = ["AffineMap", "CurveOf", "InputValue", "LargestOf", "Operation", "ProductOf"]

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class InputValue:
    """What enters the network."""

    shape: Shape
    inputs: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class AffineMap:
    """(v₁, v₂, …) ↦ Σ W_i v_i + b, with W known only through products.

    ``apply`` takes and gives one sample, as recorded; ``absolute`` is m ↦ Σ |W_i| m_i + |b|, of which the size of
    rounding errors follows; ``transposed``, where there is a faster way than autograd, takes rows (R, *S) to rows·W.
    """

    shape: Shape
    inputs: tuple[int, ...]
    apply: Callable[..., Tensor]
    absolute: Callable[..., Tensor]
    input_shapes: tuple[Shape, ...]
    offset: Tensor | None = None
    """b, where it is not zero."""
    transposed: Callable[[Tensor], tuple[Tensor, ...]] | None = None
    transposed_absolute: Callable[[Tensor], tuple[Tensor, ...]] | None = None
    """The same for |W|."""
    fast_values: Callable[[Tensor], Tensor] | None = None
    fast_sizes: Callable[[Tensor], Tensor] | None = None
    """``apply`` and ``absolute`` of one input, on a batch of samples."""
    rearranges: bool = False
    """Whether every output is one of the inputs, so that nothing is rounded."""
    matrix: Tensor | None = None
    """(in, out), where W is this matrix on the last axis."""
    kernel: Tensor | None = None
    """The weight (out, in/groups, …) of a convolution."""
    stride: tuple[int, ...] | None = None
    """Of that convolution, one number for each axis; None for steps of 1, or where it is dilated."""

    def values(self, inputs: Sequence[Tensor]) -> Tensor:
        if self.fast_values is not None:
            return self.fast_values(inputs[0])
        found: Tensor = torch.vmap(self.apply)(*inputs)
        return found

    def sizes(self, inputs: Sequence[Tensor]) -> Tensor:
        """|W| m + |b|: no entry of W v + b, nor any sum on the way to it, is larger where |v| ≤ m."""
        if self.fast_sizes is not None:
            return self.fast_sizes(inputs[0])
        found: Tensor = torch.vmap(self.absolute)(*inputs)
        return found

    def backward(self, rows: Tensor) -> tuple[Tensor, ...]:
        """rows·W_i for each input: (R, *out) → (R, *in_i)."""
        if self.transposed is not None:
            return self.transposed(rows)
        return self._by_autograd(self.apply, rows)

    def backward_absolute(self, rows: Tensor) -> tuple[Tensor, ...]:
        """rows·|W_i| for each input."""
        if self.transposed_absolute is not None:
            return self.transposed_absolute(rows)
        return self._by_autograd(self.absolute, rows)

    def _by_autograd(self, function: Callable[..., Tensor], rows: Tensor) -> tuple[Tensor, ...]:
        with torch.enable_grad():
            at = [
                torch.zeros(len(rows), *shape, dtype=rows.dtype, device=rows.device, requires_grad=True)
                for shape in self.input_shapes
            ]
            value = torch.vmap(function)(*at)
            back: tuple[Tensor, ...] = torch.autograd.grad(
                value, at, rows, create_graph=rows.requires_grad, materialize_grads=True
            )
        return back


@dataclass(frozen=True, eq=False)
class CurveOf:
    """A curve, entry by entry."""

    shape: Shape
    inputs: tuple[int, ...]
    curve: Curve


@dataclass(frozen=True, eq=False)
class LargestOf:
    """Each output is the largest of the inputs that ``members`` (outputs, window) names; −1 names none."""

    shape: Shape
    inputs: tuple[int, ...]
    members: Tensor


@dataclass(frozen=True, eq=False)
class ProductOf:
    """Products of two factors that depend on the input: of matrices (b, i, k) and (b, k, j), or entry by entry."""

    shape: Shape
    inputs: tuple[int, ...]
    matrices: bool


Operation = InputValue | AffineMap | CurveOf | LargestOf | ProductOf
