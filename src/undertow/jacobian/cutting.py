"""Cutting a network at seams into head ∘ tail, or into a chain of parts, without editing the model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from undertow.core.errors import SeamError, nearest
from undertow.core.networks import is_unmodified
from undertow.jacobian.trace import leave_no_trace

__all__ = ["Part", "chain", "check_seam", "split"]


class _Reached(Exception):  # noqa: N818  (control flow, not an error)
    """Raised inside a forward pass to end it at a seam."""


class Part(nn.Module):
    """The piece of a network between two seams, as a module of its own.

    ``begin`` None means the network's input, ``end`` None its output. The network is run as it stands,
    with temporary hooks: at ``begin`` the module's output is replaced by what this part was given, and at
    ``end`` the pass is stopped. What lies before ``begin`` is run on one remembered sample, whose values
    do not matter: past a true seam nothing depends on them.
    """

    def __init__(self, net: nn.Module, begin: str | None, end: str | None, memory: _Memory) -> None:
        super().__init__()
        self.net = net
        self.begin = begin
        self.end = end
        self._memory = memory
        self.training = net.training

    def forward(self, value: Tensor) -> Tensor:
        if self.begin is None:
            self._memory.remember(value)
            source = value
        else:
            source = self._memory.expand(len(value), like=value)
        modules = dict(self.net.named_modules())
        found: list[Tensor] = []
        begun = self.begin is None

        def replace(_module: nn.Module, _args: object, _output: object) -> Tensor:
            nonlocal begun
            begun = True
            return value

        def stop(_module: nn.Module, _args: object, output: Tensor) -> None:
            if not begun:
                raise SeamError(
                    f"seams must be named from input to output, but {self.end!r} runs before {self.begin!r}."
                )
            found.append(output)
            raise _Reached

        hooks = []
        try:
            if self.begin is not None:
                hooks.append(modules[self.begin].register_forward_hook(replace))
            if self.end is not None:
                hooks.append(modules[self.end].register_forward_hook(stop))
            try:
                output = self.net(source)
            except _Reached:
                return found[0]
        finally:
            for hook in hooks:
                hook.remove()
        if self.end is not None:
            raise SeamError(f"the forward pass never ran {self.end!r}: choose a module that it runs.")
        return output  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        return f"from {self.begin or 'the input'} to {self.end or 'the output'}"


class _Memory:
    """One sample of the network's input, shared by the parts of one cut."""

    def __init__(self, x: Tensor | None) -> None:
        self.sample = None if x is None else x[:1].detach()

    def remember(self, x: Tensor) -> None:
        self.sample = x[:1].detach()

    def expand(self, count: int, *, like: Tensor) -> Tensor:
        if self.sample is None:
            raise SeamError(
                "the head does not know what the network's input looks like: call the tail once before, "
                "or pass it: split(net, seam, x=x[:1])."
            )
        sample = self.sample.to(like.device)
        if sample.is_floating_point() and like.is_floating_point():
            sample = sample.to(like.dtype)
        return sample.repeat(count, *(1 for _ in sample.shape[1:]))


def split(net: nn.Module, seam: str, *, x: Tensor | None = None) -> tuple[nn.Module, nn.Module]:
    """Head and tail with net = head ∘ tail, cut after the module named ``seam``.

    Both use the network's own modules; nothing is copied or changed. Given ``x``, the cut is verified by
    a gradient; without it the head learns the input's shape from the tail's first call.

    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> head, tail = split(net, "1")
    >>> x = torch.ones(4, 2)
    >>> torch.equal(head(tail(x)), net(x))
    True
    """
    tail, head = chain(net, [seam], x=x)
    return head, tail


def chain(net: nn.Module, names: Sequence[str], *, x: Tensor | None = None) -> tuple[nn.Module, ...]:
    """The parts of ``net`` between consecutive seams, from input to output.

    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> [len(part) for part in chain(net, ["1", "3"])]
    [2, 2, 1]
    """
    if not names:
        raise SeamError("name at least one seam; undertow.seams(net, x) lists them.")
    modules = dict(net.named_modules())
    for name in names:
        if name not in modules or name == "":
            raise SeamError(f"the network has no module {name!r}: {nearest(name, [n for n in modules if n])}")
    if len(set(names)) < len(names):
        raise SeamError(f"a seam is named twice in {list(names)}.")
    if x is not None:
        with leave_no_trace(net, device=x.device):
            for name in names:
                check_seam(net, name, x)
    slices = _sequential_slices(net, names)
    if slices is not None:
        return slices
    memory = _Memory(x)
    bounds = [None, *names, None]
    return tuple(Part(net, begin, end, memory) for begin, end in itertools.pairwise(bounds))


def _sequential_slices(net: nn.Module, names: Sequence[str]) -> tuple[nn.Module, ...] | None:
    """Plain slices where every seam is a child of one ``nn.Sequential``: no hooks, and the parts stay readable."""
    if type(net) is not nn.Sequential or not is_unmodified(net):
        return None
    children = list(net._modules)
    if any(name not in children for name in names):
        return None
    cuts = [0, *(children.index(name) + 1 for name in names), len(children)]
    if cuts != sorted(cuts):
        raise SeamError(f"seams must be named from input to output, not {list(names)}.")
    parts = []
    for begin, end in itertools.pairwise(cuts):
        part = nn.Sequential()
        part._modules.update({name: net._modules[name] for name in children[begin:end]})
        part.training = net.training
        parts.append(part)
    return tuple(parts)


def check_seam(net: nn.Module, name: str, x: Tensor) -> None:
    """Refuse a seam that does not cut ``net``, by a gradient and not by guesswork.

    The seam's output is replaced by a constant; whatever gradient still reaches the input has gone round it. What
    goes round it without a gradient shows when the same constant is given along with another input.
    """
    modules = dict(net.named_modules())
    few = x[:2].detach()
    leaf = few.clone().requires_grad_(few.is_floating_point())
    calls: list[object] = []

    def cut(_module: nn.Module, _args: object, output: object) -> object:
        constant = output.detach().clone() if isinstance(output, Tensor) else output
        calls.append(constant)
        return constant.clone() if isinstance(constant, Tensor) else constant

    cuda = [x.device] if x.device.type == "cuda" else []
    hook = modules[name].register_forward_hook(cut)
    try:
        with torch.random.fork_rng(devices=cuda):
            output = net(leaf.clone())
    finally:
        hook.remove()
    if not calls:
        raise SeamError(f"the forward pass never runs {name!r}: choose a module that it runs.")
    if len(calls) > 1:
        raise SeamError(
            f"{name!r} runs {len(calls)} times in one forward pass, so it is not one place: "
            "name the module around it, or one that runs once."
        )
    (value,) = calls
    if not isinstance(value, Tensor) or value.dim() < 1 or value.shape[0] != few.shape[0]:
        raise SeamError(
            f"{name!r} does not return one tensor with a row per sample: cut at a module that does."
        )
    if not isinstance(output, Tensor):
        raise SeamError(f"the network returns {type(output).__name__}, not one tensor: wrap it first.")
    if output.requires_grad and leaf.requires_grad:
        (around,) = torch.autograd.grad(output, leaf, torch.ones_like(output), allow_unused=True)
        if around is not None:
            raise SeamError(
                f"{name!r} is bypassed: part of the input reaches the output around it (a skip connection). "
                f"Cut at the module that joins the branches; undertow.seams(net, x) lists the places."
            )
    if not few.is_floating_point():
        return
    hook = modules[name].register_forward_hook(lambda _module, _args, _output: value.clone())
    try:
        with torch.random.fork_rng(devices=cuda), torch.no_grad():
            replayed = net(-few.flip(0))
    finally:
        hook.remove()
    size = float(output.detach().abs().max())
    if not math.isfinite(size):
        return  # a network that gives NaN is refused by whatever measures it
    if replayed.shape != output.shape or not torch.allclose(replayed, output, rtol=1e-3, atol=1e-5 * size):
        raise SeamError(
            f"{name!r} is bypassed: the output depends on the input around it without a gradient (a mask, or a "
            "detached value), so what follows is not a function of it alone. Cut behind the place where they join."
        )
