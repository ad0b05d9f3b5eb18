"""One training step as a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

__all__ = ["capture"]

_WARM_UP = 3  # steps before the capture, in which the libraries choose kernels and take their workspace


def capture(step: Callable[[], None], *, changed: Sequence[Tensor]) -> Callable[[], None] | None:
    """A function that replays ``step`` as one launch, or None where it cannot be captured.

    ``step`` reads and writes the same tensors at every call and asks nothing of the host; ``changed`` are
    those it writes, and they leave here as they came.
    """
    device = changed[0].device
    before = [tensor.clone() for tensor in changed]

    def put_back() -> None:
        for tensor, value in zip(changed, before, strict=True):
            tensor.copy_(value)

    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.device(device):
            aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside):
                for _ in range(_WARM_UP):
                    step()
                    put_back()  # else the count of steps would run on, past the last full batch of a short epoch
            torch.cuda.current_stream().wait_stream(aside)
            with torch.cuda.graph(graph, stream=_stream_for_captures(device)):
                step()
    except RuntimeError:  # an operation that cannot be captured: the caller goes on step by step
        return None
    finally:
        put_back()
    return graph.replay


_STREAMS: dict[torch.device, torch.cuda.Stream] = {}


def _stream_for_captures(device: torch.device) -> torch.cuda.Stream:
    """One for each GPU: PyTorch's own is on the GPU of the first capture, where nothing of another one's is captured.

    The graph is then empty, and its replays, which PyTorch warns of and nothing refuses, leave the weights as they are.
    """
    if device not in _STREAMS:
        _STREAMS[device] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    return _STREAMS[device]
