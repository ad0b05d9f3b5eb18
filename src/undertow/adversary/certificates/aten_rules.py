"""From recorded ATen operations to those that bounds can be carried through."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from undertow.adversary.certificates.convolution_rows import convolution_back
from undertow.adversary.certificates.operations import SlidingWindows
from undertow.adversary.certificates.recorded_graph import Recorded, UnreadableError

__all__ = [
    "ENTRYWISE",
    "JOINT",
    "KEEPING_ORDER",
    "LINEAR",
    "REARRANGING",
    "Template",
    "adaptive_members",
    "clamp_ends",
    "convolution_windows",
    "fast_forward",
    "fast_transposed",
    "matrix_of",
    "pooling_windows",
    "window_members",
]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# one result for one input, every output one of the inputs
REARRANGING = _names(
    """view _unsafe_view reshape permute transpose t expand slice select squeeze unsqueeze clone alias detach _to_copy
    lift_fresh contiguous flip roll index_select index gather repeat unfold split chunk unbind split_with_sizes
    unsafe_split unsafe_chunk unsafe_split_with_sizes pixel_unshuffle
    pixel_shuffle narrow diagonal movedim swapaxes channel_shuffle"""
)
# linear in their first argument, with weights that are not negative (or are among the other arguments)
LINEAR = REARRANGING | _names(
    """mean sum avg_pool1d avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool1d
    constant_pad_nd reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d neg cumsum im2col
    upsample_nearest1d upsample_nearest2d upsample_bilinear2d convolution div tril triu"""
)
# affine in several arguments together
JOINT = _names("add sub rsub cat stack where masked_fill diagonal_scatter index_put")
# entry by entry, where all shapes are the same
ENTRYWISE = _names("add sub rsub mul div neg")

_SHAPES = frozenset(("view", "_unsafe_view", "reshape"))
# the flat result is the flat input
KEEPING_ORDER = _SHAPES | _names("clone detach alias _to_copy unsqueeze squeeze")
_FLOATS = (torch.float16, torch.bfloat16, torch.float32)


class Template:
    """An operation with places for the values that depend on the input; its constants are in float64."""

    def __init__(self, step: Recorded, depends: dict[int, int], item: int = 0) -> None:
        leaves, self.structure = tree_flatten((step.args, step.kwargs))
        self.name, self.item = step.name, item if step.several else None
        self.function: Callable[..., Any] = torch.reshape if step.name in _SHAPES else step.function
        self.places = [
            at for at, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and id(leaf) in depends
        ]
        self.inputs = tuple(depends[id(leaves[at])] for at in self.places)
        self.shapes = tuple(tuple(leaves[at].shape) for at in self.places)
        self.leaves = [None if at in self.places else _exact(leaf) for at, leaf in enumerate(leaves)]

    @property
    def constants(self) -> tuple[Tensor, ...]:
        """The tensors among its arguments that do not depend on the input."""
        return tuple(leaf for leaf in self.leaves if isinstance(leaf, Tensor))

    @property
    def kind(self) -> tuple[object, ...]:
        """Everything else that it is made of."""
        rest = [None if isinstance(leaf, Tensor) else repr(leaf) for leaf in self.leaves]
        return self.name, self.item, str(self.structure), tuple(rest), tuple(self.places)

    def argument(self, position: int, default: Any = None) -> Any:
        """A positional argument that does not depend on the input."""
        args, _ = tree_unflatten(self.leaves, self.structure)
        return args[position] if position < len(args) else default

    def depending(self) -> list[int]:
        """The positions of the arguments that depend on the input."""
        args, _ = tree_unflatten(list(range(len(self.leaves))), self.structure)
        return [position for position, arg in enumerate(args) if set(tree_flatten(arg)[0]) & set(self.places)]

    def __call__(self, *values: Tensor) -> Tensor:
        return self._called(self.function, self.leaves, values)

    def absolute(self, *values: Tensor) -> Tensor:
        """The same with every weight replaced by its size."""
        if self.name == "neg":
            return values[0]
        function = _SIZES.get(self.name, self.function)
        return self._called(function, [_size(leaf, self.name) for leaf in self.leaves], values)

    def _called(self, function: Callable[..., Any], leaves: list[Any], values: tuple[Tensor, ...]) -> Tensor:
        filled = list(leaves)
        for place, value in zip(self.places, values, strict=True):
            filled[place] = value
        args, kwargs = tree_unflatten(filled, self.structure)
        found: Any = function(*args, **kwargs)
        result: Tensor = found if self.item is None else found[self.item]
        return result


def _exact(leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        return leaf.detach().double() if leaf.is_floating_point() else leaf
    return torch.float64 if leaf in _FLOATS else leaf


# where whole numbers are weights; elsewhere they are axes, shapes and places
_WEIGHING = _names("add sub rsub mul div masked_fill where addmm baddbmm addmv mm bmm mv dot")
# with weights that are not negative: sums instead of differences
_SIZES: dict[str, Callable[..., Any]] = {
    "sub": torch.add,
    "rsub": lambda value, other, alpha=1: other + alpha * value,
}


def _size(leaf: Any, name: str) -> Any:
    whole = name in _WEIGHING
    if isinstance(leaf, Tensor):
        return leaf.abs() if leaf.is_floating_point() or (whole and leaf.dtype != torch.bool) else leaf
    if isinstance(leaf, float) or (whole and isinstance(leaf, int) and not isinstance(leaf, bool)):
        return abs(leaf)
    return leaf


def fast_transposed(
    template: Template, weights: Callable[[Tensor], Tensor] = lambda weight: weight
) -> Callable[[Tensor], tuple[Tensor, ...]] | None:
    """rows ↦ rows·W by one product, for the maps in which networks spend their time; None for others.

    ``weights`` is applied to every entry of W first: its absolute value, or its square.
    """
    if len(template.places) != 1:
        return None
    (shape,), name = template.shapes, template.name
    position = template.depending()[0]
    if name in KEEPING_ORDER:
        return lambda rows: (rows.reshape(len(rows), *shape),)
    if len(template.leaves) <= 3 and (name, position) in (("addmm", 1), ("mm", 0)):  # no factors of its own
        matrix = weights(template.argument(2 if name == "addmm" else 1))
        return lambda rows: (rows @ matrix.T,)
    if name == "permute":
        order = [axis % len(shape) for axis in template.argument(1)]
        inverse = [0] + [1 + order.index(axis) for axis in range(len(shape))]
        return lambda rows: (rows.permute(inverse),)
    if name == "convolution":
        return _convolution_transposed(template, shape, weights(template.argument(1)))
    return None


def fast_forward(
    template: Template, shape: tuple[int, ...], weights: Callable[[Tensor], Tensor] = lambda weight: weight
) -> Callable[[Tensor], Tensor] | None:
    """The same map on a batch of samples (B, *S), without the cost of mapping over them; None where there is none."""
    name, depending = template.name, template.depending()
    if len(template.places) != 1:
        return None
    if name in KEEPING_ORDER:
        return lambda value: value.reshape(len(value), *shape)
    if name == "convolution" and depending == [0]:
        weight, bias = weights(template.argument(1)), template.argument(2)
        options = [template.argument(position) for position in range(3, 9)]
        bias = None if bias is None else weights(bias)

        def convolved(value: Tensor) -> Tensor:
            found: Tensor = torch.convolution(value.flatten(0, 1), weight, bias, *options)
            return found.reshape(len(value), *shape)

        return convolved
    if len(template.leaves) > 3:
        return None  # factors of its own
    if name == "mm" and depending == [0]:
        matrix = weights(template.argument(1))
        return lambda value: value @ matrix
    if name == "addmm" and depending == [1]:
        matrix, offset = weights(template.argument(2)), weights(template.argument(0))
        return lambda value: value @ matrix + offset
    return None


def _convolution_transposed(
    template: Template, shape: tuple[int, ...], weight: Tensor
) -> Callable[[Tensor], tuple[Tensor, ...]]:
    options = [template.argument(position) for position in range(3, 9)]
    return lambda rows: (convolution_back(rows, weight, shape, options),)


def convolution_windows(template: Template) -> SlidingWindows | None:
    """Where a convolution without groups is applied; None for other operations."""
    if template.name != "convolution" or template.argument(6) or template.argument(8) != 1:
        return None
    size = tuple(template.argument(1).shape[2:])
    stride, padding, dilation = (_each_axis(template.argument(position), len(size)) for position in (3, 4, 5))
    return SlidingWindows(size, stride, padding, dilation)


def pooling_windows(template: Template) -> SlidingWindows:
    """The windows of a max pooling."""
    size = template.argument(1)
    axes = len(template.shapes[0]) - 2
    parts = (
        size,
        template.argument(2) or size,
        template.argument(3, [0] * axes),
        template.argument(4, [1] * axes),
    )
    return SlidingWindows(*(_each_axis(part, axes) for part in parts))


def _each_axis(numbers: list[int], axes: int) -> tuple[int, ...]:
    return tuple(numbers) * axes if len(numbers) == 1 else tuple(numbers)


def window_members(windows: SlidingWindows, shape: tuple[int, ...], result: tuple[int, ...]) -> Tensor:
    """Which inputs (outputs, window) each output of a pooling (…, H, W) looks at, as flat places; −1 for none."""
    axes = len(windows.size)
    places = []
    for axis, (extent, count) in enumerate(zip(shape[-axes:], result[-axes:], strict=True)):
        starts = torch.arange(count) * windows.stride[axis] - windows.padding[axis]
        looked = starts.unsqueeze(1) + torch.arange(windows.size[axis]) * windows.dilation[axis]
        places.append(torch.where((looked >= 0) & (looked < extent), looked, -1))
    return _members(places, shape)


def adaptive_members(shape: tuple[int, ...], result: tuple[int, ...]) -> Tensor:
    """The same of an adaptive pooling to (…, H', W'): output i looks at ⌊i·H/H'⌋ … ⌈(i + 1)·H/H'⌉ − 1.

    >>> adaptive_members((1, 1, 5), (1, 1, 2)).tolist()
    [[0, 1, 2], [2, 3, 4]]
    """
    places = []
    for extent, count in zip(shape[2:], result[2:], strict=True):
        first = torch.arange(count) * extent // count
        stop = ((torch.arange(count) + 1) * extent + count - 1) // count
        looked = first.unsqueeze(1) + torch.arange(int((stop - first).max()))
        places.append(torch.where(looked < stop.unsqueeze(1), looked, -1))
    return _members(places, shape)


def _members(places: list[Tensor], shape: tuple[int, ...]) -> Tensor:
    """Flat places (outputs, window) from those (outputs, window) on each of the last axes, −1 for none."""
    flat = torch.arange(math.prod(shape[: -len(places)])).reshape(-1, 1)
    for each, extent in zip(places, shape[-len(places) :], strict=True):
        inside = (flat[:, None, :, None] >= 0) & (each[None, :, None, :] >= 0)
        both = torch.where(inside, flat[:, None, :, None] * extent + each[None, :, None, :], -1)
        flat = both.flatten(2).flatten(0, 1)
    return flat


def matrix_of(template: Template) -> Tensor | None:
    """The matrix (in, out) of a product with the input's last axis, where that is all; None for other operations."""
    if template.name == "addmm" and template.depending() == [1]:
        found = template.argument(2)
    elif template.name == "mm" and template.depending() == [0]:
        found = template.argument(1)
    else:
        return None
    # addmm may multiply by numbers of its own, which no layer does
    return found if isinstance(found, Tensor) and len(template.leaves) <= 3 else None


def clamp_ends(template: Template) -> tuple[float, float]:
    """Between which numbers a clamp keeps its input."""
    first = template.argument(1)
    low, high = (None, first) if template.name == "clamp_max" else (first, None)
    high = template.argument(2) if template.name == "clamp" else high
    if any(isinstance(end, Tensor) and end.numel() > 1 for end in (low, high)):
        raise UnreadableError("clamping every entry in limits of its own has no known linear bounds")
    return -math.inf if low is None else float(low), math.inf if high is None else float(high)
