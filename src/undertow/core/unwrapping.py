"""The network inside what trainers put around it: compilation, data parallelism, mixed precision."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from undertow.core.errors import ModelError
from undertow.core.network_copies import copy_of

__all__ = ["as_written", "runs_autocast", "unwrapped"]

_QUANTISED = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized", "torch.nn.quantized")
_SHARDED = ("FullyShardedDataParallel", "FSDPModule")


def unwrapped(net: nn.Module) -> nn.Module:
    """The network itself: without ``torch.compile``, DistributedDataParallel or DataParallel around it.

    A compiled graph and a process group are for training. Measured is the same function on this process alone, so
    that nothing hangs where only rank 0 measures.

    >>> layer = nn.Linear(2, 1)
    >>> unwrapped(nn.DataParallel(layer)) is layer
    True
    """
    if not isinstance(net, nn.Module):
        raise ModelError(
            f"net is a {type(net).__name__}, and seams lie between modules: give a torch.nn.Module, or put the "
            "function into a module's forward."
        )
    while True:
        if any(base.__name__ in _SHARDED for module in net.modules() for base in type(module).__mro__):
            raise ModelError(
                "the network is sharded (FSDP): this process holds a part of its weights. Gather it on all ranks, "
                "for example with torch.distributed.checkpoint.state_dict.get_model_state_dict(net, "
                "options=StateDictOptions(full_state_dict=True)), load that into an ordinary copy and measure the copy."
            )
        _refuse_other_kinds(net)
        inner = _inside(net)
        if inner is None:
            return _with_gradients(net)
        net = inner


def _with_gradients(net: nn.Module) -> nn.Module:
    """The network itself, or a copy where its weights were made in inference mode and so have no derivatives."""
    if not any(tensor.is_inference() for tensor in (*net.parameters(), *net.buffers())):
        return net
    with torch.inference_mode(False):
        return copy_of(net)


def _refuse_other_kinds(net: nn.Module) -> None:
    """Refuse modules that cannot be taken apart, have no derivative or no numbers."""
    for name, module in net.named_modules():
        what = f"{name or 'the network'} is a {type(module).__name__}"
        if isinstance(module, torch.jit.ScriptModule):
            raise ModelError(
                f"{what}, compiled by torch.jit, which cannot be taken apart: give the module that it was made from."
            )
        if type(module).__module__.startswith(_QUANTISED):
            raise ModelError(
                f"{what}: quantised layers have no derivative; measure the network before quantisation."
            )
    if any(map(is_lazy, (*net.parameters(), *net.buffers()))):
        raise ModelError(
            "the network has layers that learn their size from a first batch, and has seen none: call net(x) once."
        )
    if any(parameter.is_meta for parameter in net.parameters()):
        raise ModelError(
            "the network is on the meta device, which holds no numbers: net.to_empty(device='cpu'), and load weights."
        )


def _inside(net: nn.Module) -> nn.Module | None:
    # By the name: importing DistributedDataParallel takes a second.
    if type(net).__name__ in ("DataParallel", "DistributedDataParallel"):
        return net._modules["module"]
    if "torch._dynamo" in sys.modules:  # nothing is compiled before that was imported
        original = net._modules.get("_orig_mod")
        if original is not None:
            return original
    return None


def runs_autocast(net: nn.Module) -> bool:
    """Whether accelerate has put a ``forward`` on a module of the network that switches autocast on, whoever calls.

    >>> runs_autocast(nn.Linear(1, 1))
    False
    """
    return any(_mixed(module) for module in net.modules())


@contextmanager
def as_written(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Modules with the ``forward`` that they had before accelerate prepared them for mixed precision.

    That one switches autocast on inside, which switching it off outside does not undo. Afterwards it is there again,
    also after an error.
    """
    prepared = {module: vars(module)["forward"] for module in modules if _mixed(module)}
    try:
        for module in prepared:
            original = vars(module)["_original_forward"]
            if getattr(original, "__func__", None) is type(module).forward:
                del module.forward  # then it is its class's, and its layers can be read
            else:
                module.forward = original
        yield
    finally:
        for module, forward in prepared.items():
            module.forward = forward


def _mixed(module: nn.Module) -> bool:
    # By its name too: others keep a forward under the name "_original_forward" to compute something else with it.
    own = vars(module)
    if "_original_forward" not in own or "forward" not in own:
        return False
    around = getattr(own["forward"], "__wrapped__", None)
    return type(around).__name__ == "ConvertOutputsToFp32"
