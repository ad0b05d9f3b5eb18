"""The pretended GPU as a block of code."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, ClassVar
from unittest import mock

import torch

from tests.pretended_gpu.graphs import Graph, Machine
from tests.pretended_gpu.streams import Stream
from tests.pretended_gpu.tensors import Operations, Requests
from undertow.core.every_operation import EveryOperation

__all__ = ["pretended_gpu"]

_PLAIN_GENERATOR = torch.Generator
_GIGABYTE = 2**30


class _AnyGenerator(type(_PLAIN_GENERATOR)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _PLAIN_GENERATOR)


class _Generator(_PLAIN_GENERATOR, metaclass=_AnyGenerator):
    """A generator that may be the GPU's."""

    of_gpu: ClassVar[dict[int, torch.Generator]] = {}

    def __new__(cls, device: Any = "cpu") -> _Generator:
        made: _Generator = super().__new__(cls, "cpu")  # type: ignore[call-arg]
        if torch.device(device).type == "cuda":
            cls.of_gpu[made._cdata] = made  # type: ignore[attr-defined]
        return made


@contextlib.contextmanager
def pretended_gpu() -> Iterator[Machine]:
    """Within it "cuda" is a device whose tensors are computed on the CPU, and which refuses what a GPU refuses.

    Tensors of both devices in one operation (``MixedDevicesError``), and while a graph is being captured whatever
    waits for the device or copies from or to the host (``HostAskedError``), or two streams on the same memory
    (``RaceError``). What was captured is replayed, so that a number of the host that a step has baked in shows in its
    results. Nothing is compiled. Kernels are those of the CPU: how a GPU rounds and how long it takes do not show.
    """
    machine = Machine()
    Graph.machine, _Generator.of_gpu = machine, machine.operations.generators
    requests = Requests(machine.operations)
    with contextlib.ExitStack() as stack:
        for name, value in _driver(machine).items():
            stack.enter_context(mock.patch.object(torch.cuda, name, value))
        stack.enter_context(mock.patch.object(torch, "Generator", _Generator))
        stack.enter_context(mock.patch.object(torch, "compile", lambda function, **_: function))
        stack.enter_context(mock.patch("undertow.core.compiling._room", contextlib.nullcontext))
        stack.enter_context(mock.patch.object(EveryOperation, "__torch_dispatch__", _asking(requests)))
        stack.enter_context(machine.operations)
        stack.enter_context(requests)
        yield machine


def _driver(machine: Machine) -> dict[str, Any]:
    return {
        "current_stream": lambda *_: machine.present,
        "default_stream": lambda *_: machine.default,
        "Stream": Stream,
        "stream": machine.stream,
        "graph": machine.graph,
        "CUDAGraph": Graph,
        "device": lambda *_: contextlib.nullcontext(),
        "graph_pool_handle": lambda: (0, 0),
        "is_current_stream_capturing": lambda: machine.capturing,
        "synchronize": machine.wait,
        "empty_cache": lambda: None,
        "mem_get_info": lambda *_: (4 * _GIGABYTE, 8 * _GIGABYTE),
        "memory_allocated": lambda *_: _GIGABYTE,
        "memory_reserved": lambda *_: 2 * _GIGABYTE,
        "get_per_process_memory_fraction": lambda *_: 1.0,
        "get_device_capability": lambda *_: (9, 0),
        "get_device_name": lambda *_: "pretended",
        "get_rng_state": lambda *_: torch.zeros(16, dtype=torch.uint8),
        "set_rng_state": lambda *_: None,
    }


def _asking(requests: Requests) -> Callable[..., Any]:
    """A dispatch mode of undertow's is reached from inside of PyTorch, where none of Python's functions pass by."""
    plain = EveryOperation.__torch_dispatch__

    def dispatch(self: EveryOperation, *args: Any) -> Any:
        if isinstance(self, Operations):
            return plain(self, *args)
        with requests:
            return plain(self, *args)

    return dispatch
