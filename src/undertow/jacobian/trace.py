"""Measuring leaves no trace: mode, buffers, RNG state and backend switches are put back, also after an error."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

__all__ = ["leave_no_trace"]


@contextlib.contextmanager
def leave_no_trace(f: Callable[..., Any], *, device: torch.device | None = None) -> Iterator[None]:
    """Run a block that calls ``f`` and put everything it may have changed back in place.

    Restored: train/eval flags, buffers (a spectral-norm vector, say, moves at every forward pass in
    train mode), the global RNG of the CPU and of ``device``. Parameters' ``.grad`` is never written
    because gradients are only ever taken with respect to inputs.

    Inside, attention runs on the composed ("math") kernel: the fused ones have no second derivative,
    which the Jacobian-vector product needs.
    """
    modules = list(f.modules()) if isinstance(f, nn.Module) else []
    modes = [(module, module.training) for module in modules]
    buffers = [
        (buffer, buffer.detach().clone())
        for module in modules
        for buffer in module.buffers(recurse=False)
        if module.training
    ]
    cuda = [device] if device is not None and device.type == "cuda" else []
    fastpath = torch.backends.mha.get_fastpath_enabled()
    try:
        with (
            torch.random.fork_rng(devices=cuda),
            torch.inference_mode(False),
            torch.enable_grad(),
            sdpa_kernel(SDPBackend.MATH),
        ):
            torch.backends.mha.set_fastpath_enabled(False)
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fastpath)
        for module, training in modes:
            module.training = training
        with torch.no_grad():
            for buffer, before in buffers:
                if not torch.equal(buffer, before):
                    buffer.copy_(before)
