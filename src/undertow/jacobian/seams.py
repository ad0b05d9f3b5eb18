"""Seams: the places where a network can be cut into head ∘ tail, found for any module tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from undertow.core.enclosing import innermost, rows_of
from undertow.core.errors import SeamError
from undertow.core.eval_mode import eval_mode
from undertow.core.outputs import OutputChoice, first_tensor
from undertow.core.plain_words import check_tensor, in_plain_words
from undertow.core.unwrapping import unwrapped
from undertow.jacobian.preconditions import prepare
from undertow.jacobian.seam_checks import held_seams
from undertow.jacobian.trace import leave_no_trace

__all__ = ["seams"]


def seams(
    net: nn.Module,
    x: Tensor | None = None,
    *,
    output: OutputChoice = None,
    extras: Mapping[str, Any] | None = None,
) -> list[str]:
    """Names of the modules after which ``net`` can be cut, from input to output, one for each place.

    A seam is a tensor that every path from the input to the output passes through. The paths are read off
    the autograd graph of one forward pass, so skip connections, reused modules and control flow are seen
    as they ran, inside nested modules too. What goes round a place without a gradient (a mask, a detached value)
    shows when the place is held fixed under another input.
    A place with several names (a block and its last layer) is listed under the shortest one.

    Args:
        net: the network, compiled or wrapped as it may be; it is looked at in eval mode and left as it was.
        x: samples (N, …) or token ids; without them an input is made up to fit the first layer.
        output: which of the network's outputs: a name, a place, a function; by default the obvious one, "logits".
        extras: what the network takes beside x, by name, a row for each sample: {"attention_mask": mask}.

    >>> seams(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)))
    ['0', '1']
    """
    net = unwrapped(net)
    if x is None:
        x = _made_up_input(net)
    check_tensor(x)
    with leave_no_trace(net, device=x.device), eval_mode(net):
        f, x = prepare(net, x, None, output=output, extras=extras)
        run = cast(nn.Module, rows_of(f, slice(0, min(len(x), 2))))
        with in_plain_words(x):
            marks, value, leaf = _record(run, x[:2])
        if not value.requires_grad:
            return []
        found = _shortest_names(marks, _dominators(value, leaf), value.grad_fn)
        return held_seams(run, found, x[:2].detach())


def _shortest_names(marks: Sequence[_Mark], places: set[object], last: object) -> list[str]:
    """One name for each place, from input to output."""
    found: dict[object, _Mark] = {}
    for mark in marks:
        if mark.calls == 1 and mark.node in places and mark.node is not last:
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
                return
            tensor = first_tensor(output)
            if tensor is not None and tensor.dim() > 0 and tensor.shape[0] == x.shape[0]:
                marks[name] = _Mark(name, len(marks), tensor.grad_fn)

        return hook

    named = innermost(net).named_modules()
    hooks = [module.register_forward_hook(note(name)) for name, module in named if name]
    try:
        output = net(leaf.clone())
    finally:
        for hook in hooks:
            hook.remove()
    if not isinstance(output, Tensor):
        raise SeamError(
            f"the network returns {type(output).__name__}: say which tensor, seams(net, x, output=…)."
        )
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


def _made_up_input(net: nn.Module) -> Tensor:
    """A random batch of two that the network accepts, guessed from its first layer and tried out."""
    parameter = next(net.parameters(), torch.zeros(()))
    dtype = parameter.dtype if parameter.is_floating_point() else torch.float32
    generator = torch.Generator().manual_seed(0)
    for shape in _plausible_shapes(net):
        x = torch.randn(2, *shape, generator=generator, dtype=dtype).to(parameter.device)
        try:
            with leave_no_trace(net, device=x.device), eval_mode(net), torch.no_grad():
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
