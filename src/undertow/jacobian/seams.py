"""Seams: places where a network is cut into head ∘ tail, for any module tree, without editing the model."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from undertow.errors import SeamError, nearest
from undertow.jacobian.checks import check_input
from undertow.jacobian.trace import leave_no_trace
from undertow.sequences import as_it_looks

__all__ = ["Part", "chain", "check_seam", "seams", "split"]


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
    if type(net) is not nn.Sequential or not as_it_looks(net):
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


def seams(net: nn.Module, x: Tensor | None = None) -> list[str]:
    """Names of the modules after which ``net`` can be cut, from input to output, one for each place.

    A seam is a tensor that every path from the input to the output passes through. The paths are read off
    the autograd graph of one forward pass, so skip connections, reused modules and control flow are seen
    as they ran. Without ``x`` an input is made up to fit the first layer. A place with several names (a
    block and its last layer) is listed under the shortest one.

    >>> seams(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)))
    ['0', '1']
    """
    if x is None:
        x = _made_up_input(net)
    check_input(x)
    with leave_no_trace(net, device=x.device), _eval_mode(net):
        marks, output, leaf = _record(net, x[:2])
        if not output.requires_grad:
            return []
        places = _dominators(output, leaf)
    found: dict[object, _Mark] = {}
    for mark in marks:
        if mark.calls == 1 and mark.node in places and mark.node is not output.grad_fn:
            known = found.get(mark.node)
            if known is None:
                found[mark.node] = mark
            elif mark.name.count(".") < known.name.count("."):
                found[mark.node] = _Mark(mark.name, known.order, mark.node)
    return [mark.name for mark in sorted(found.values(), key=lambda mark: mark.order)]


@dataclass
class _Mark:
    name: str
    order: int
    node: object
    calls: int = 1


def _record(net: nn.Module, x: Tensor) -> tuple[list[_Mark], Tensor, Tensor]:
    """One forward pass, noting for each named module the autograd node of what it returned."""
    marks: dict[str, _Mark] = {}
    leaf = x.detach().clone().requires_grad_()

    def note(name: str) -> Callable[[nn.Module, object, object], None]:
        def hook(_module: nn.Module, _args: object, output: object) -> None:
            if name in marks:
                marks[name].calls += 1
            elif isinstance(output, Tensor) and output.dim() > 0 and output.shape[0] == x.shape[0]:
                marks[name] = _Mark(name, len(marks), output.grad_fn)

        return hook

    hooks = [module.register_forward_hook(note(name)) for name, module in net.named_modules() if name]
    try:
        output = net(leaf.clone())
    finally:
        for hook in hooks:
            hook.remove()
    if not isinstance(output, Tensor):
        raise SeamError(f"the network returns {type(output).__name__}, not one tensor: wrap it first.")
    return [mark for mark in marks.values() if mark.node is not None], output, leaf


def _dominators(output: Tensor, leaf: Tensor) -> set[object]:
    """Autograd nodes through which every path from ``leaf`` to ``output`` passes.

    Nodes are visited from the output down; a node that can reach the input is a cut exactly when the
    number of open branches, after counting each of its uses, has come down to itself alone.
    """
    target = torch.autograd.graph.get_gradient_edge(leaf).node
    order = _topological(output.grad_fn)
    reaches: dict[object, bool] = {}
    for node in reversed(order):  # inputs first
        reaches[node] = node is target or any(reaches.get(below, False) for below, _ in node.next_functions)  # type: ignore[attr-defined]
    live = [node for node in order if reaches[node]]
    outputs_used: dict[object, set[int]] = {}
    for node in live:
        for below, output_number in node.next_functions:  # type: ignore[attr-defined]
            outputs_used.setdefault(below, set()).add(output_number)
    position = {node: index for index, node in enumerate(live)}
    cuts: set[object] = set()
    farthest = 0  # the deepest position that an edge from above has reached so far
    for index, node in enumerate(live):
        # A node with several outputs in use (a chunk, an unbind) is a cut of the graph, but no one tensor is.
        if farthest <= index and len(outputs_used.get(node, ())) <= 1:
            cuts.add(node)
        for below, _ in node.next_functions:  # type: ignore[attr-defined]
            if reaches.get(below, False):
                farthest = max(farthest, position[below])
    return cuts


def _topological(root: object) -> list[object]:
    """Every node below ``root``, users before what they use."""
    done: set[object] = set()
    order: list[object] = []
    stack: list[tuple[object, bool]] = [(root, False)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            order.append(node)
            continue
        if node in done or node is None:
            continue
        done.add(node)
        stack.append((node, True))
        stack.extend((below, False) for below, _ in node.next_functions if below is not None)  # type: ignore[attr-defined]
    return order[::-1]


@contextlib.contextmanager
def _eval_mode(net: nn.Module) -> Iterator[None]:
    """Listing seams needs the graph's shape only, which a training network shares with a measured one."""
    net.eval()  # leave_no_trace around this puts every flag back
    yield


def _made_up_input(net: nn.Module) -> Tensor:
    """A random batch of two that the network accepts, guessed from its first layer and tried out."""
    parameter = next(net.parameters(), torch.zeros(()))
    dtype = parameter.dtype if parameter.is_floating_point() else torch.float32
    generator = torch.Generator().manual_seed(0)
    for shape in _plausible_shapes(net):
        x = torch.randn(2, *shape, generator=generator, dtype=dtype).to(parameter.device)
        try:
            with leave_no_trace(net, device=x.device), _eval_mode(net), torch.no_grad():
                net(x)
            return x
        except (RuntimeError, ValueError, IndexError, TypeError):
            continue
    raise SeamError("no input could be made up for this network: pass a small batch, seams(net, x[:2]).")


def _plausible_shapes(net: nn.Module) -> Iterator[tuple[int, ...]]:
    for module in net.modules():
        if isinstance(module, nn.Linear):
            yield (module.in_features,)
            yield (16, module.in_features)
            side = round(module.in_features**0.5)
            if side * side == module.in_features:
                yield (1, side, side)
            return
        if isinstance(module, nn.Conv2d):
            yield from ((module.in_channels, side, side) for side in (32, 28, 64, 224, 8, 16))
            return
        if isinstance(module, nn.Conv1d):
            yield from ((module.in_channels, length) for length in (64, 128, 1024))
            return
        if isinstance(module, nn.LayerNorm):
            yield (16, *module.normalized_shape)
            yield tuple(module.normalized_shape)
            return
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            yield (module.num_features,)
            yield (module.num_features, 32, 32)
            return
