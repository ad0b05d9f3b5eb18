"""Products that a GPU replays as one launch: a Lanczos run takes the same one dozens of times.

A product with the Jacobian of ResNet-50 is some thousand small kernels, which Python asks for one by one, and for a
few hundred samples the GPU waits for Python most of the time. A CUDA graph asks for all of them at once.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

__all__ = ["Replayed", "aside"]

_EAGER = 2  # calls before the capture, in which libraries choose kernels and a layer may show that it has no derivative


class _Own(threading.local):
    """Streams, and the memory that graphs share with what keeps it: each thread has its own."""

    def __init__(self) -> None:
        self.streams: dict[torch.device, torch.cuda.Stream] = {}
        self.pools: dict[torch.device, tuple[object, torch.cuda.CUDAGraph | None]] = {}


_own = _Own()


@contextlib.contextmanager
def aside(device: torch.device | None) -> Iterator[None]:
    """On a GPU, within it work goes to a stream of its own: the default stream's cannot be captured.

    Derivatives run on the stream of what they are derivatives of, so that this has to be decided before.
    """
    if device is None or device.type != "cuda":
        yield
        return
    here = torch.cuda.current_stream(device)
    if here != torch.cuda.default_stream(device):
        yield
        return
    stream = _own.streams.get(here.device)
    if stream is None:
        stream = _own.streams[here.device] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    stream.wait_stream(here)
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        here.wait_stream(stream)


class Replayed:
    """A function of one tensor that reads and writes the same memory at every call, and asks nothing of the host.

    On a GPU, in a stream that can be captured, it is replayed from the third call on. What a call returns is
    overwritten by the next.

    >>> twice = Replayed(lambda vector: 2 * vector)
    >>> [twice(torch.tensor([float(value)])).item() for value in range(4)]
    [0.0, 2.0, 4.0, 6.0]
    """

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        self._function, self._calls = function, 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._given = self._found = torch.empty(0)

    def __call__(self, vector: Tensor) -> Tensor:
        self._calls += 1
        if self._calls == _EAGER + 1 and _can_capture(vector):
            self._capture(vector)
        if self._graph is None:
            return self._function(vector)
        self._given.copy_(vector)
        self._graph.replay()
        return self._found

    def _capture(self, vector: Tensor) -> None:
        self._given = vector.clone()
        found: list[Tensor] = []
        self._graph = _captured(lambda: found.append(self._function(self._given)), _pool(vector.device))
        self._found = found[0] if self._graph is not None else self._found


def _can_capture(vector: Tensor) -> bool:
    if not vector.is_cuda:
        return False
    stream = torch.cuda.current_stream(vector.device)
    return stream != torch.cuda.default_stream(vector.device) and not torch.cuda.is_current_stream_capturing()


def _captured(work: Callable[[], object], pool: Any) -> torch.cuda.CUDAGraph | None:
    """The work as a graph, or None where it cannot be one: it asks the host something, or memory is used up.

    ``torch.cuda.graph`` would first give all cached memory back, which takes longer than the capture.
    """
    graph = torch.cuda.CUDAGraph()
    torch.cuda.current_stream().synchronize()
    try:
        # Other threads of the program may go on using the GPU meanwhile.
        graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        try:
            work()
        finally:
            graph.capture_end()
    except RuntimeError:
        return None
    return graph


def _pool(device: torch.device) -> Any:
    """The memory that all graphs share, as no two are in use at a time; a graph that does next to nothing keeps it."""
    if device not in _own.pools:
        pool = torch.cuda.graph_pool_handle()
        something = torch.zeros(1, device=device)
        _own.pools[device] = (pool, _captured(lambda: something.zero_(), pool))
    return _own.pools[device][0]
