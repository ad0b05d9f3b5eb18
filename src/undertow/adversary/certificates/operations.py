"""What a recorded network is made of: affine maps, activations, maxima and products, each on one sample at a time.

A value has the shape (B, *S) and backward rows the shape (B, K, *S), where S is the shape that the recording saw: the
axis of the batch, of size 1, may be anywhere in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from undertow.adversary.certificates.activation_curves import Curve
from undertow.adversary.certificates.member_batches import MemberBatch

__all__ = [
    "AffineMap",
    "CurveOf",
    "InputValue",
    "InsideOf",
    "LargestOf",
    "Operation",
    "ProductOf",
    "SlidingWindows",
]

Shape = tuple[int, ...]


@dataclass(frozen=True)
class SlidingWindows:
    """What a convolution or a pooling looks at: ``size`` places ``dilation`` apart, every ``stride``, from −padding on.

    One number for each axis of the picture.
    """

    size: Shape
    stride: Shape
    padding: Shape
    dilation: Shape


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
    """The weight (out, in, …) of a convolution without groups, and where it is applied:"""
    windows: SlidingWindows | None = None
    keeps_order: bool = False
    """Whether the flat result is the flat input: another shape, or none."""
    entrywise: bool = False
    """Whether every entry of the result depends on the same entry of each input alone."""
    kind: tuple[object, ...] = ()
    """What the map is made of, beside its ``constants``: maps of one kind differ in these alone."""

    @property
    def stride(self) -> Shape | None:
        """Of a convolution; None for steps of 1, and where it is dilated."""
        if self.windows is None or max(self.windows.stride) == 1 or max(self.windows.dilation) > 1:
            return None
        return self.windows.stride

    constants: tuple[Tensor, ...] = ()
    """All tensors that the map is made of."""

    def shift(self, batch: MemberBatch | None) -> Tensor | None:  # noqa: ARG002
        """b, to be added to the values of a batch; None where it is zero."""
        return self.offset

    def values(self, inputs: Sequence[Tensor], batch: MemberBatch | None = None) -> Tensor:  # noqa: ARG002
        if self.fast_values is not None:
            return self.fast_values(inputs[0])
        found: Tensor = torch.vmap(self.apply)(*inputs)
        return found

    def sizes(self, inputs: Sequence[Tensor], batch: MemberBatch | None = None) -> Tensor:  # noqa: ARG002
        """|W| m + |b|: no entry of W v + b, nor any sum on the way to it, is larger where |v| ≤ m."""
        if self.fast_sizes is not None:
            return self.fast_sizes(inputs[0])
        found: Tensor = torch.vmap(self.absolute)(*inputs)
        return found

    def backward(self, rows: Tensor, batch: MemberBatch | None = None) -> tuple[Tensor, ...]:  # noqa: ARG002
        """rows·W_i for each input: (b, K, *out) → (b, K, *in_i)."""
        back = self.transposed or (lambda flat: self._by_autograd(self.apply, flat))
        return tuple(part.reshape(*rows.shape[:2], *part.shape[1:]) for part in back(rows.flatten(0, 1)))

    def backward_absolute(self, rows: Tensor, batch: MemberBatch | None = None) -> tuple[Tensor, ...]:  # noqa: ARG002
        """rows·|W_i| for each input."""
        back = self.transposed_absolute or (lambda flat: self._by_autograd(self.absolute, flat))
        return tuple(part.reshape(*rows.shape[:2], *part.shape[1:]) for part in back(rows.flatten(0, 1)))

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
    kind: tuple[object, ...] = ()
    """What the curve is made of, beside ``constants``."""
    constants: tuple[Tensor, ...] = ()


@dataclass(frozen=True, eq=False)
class LargestOf:
    """Each output is the largest of the ``entries`` inputs that ``members`` (outputs, window) names; −1 names none."""

    shape: Shape
    inputs: tuple[int, ...]
    members: Tensor
    entries: int
    windows: SlidingWindows | None = None
    """Of a pooling of pictures: then ``members`` are these windows."""

    @cached_property
    def receivers(self) -> tuple[Tensor, ...]:
        """For each input, the flat places in ``members`` that name it, one after the other.

        As many tables as windows overlap; where an input is in fewer, the place after the last.

        >>> LargestOf((2,), (0,), torch.tensor([[0, 1], [1, 2]]), 3).receivers
        (tensor([0, 1, 3]), tensor([4, 2, 4]))
        """
        flat, nowhere = self.members.flatten(), self.members.numel()
        named = (flat >= 0).nonzero().squeeze(1)
        order = named[flat[named].argsort(stable=True)]
        counts = torch.bincount(flat[named], minlength=self.entries)
        first = counts.cumsum(0) - counts
        return tuple(
            torch.where(counts > depth, order[(first + depth).clamp(max=len(order) - 1)], nowhere)
            for depth in range(int(counts.max()))
        )


@dataclass(frozen=True, eq=False)
class ProductOf:
    """Products of two factors that depend on the input: of matrices (b, i, k) and (b, k, j), or entry by entry."""

    shape: Shape
    inputs: tuple[int, ...]
    matrices: bool


@dataclass(frozen=True, eq=False)
class InsideOf:
    """What a sample has inside of a picture, and zero beside it; which entries these are, its relaxation says."""

    shape: Shape
    inputs: tuple[int, ...]


Operation = InputValue | AffineMap | CurveOf | LargestOf | ProductOf | InsideOf
