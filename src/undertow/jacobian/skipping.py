"""Running a network from a seam on without computing what lies before it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

__all__ = ["outputs_before", "skipped"]


def outputs_before(net: nn.Module, begin: str, sample: Tensor) -> dict[str, Any]:
    """What modules return that are done before ``begin`` is, for one sample (1, …); the outermost ones, by name.

    Only modules that run once, and whose output is nothing but rows that change with the input: past a true seam
    nothing depends on those, so any values will do. What does not change with the input (a mask, a bias of positions
    that later layers share) may be needed, and such modules go on being run.

    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> sorted(outputs_before(net, "1", torch.ones(1, 2)))
    ['0', '1']
    """
    calls: dict[str, int] = {}
    found: dict[str, Any] = {}
    begun = False

    def note(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(_module: nn.Module, _args: Any, output: Any) -> None:
            nonlocal begun
            calls[name] = calls.get(name, 0) + 1
            if not begun and _changes_with_input(output):
                found[name] = tree_map(lambda leaf: leaf[:1].detach().clone(), output)
            begun = begun or name == begin

        return hook

    named = {name: module for name, module in net.named_modules() if name and "forward" not in vars(module)}
    with _only_hooks(net, {name: note(name) for name in named}), torch.no_grad():
        net(torch.cat([sample, -sample]))
    once = {name: output for name, output in found.items() if calls[name] == 1}
    return {
        name: output
        for name, output in once.items()
        if not any(name.startswith(f"{other}.") for other in once)
    }


@contextmanager
def _only_hooks(net: nn.Module, hooks: Mapping[str, Callable[[nn.Module, Any, Any], None]]) -> Iterator[None]:
    """Within it modules have these hooks and no others: this pass is nobody else's."""
    modules = dict(net.named_modules())
    others = [(module, module._forward_hooks) for module in modules.values()]
    try:
        for module in modules.values():
            module._forward_hooks = OrderedDict()
        for name, hook in hooks.items():
            modules[name].register_forward_hook(hook)
        yield
    finally:
        for module, own in others:
            module._forward_hooks = own


def _changes_with_input(output: Any) -> bool:
    leaves = tree_leaves(output)
    return bool(leaves) and all(
        isinstance(leaf, Tensor) and leaf.dim() > 0 and len(leaf) == 2 and not torch.equal(leaf[0], leaf[1])
        for leaf in leaves
    )


@contextmanager
def skipped(net: nn.Module, outputs: Mapping[str, Any], count: int) -> Iterator[None]:
    """Within it these modules return what they did before, repeated for ``count`` samples, without being run."""
    modules = {name: net.get_submodule(name) for name in outputs}

    def stub(output: Any) -> Callable[..., Any]:
        return lambda *_args, **_kwargs: tree_map(
            lambda leaf: leaf.expand(count, *leaf.shape[1:]).clone(), output
        )

    try:
        for name, output in outputs.items():
            modules[name].__dict__["forward"] = stub(output)
        yield
    finally:
        for name in outputs:
            modules[name].__dict__.pop("forward", None)
