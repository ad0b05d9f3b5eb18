"""What one neuron of a convolution sees: a small network on a patch of the input, the same at every place.

Limits of a convolution's results need a backward row for every neuron, and such a row is zero but for a patch: of a
layer of 16×14×14 neurons a neuron behind a 4×4 kernel sees 16×4×4. So the operations before a convolution are read as a
network on patches, the places of the picture are its samples, and its rows are those of one place: the same numbers,
without the zeros. What zero padding puts around a picture is cut off the rows where they enter it (`InsideOf`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from undertow.adversary.certificates.aten_rules import window_members
from undertow.adversary.certificates.convolution_rows import convolution_back
from undertow.adversary.certificates.network_graph import NetworkGraph
from undertow.adversary.certificates.operations import (
    AffineMap,
    CurveOf,
    InputValue,
    InsideOf,
    LargestOf,
    Operation,
    SlidingWindows,
)
from undertow.adversary.certificates.picture_windows import PictureWindow
from undertow.adversary.certificates.stacked_graphs import stacked_graph

__all__ = ["PatchNetwork", "patch_network"]

Picture = tuple[int, int, int]
_ONE = PictureWindow((0, 0), (1, 1), (1, 1))


@dataclass(frozen=True, eq=False)
class PatchNetwork:
    """A ``graph`` from patches to the channels of one place; of each operation, what it is a part of.

    ``origins`` names the operation of the whole network and the window of its result, ``pictures`` the channels, lines
    and columns of that, ``places`` the lines and columns of the convolution's result.
    """

    graph: NetworkGraph
    origins: tuple[tuple[int, PictureWindow], ...]
    pictures: dict[int, Picture]
    places: tuple[int, int]


def patch_network(graph: NetworkGraph, at: int) -> PatchNetwork | None:
    """The network that neurons see whose layer is a picture; None where what is before it is not made of pictures."""
    if graph.members:
        each = [patch_network(member, at) for member in graph.members]
        patches = [patch for patch in each if patch is not None]
        together = stacked_graph([patch.graph for patch in patches]) if len(patches) == len(each) else None
        return None if together is None else replace(patches[0], graph=together)
    seen = _windows_before(graph, at)
    if seen is None:
        return None
    windows, pictures = seen
    kernels = [op.kernel for op in graph.operations if isinstance(op, AffineMap) and op.kernel is not None]
    if not kernels:
        return None
    builder = _Builder(graph, windows, pictures, kernels[0].device)
    for index in sorted(windows):
        if not builder.add(index):
            return None
    local = NetworkGraph(tuple(builder.operations), builder.local[at])
    return PatchNetwork(local, tuple(builder.origins), pictures, pictures[at][1:])


def _windows_before(
    graph: NetworkGraph, at: int
) -> tuple[dict[int, PictureWindow], dict[int, Picture]] | None:
    """The window of every operation on the way to one place, and its picture; None where one has no picture."""
    shape = graph.operations[at].shape
    if len(shape) != 4 or shape[0] != 1:
        return None
    windows, pictures = {at: _ONE}, {at: _picture(shape)}
    for index in range(at, 0, -1):
        if index not in windows:
            continue
        operation, window, picture = graph.operations[index], windows[index], pictures[index]
        if isinstance(operation, AffineMap) and operation.kernel is not None:
            assert operation.windows is not None
            window, picture = window.before(operation.windows), _picture(operation.input_shapes[0])
        elif isinstance(operation, LargestOf) and operation.windows is not None:
            shape = graph.operations[operation.inputs[0]].shape
            window, picture = window.before(operation.windows), _picture(shape)
        elif not _same_places(operation):
            return None
        for source in operation.inputs:
            both = windows[source].joined(window) if source in windows else window
            if both is None or pictures.setdefault(source, picture) != picture:
                return None
            windows[source] = both
    return (windows, pictures) if 0 in windows else None


def _picture(shape: tuple[int, ...]) -> Picture:
    return shape[-3], shape[-2], shape[-1]


def _same_places(operation: Operation) -> bool:
    """Whether each entry of the result depends on that entry of the inputs alone."""
    return isinstance(operation, CurveOf) or (
        isinstance(operation, AffineMap) and (operation.entrywise or operation.keeps_order)
    )


class _Builder:
    """Adds the operations of the whole network one by one, each on its window."""

    def __init__(
        self,
        graph: NetworkGraph,
        windows: dict[int, PictureWindow],
        pictures: dict[int, Picture],
        device: torch.device,
    ) -> None:
        self.graph, self.windows, self.pictures = graph, windows, pictures
        self.places = pictures[max(windows)][1:]
        self.device = device
        self.operations: list[Operation] = []
        self.origins: list[tuple[int, PictureWindow]] = []
        self.local: dict[int, int] = {}

    def add(self, index: int) -> bool:
        """Whether the operation could be read on its window."""
        operation, window = self.graph.operations[index], self.windows[index]
        made: Operation | None
        if isinstance(operation, InputValue):
            made = InputValue(self._shape(index, window))
        elif isinstance(operation, AffineMap) and operation.kernel is not None:
            made = self._convolution(index, operation)
        elif isinstance(operation, LargestOf):
            made = self._pooling(index, operation)
        elif isinstance(operation, CurveOf):
            made = replace(
                operation, shape=self._shape(index, window), inputs=(self._cut(operation.inputs[0], window),)
            )
        elif isinstance(operation, AffineMap) and operation.keeps_order:
            self.local[index] = self._cut(operation.inputs[0], window)
            return True
        else:
            assert isinstance(operation, AffineMap)
            made = self._entrywise(index, operation)
        if made is None:
            return False
        self.local[index] = self._append(made, index, window)
        return True

    def _append(self, operation: Operation, index: int, window: PictureWindow) -> int:
        self.operations.append(operation)
        self.origins.append((index, window))
        return len(self.operations) - 1

    def _shape(self, index: int, window: PictureWindow) -> tuple[int, ...]:
        return 1, self.pictures[index][0], *window.size

    def _cut(self, source: int, window: PictureWindow) -> int:
        """The local operation whose result is this window of a source, which may have been read on a larger one."""
        whole, at = self.windows[source], self.local[source]
        if whole == window:
            return at
        top, left = (window.start[axis] - whole.start[axis] for axis in range(2))
        height, width = window.size
        margins = left, whole.size[1] - left - width, top, whole.size[0] - top - height

        def cut(value: Tensor) -> Tensor:
            return value[..., top : top + height, left : left + width]

        made = AffineMap(
            shape=self._shape(source, window),
            inputs=(at,),
            apply=cut,
            absolute=cut,
            input_shapes=(self._shape(source, whole),),
            transposed=lambda rows: (functional.pad(rows, margins),),
            rearranges=True,
            kind=("cut", margins),
        )
        return self._append(made, source, window)

    def _inside(self, source: int, window: PictureWindow) -> int:
        """The same without what lies beside the picture, where zeros are put around it."""
        at = self._cut(source, window)
        if not any(window.margins(self.pictures[source][1:], self.places)):
            return at
        return self._append(InsideOf(self._shape(source, window), (at,)), source, window)

    def _convolution(self, index: int, operation: AffineMap) -> AffineMap | None:
        assert operation.windows is not None
        assert operation.kernel is not None
        windows, kernel = replace(operation.windows, padding=(0, 0)), operation.kernel
        needed = self.windows[index].before(operation.windows)
        source = self._inside(operation.inputs[0], needed)
        offset = _everywhere_alike(operation.offset, self.pictures[index], self.device)
        if offset is None:
            return None
        shape, before = self._shape(index, self.windows[index]), self._shape(operation.inputs[0], needed)
        options: list[Any] = [windows.stride, (0, 0), windows.dilation, False, (0, 0), 1]

        def convolved(value: Tensor, weight: Tensor, shift: Tensor) -> Tensor:
            found: Tensor = torch.convolution(value, weight, None, *options)
            return found + shift

        size = kernel.abs()
        return AffineMap(
            shape=shape,
            inputs=(source,),
            apply=lambda value: convolved(value, kernel, offset),
            absolute=lambda value: convolved(value, size, offset.abs()),
            input_shapes=(before,),
            offset=None if operation.offset is None else offset.expand(shape),
            transposed=lambda rows: (convolution_back(rows, kernel, before, options),),
            kernel=kernel,
            windows=windows,
            kind=("convolution", windows),
            constants=(kernel, offset),
        )

    def _pooling(self, index: int, operation: LargestOf) -> LargestOf:
        assert operation.windows is not None
        needed = self.windows[index].before(operation.windows)
        source = self._cut(
            operation.inputs[0], needed
        )  # beside the picture is nothing, which is never the largest
        shape, before = self._shape(index, self.windows[index]), self._shape(operation.inputs[0], needed)
        windows: SlidingWindows = replace(operation.windows, padding=(0, 0))
        members = window_members(windows, before, shape).to(operation.members)
        return LargestOf(shape, (source,), members, math.prod(before), windows)

    def _entrywise(self, index: int, operation: AffineMap) -> AffineMap | None:
        window, picture = self.windows[index], self.pictures[index]
        ones = torch.ones(1, *operation.shape, dtype=torch.float64, device=self.device)
        slopes = [
            _everywhere_alike(back[0, 0], picture, self.device)
            for back in operation.backward(ones.unsqueeze(0))
        ]
        offset = _everywhere_alike(operation.offset, picture, self.device)
        if offset is None or any(slope is None for slope in slopes):
            return None
        known = [slope for slope in slopes if slope is not None]
        shape = self._shape(index, window)

        def summed(weights: list[Tensor], shift: Tensor, values: tuple[Tensor, ...]) -> Tensor:
            return sum((w * v for w, v in zip(weights, values, strict=True)), shift.expand(shape))

        sizes = [slope.abs() for slope in known]
        return AffineMap(
            shape=shape,
            inputs=tuple(self._cut(source, window) for source in operation.inputs),
            apply=lambda *values: summed(known, offset, values),
            absolute=lambda *values: summed(sizes, offset.abs(), values),
            input_shapes=(shape,) * len(operation.inputs),
            offset=None if operation.offset is None else offset.expand(shape),
            transposed=lambda rows: tuple(rows * slope for slope in known),
            entrywise=True,
            kind=("entrywise", len(known)),
            constants=(*known, offset),
        )


def _everywhere_alike(values: Tensor | None, picture: Picture, device: torch.device) -> Tensor | None:
    """(1, C, 1, 1) of values that are the same at every place of a picture; zeros for none; None where they differ."""
    if values is None:
        return torch.zeros(1, picture[0], 1, 1, dtype=torch.float64, device=device)
    if values.numel() != math.prod(picture):
        return None
    each = values.reshape(1, *picture)
    first = each[:, :, :1, :1]
    return first if bool((each == first).all()) else None
