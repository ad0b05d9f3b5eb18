"""Whether a place cuts a network: verified by a gradient, and by holding it fixed under another input."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from undertow.core.enclosing import innermost, rows_of
from undertow.core.errors import SeamError
from undertow.core.outputs import first_tensor, with_first_tensor

__all__ = ["check_seam", "held_seams"]

Hook = Callable[[nn.Module, object, object], object]


def check_seam(net: nn.Module, name: str, x: Tensor) -> None:
    """Refuse a seam that does not cut ``net``, by a gradient and not by guesswork.

    The seam's output is replaced by a constant; whatever gradient still reaches the input has gone round it. What
    goes round it without a gradient shows when the same constant is given along with another input.
    """
    few = x[:2].detach()
    run = rows_of(net, slice(0, len(few)))
    leaf = few.clone().requires_grad_(few.is_floating_point())
    calls: list[object] = []

    def cut(_module: nn.Module, _args: object, output: object) -> object:
        tensor = first_tensor(output)
        if tensor is None:
            calls.append(output)
            return output
        constant = tensor.detach().clone()
        calls.append(constant)
        return with_first_tensor(output, constant.clone())

    with _hooked(net, {name: cut}, x.device):
        output = run(leaf.clone())
    value = _only_value(name, calls, len(few))
    if not isinstance(output, Tensor):
        raise SeamError(
            f"the network returns {type(output).__name__}: say which tensor is meant, with x=… and output=…."
        )
    if output.requires_grad and leaf.requires_grad:
        (around,) = torch.autograd.grad(output, leaf, torch.ones_like(output), allow_unused=True)
        if around is not None:
            raise SeamError(
                f"{name!r} is bypassed: part of the input reaches the output around it (a skip connection). "
                f"Cut at the module that joins the branches; undertow.seams(net, x) lists the places."
            )
    if few.is_floating_point() and not _decides(net, run, name, value, few, output):
        raise SeamError(
            f"{name!r} is bypassed: the output depends on the input around it without a gradient (a mask, or a "
            "detached value), so what follows is not a function of it alone. Cut behind the place where they join."
        )


def held_seams(net: nn.Module, names: Sequence[str], x: Tensor) -> list[str]:
    """Those of the names after which nothing goes round without a gradient; by one pass each, over all of ``x``.

    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> held_seams(net, ["0", "1"], torch.randn(2, 2))
    ['0', '1']
    """
    values: dict[str, Tensor] = {}

    def keep(name: str) -> Hook:
        def hook(_module: nn.Module, _args: object, output: object) -> None:
            tensor = first_tensor(output)
            if tensor is not None:
                values[name] = tensor.detach().clone()

        return hook

    with torch.no_grad(), _hooked(net, {name: keep(name) for name in names}, x.device):
        output = net(x.clone())
    return [name for name in names if _decides(net, net, name, values[name], x, output)]


def _decides(
    net: nn.Module, run: Callable[[Tensor], Tensor], name: str, value: Tensor, few: Tensor, output: Tensor
) -> bool:
    """Whether the output stays what it is for another input when the seam's value does."""

    def fix(_module: nn.Module, _args: object, own: object) -> object:
        return with_first_tensor(own, value.clone())

    with torch.no_grad(), _hooked(net, {name: fix}, few.device):
        replayed = run(-few.flip(0))
    size = float(output.detach().abs().max())
    if not math.isfinite(size):
        return True  # a network that gives NaN is refused by whatever measures it
    return replayed.shape == output.shape and torch.allclose(replayed, output, rtol=1e-3, atol=1e-5 * size)


@contextmanager
def _hooked(net: nn.Module, hooks: dict[str, Hook], device: torch.device) -> Iterator[None]:
    """Within it modules have these hooks; random numbers that are drawn are given back."""
    inner = innermost(net)
    handles = [inner.get_submodule(name).register_forward_hook(hook) for name, hook in hooks.items()]
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            yield
    finally:
        for handle in handles:
            handle.remove()


def _only_value(name: str, calls: Sequence[object], count: int) -> Tensor:
    if not calls:
        raise SeamError(f"the forward pass never runs {name!r}: choose a module that it runs.")
    if len(calls) > 1:
        raise SeamError(
            f"{name!r} runs {len(calls)} times in one forward pass, so it is not one place: "
            "name the module around it, or one that runs once."
        )
    (value,) = calls
    if not isinstance(value, Tensor) or value.dim() < 1 or value.shape[0] != count:
        raise SeamError(
            f"{name!r} does not return one tensor with a row per sample: cut at a module that does."
        )
    return value
