"""Graphs of the pretended GPU: what was captured is replayed operation by operation."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tests.pretended_gpu.nested import tensors_in
from tests.pretended_gpu.refusals import HostAskedError
from tests.pretended_gpu.streams import Stream, Uses, memory_of
from tests.pretended_gpu.tensors import OnGpu, Operations, carried_out

__all__ = ["Graph", "Machine"]


@dataclass
class _Recorded:
    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    fresh: list[Tensor | None]

    def again(self) -> None:
        """Done once more, with the results where they were."""
        if not any(value is not None for value in self.fresh) and not self.func._schema.is_mutable:
            return  # a view
        found = tensors_in(carried_out(self.func, self.args, self.kwargs))
        for place, value in zip(self.fresh, found, strict=True):
            if place is not None:
                place.copy_(value)


class Graph:
    """What ``torch.cuda.CUDAGraph`` is: operations between two moments, done again by ``replay``."""

    machine: Machine

    def __init__(self) -> None:
        self.stream: Stream | None = None  # that it was captured on, where one was given
        self._recorded: list[_Recorded] = []
        self.replays = 0

    def capture_begin(self, **_: object) -> None:
        self.machine.begin(self)

    def capture_end(self) -> None:
        self.machine.end()

    def record(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], found: Any) -> None:
        given = set(map(memory_of, tensors_in(args) + tensors_in(kwargs)))
        fresh = [None if memory_of(each) in given else each for each in tensors_in(found)]
        self._recorded.append(_Recorded(func, args, kwargs, fresh))

    def replay(self) -> None:
        self.replays += 1
        with torch.no_grad():
            for each in self._recorded:
                each.again()


class Machine:
    """Which stream is the present one, and which graph is being captured; ``refused`` is all that was."""

    def __init__(self) -> None:
        self.operations = Operations(self._seen, self._made)
        self.refused = self.operations.refused
        self.default = Stream()
        self.graphs: list[Graph] = []
        self._present = [self.default]
        self._uses = Uses()

    @property
    def present(self) -> Stream:
        return self._present[-1]

    @property
    def capturing(self) -> bool:
        return self.operations.capturing

    def begin(self, graph: Graph) -> None:
        self.graphs.append(graph)
        self.operations.capturing, self._uses = True, Uses()

    def end(self) -> None:
        self.operations.capturing = False
        unjoined = self._uses.unjoined(self.present)
        if unjoined is not None:
            raise self.operations.refusing(unjoined)

    def wait(self, *_: object) -> None:
        """What ``synchronize`` does."""
        if self.capturing:
            raise self.operations.refusing(HostAskedError("synchronize() while a graph is being captured"))

    @contextlib.contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        self._present.append(stream)
        try:
            yield
        finally:
            self._present.pop()

    @contextlib.contextmanager
    def graph(self, graph: Graph, *, stream: Stream | None = None) -> Iterator[None]:
        graph.stream = stream
        stream = Stream() if stream is None else stream
        with self.stream(stream):
            graph.capture_begin()
            try:
                yield
            finally:
                graph.capture_end()
        self.present.wait_stream(stream)

    def _seen(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], found: Any) -> None:
        if not self.capturing:
            return
        self.graphs[-1].record(func, args, kwargs, found)
        race = self._uses.note(func, args, kwargs, found, stream=self.present)
        if race is not None:
            raise self.operations.refusing(race)

    def _made(self, tensor: OnGpu) -> None:
        weakref.finalize(tensor, self._uses.let_go, self._uses.held(tensor.held))
