"""Cutting a network at seams into head ∘ tail, or into a chain of parts, without editing the model."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

from torch import Tensor, nn

from undertow.core.adapting import adapted
from undertow.core.enclosing import Enclosing, innermost, rows_of
from undertow.core.errors import SeamError, nearest
from undertow.core.networks import is_unmodified
from undertow.core.outputs import OutputChoice, first_tensor, with_first_tensor
from undertow.core.plain_words import check_tensor, in_plain_words
from undertow.core.unwrapping import unwrapped
from undertow.jacobian.seam_checks import check_seam
from undertow.jacobian.skipping import outputs_before, skipped
from undertow.jacobian.trace import leave_no_trace

__all__ = ["Part", "Reached", "chain", "split", "tails"]


class Reached(Exception):  # noqa: N818  (control flow, not an error)
    """Raised inside a forward pass to end it at a seam, by the module that ends it there."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part


class Part(Enclosing):
    """The piece of a network between two seams, as a module of its own.

    ``begin`` None means the network's input, ``end`` None its output. The network is run as it stands,
    with temporary hooks: at ``begin`` the module's output is replaced by what this part was given, and at
    ``end`` the pass is stopped. What lies before ``begin`` gives what it gave for one remembered sample, whose values
    do not matter: past a true seam nothing depends on them.
    """

    def __init__(self, net: nn.Module, begin: str | None, end: str | None, memory: _Memory) -> None:
        super().__init__()
        self.net = net
        self.begin = begin
        self.end = end
        self._memory = memory
        self.training = net.training

    def take(self, index: Tensor) -> Part:
        net = rows_of(self.net, index)
        return self if net is self.net else Part(cast(nn.Module, net), self.begin, self.end, self._memory)

    def forward(self, value: Tensor) -> Tensor:
        if self.begin is None:
            self._memory.remember(value)
            source = value
        else:
            source = self._memory.expand(len(value), like=value)
        inner = innermost(self.net)
        found: list[Tensor] = []
        begun = self.begin is None

        def replace(_module: nn.Module, _args: object, output: object) -> object:
            nonlocal begun
            begun = True
            return with_first_tensor(output, value)

        def stop(_module: nn.Module, _args: object, output: object) -> None:
            if not begun:
                raise SeamError(
                    f"seams must be named from input to output, but {self.end!r} runs before {self.begin!r}."
                )
            tensor = first_tensor(output)
            if tensor is None:
                raise SeamError(f"{self.end!r} returns no tensor: cut at a module that does.")
            found.append(tensor)
            raise Reached(self)

        hooks = []
        try:
            if self.begin is not None:
                hooks.append(inner.get_submodule(self.begin).register_forward_hook(replace))
            if self.end is not None:
                hooks.append(inner.get_submodule(self.end).register_forward_hook(stop))
            try:
                with self._short(source):
                    output = self.net(source)
            except Reached as reached:
                if reached.part is not self:
                    raise  # it ends a part that this one is within
                return found[0]
        finally:
            for hook in hooks:
                hook.remove()
        if self.end is not None:
            raise SeamError(f"the forward pass never ran {self.end!r}: choose a module that it runs.")
        return output  # type: ignore[no-any-return]

    def _short(self, source: Tensor) -> AbstractContextManager[None]:
        """The way past what lies before ``begin``, for a network that takes one tensor and nothing beside it."""
        if self.begin is None or isinstance(self.net, Enclosing):
            return nullcontext()
        return skipped(self.net, self._memory.before(self.net, self.begin, source), len(source))

    def extra_repr(self) -> str:
        return f"from {self.begin or 'the input'} to {self.end or 'the output'}"


class _Memory:
    """One sample of the network's input, shared by the parts of one cut."""

    def __init__(self, x: Tensor | None) -> None:
        self.sample = None if x is None else x[:1].detach()
        self._before: dict[tuple[object, ...], dict[str, Any]] = {}

    def before(self, net: nn.Module, begin: str, source: Tensor) -> dict[str, Any]:
        """What modules before a seam give for one sample, found once for every kind of input."""
        key = (begin, net.training, source.dtype, source.device, *source.shape[1:])
        if key not in self._before:
            self._before[key] = outputs_before(net, begin, source[:1]) if not net.training else {}
        return self._before[key]

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


def split(
    net: nn.Module,
    seam: str,
    *,
    x: Tensor | None = None,
    output: OutputChoice = None,
    extras: Mapping[str, Any] | None = None,
) -> tuple[nn.Module, nn.Module]:
    """Head and tail with net = head ∘ tail, cut after the module named ``seam``.

    Both use the network's own modules; nothing is copied or changed. A part can be split again. Of token ids
    the tail begins behind the embedding.

    Args:
        net: the network, or a part that an earlier split gave.
        seam: the name of a module, one of :func:`undertow.seams`.
        x: samples, by which the cut is verified; without them the head learns the input's shape from the tail's first
            call. A network of tokens, with an output that is chosen or with extras, wants them.
        output: which of the network's outputs: a name, a place, a function; by default the obvious one, "logits".
        extras: what the network takes beside x, by name, a row for each sample: {"attention_mask": mask}.

    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> import torch
    >>> head, tail = split(net, "1")
    >>> x = torch.ones(4, 2)
    >>> torch.equal(head(tail(x)), net(x))
    True
    """
    tail, head = chain(net, [seam], x=x, output=output, extras=extras)
    return head, tail


def chain(
    net: nn.Module,
    names: Sequence[str],
    *,
    x: Tensor | None = None,
    output: OutputChoice = None,
    extras: Mapping[str, Any] | None = None,
) -> tuple[nn.Module, ...]:
    """The parts of ``net`` between consecutive seams, from input to output.

    Args:
        net: the network.
        names: seams in the order in which a sample passes them.
        x: samples, by which every cut is verified.
        output: which of the network's outputs: a name, a place, a function; by default the obvious one, "logits".
        extras: what the network takes beside x, by name, a row for each sample: {"attention_mask": mask}.

    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> [len(part) for part in chain(net, ["1", "3"])]
    [2, 2, 1]
    """
    if not names:
        raise SeamError("name at least one seam; undertow.seams(net, x) lists them.")
    net = unwrapped(net)
    modules = dict(innermost(net).named_modules())
    for name in names:
        if name not in modules or name == "":
            raise SeamError(
                f"the network has no module {name!r}: {nearest(str(name), [n for n in modules if n])}"
            )
    if len(set(names)) < len(names):
        raise SeamError(f"a seam is named twice in {list(names)}.")
    if x is not None:
        check_tensor(x)
        with leave_no_trace(net, device=x.device):
            net, x = adapted(net, x, output=output, extras=extras)
            with in_plain_words(x):
                for name in names:
                    check_seam(net, name, x)
    elif output is not None or extras:
        raise SeamError("a network with an output to choose or extras is cut at samples: pass x as well.")
    slices = _sequential_slices(net, names)
    if slices is not None:
        return slices
    memory = _Memory(x)
    bounds = [None, *names, None]
    return tuple(Part(net, begin, end, memory) for begin, end in itertools.pairwise(bounds))


def tails(net: nn.Module, names: Sequence[str]) -> list[nn.Module]:
    """The tail before each of several seams that are known to cut ``net``, with that network's own modules.

    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> [len(tail) for tail in tails(net, ["0", "1"])]
    [1, 2]
    """
    memory = _Memory(None)
    cuts = (_sequential_slices(net, [name]) for name in names)
    return [
        Part(net, None, name, memory) if cut is None else cut[0]
        for name, cut in zip(names, cuts, strict=True)
    ]


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
