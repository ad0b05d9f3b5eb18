"""Measuring leaves no trace: mode, buffers, RNG state and backend switches are put back, also after an error."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from undertow.core.deadline import whatever_the_time
from undertow.core.plain_attention import plain_attention
from undertow.core.plain_checkpoints import plain_checkpoints
from undertow.core.unwrapping import as_written
from undertow.jacobian.replaying import aside

__all__ = ["composed", "leave_no_trace"]


@contextlib.contextmanager
def leave_no_trace(f: Callable[..., Any], *, device: torch.device | None = None) -> Iterator[None]:
    """Run a block that calls ``f`` and put everything it may have changed back in place.

    Restored: train/eval flags, buffers, changed or replaced (a spectral-norm vector, say, moves at every forward
    pass in train mode), the global RNG of the CPU and of ``device``. Parameters' ``.grad`` is never written
    because gradients are only ever taken with respect to inputs.

    Inside, attention runs on the composed ("math") kernel: the fused ones have no second derivative,
    which the Jacobian-vector product needs; so do recurrent layers, for the same reason. Compiled modules run as they
    are written. Autocast is off, also where accelerate has put it into the network: error bounds count the rounding of
    the dtype that a network holds, not of one that its products are taken in.
    """
    with _ONE_AT_A_TIME, _left_as_it_was(f, device):
        yield


_ONE_AT_A_TIME = threading.RLock()
"""Hooks on a network, the global RNG and backend switches are every thread's."""


@contextlib.contextmanager
def _left_as_it_was(f: Callable[..., Any], device: torch.device | None) -> Iterator[None]:
    modules = list(f.modules()) if isinstance(f, nn.Module) else []
    modes = [(module, module.training) for module in modules]
    buffers = [
        (module, name, buffer, buffer.detach().clone(), _version(buffer))
        for module in modules
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    cuda = [device] if device is not None and device.type == "cuda" else []
    try:
        with (
            torch.random.fork_rng(devices=cuda),
            torch.inference_mode(False),
            torch.enable_grad(),
            torch.autocast("cpu", enabled=False),
            torch.autocast("cpu" if device is None else device.type, enabled=False),
            composed(modules),
            as_written(modules),
            aside(device),
        ):
            yield
    finally:
        for module, training in modes:
            if module.training != training:  # setting an attribute of a module takes longer than reading it
                module.training = training
        with whatever_the_time(), torch.no_grad():
            for module, name, buffer, before, version in buffers:
                if module._buffers.get(name) is not buffer:
                    module._buffers[name] = buffer
                if (version is None or buffer._version != version) and not torch.equal(buffer, before):
                    buffer.copy_(before)


@contextlib.contextmanager
def composed(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Modules in plain operations, whose derivatives have derivatives: neither fused nor compiled nor run again."""
    with plain_attention(), plain_checkpoints(), _composed_recurrence(modules), _uncompiled():
        yield


@contextlib.contextmanager
def _composed_recurrence(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Recurrent layers step by step in plain operations, where there are any: fused ones have no second derivative."""
    if not any(isinstance(module, nn.RNNBase) for module in modules):
        yield
        return
    fused = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)  # ``mkldnn.flags`` would speak of TF32 wherever there is none
    try:
        with torch.backends.cudnn.flags(enabled=False):
            yield
    finally:
        torch._C._set_mkldnn_enabled(fused)


def _uncompiled() -> contextlib.AbstractContextManager[object]:
    """Modules that were compiled in place, or hold compiled ones, run as they are written."""
    if "torch._dynamo" not in sys.modules:  # nothing was compiled; importing it takes seconds
        return contextlib.nullcontext()
    stance = getattr(torch.compiler, "set_stance", None)
    if stance is None:
        return contextlib.nullcontext()
    found: contextlib.AbstractContextManager[object] = stance("force_eager")
    return found


def _version(tensor: Tensor) -> int | None:
    """How often a tensor has been written in place; inference tensors do not count."""
    return None if tensor.is_inference() else tensor._version
