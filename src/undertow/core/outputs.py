"""One tensor out of what a network returns: a tensor, a tuple, a dictionary, a dataclass."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from undertow.core.errors import ModelError, nearest

__all__ = ["OutputChoice", "first_tensor", "picked_output", "returning", "with_first_tensor"]

OutputChoice: TypeAlias = str | int | Callable[[Any], Tensor] | None
"""Which of a network's outputs is measured: a name, a place in a tuple, a function, or None for the obvious one."""

_OBVIOUS = ("logits", "output", "out", "prediction_logits", "last_hidden_state")


def picked_output(output: Any, choice: OutputChoice = None) -> Tensor:
    """The tensor that is measured.

    Without a choice it is the tensor itself, the first of a tuple, the entry named "logits" (then "output", "out",
    "prediction_logits", "last_hidden_state") of a dictionary or dataclass, or its only floating tensor.

    >>> import torch
    >>> picked_output({"loss": torch.zeros(()), "logits": torch.ones(2, 3)}).shape
    torch.Size([2, 3])
    >>> picked_output((torch.ones(2, 3), torch.ones(5)), 1).shape
    torch.Size([5])
    """
    if choice is None:
        return _obvious(output)
    if callable(choice):
        return _tensor(choice(output), "the function given as output=…")
    entries = _entries(output)
    if isinstance(choice, int):
        places = list(output) if isinstance(output, tuple | list) else list(entries.values())
        if not -len(places) <= choice < len(places):
            raise ModelError(f"output={choice}: the network returns {len(places)} things; count them from 0.")
        return _tensor(places[choice], f"output {choice}")
    if choice not in entries:
        raise ModelError(f"the network returns no {choice!r}: {nearest(choice, entries)}")
    return _tensor(entries[choice], repr(choice))


def _obvious(output: Any) -> Tensor:
    if isinstance(output, Tensor):
        return output
    if isinstance(output, tuple | list) and not hasattr(output, "_fields"):
        if output and isinstance(output[0], Tensor) and output[0].is_floating_point():
            return output[0]
        raise ModelError(
            f"the network returns a {type(output).__name__} whose first entry is not a floating tensor: say which one "
            "to measure, output=1 or output=lambda out: …."
        )
    entries = _entries(output)
    for name in _OBVIOUS:
        if isinstance(entries.get(name), Tensor):
            return entries[name]  # type: ignore[no-any-return]
    floating = {
        name: entry
        for name, entry in entries.items()
        if isinstance(entry, Tensor) and entry.is_floating_point() and entry.dim() > 0
    }
    if len(floating) == 1:
        return next(iter(floating.values()))
    what = f"with {', '.join(entries)}" if entries else "without any tensor that could be named"
    raise ModelError(
        f"the network returns {type(output).__name__}, {what}: say which tensor to measure, "
        f"output={next(iter(floating), 'name')!r} or output=lambda out: …."
    )


def _entries(output: Any) -> dict[str, Any]:
    """What an output has by name."""
    if isinstance(output, Mapping):
        return {str(name): entry for name, entry in output.items()}
    if dataclasses.is_dataclass(output):
        return {field.name: getattr(output, field.name) for field in dataclasses.fields(output)}
    if hasattr(output, "_fields"):  # a named tuple
        return dict(zip(output._fields, output, strict=True))
    return {}


def _tensor(found: Any, named: str) -> Tensor:
    if not isinstance(found, Tensor):
        raise ModelError(f"{named} is {type(found).__name__}, not a tensor: choose one with output=….")
    return found


def first_tensor(output: Any) -> Tensor | None:
    """What a module within a network hands on: its output, or the first entry of a tuple."""
    if isinstance(output, tuple | list) and output and not hasattr(output, "_fields"):
        output = output[0]
    return output if isinstance(output, Tensor) else None


def with_first_tensor(output: Any, value: Tensor) -> Any:
    """The same output with its first tensor replaced.

    >>> import torch
    >>> with_first_tensor((torch.ones(1), "state"), torch.zeros(1))
    (tensor([0.]), 'state')
    """
    return value if isinstance(output, Tensor) else type(output)((value, *output[1:]))


def returning(net: nn.Module, choice: OutputChoice = None) -> RemovableHandle:
    """Let a network return one of its outputs, its parameters keeping their names, until the handle is removed.

    >>> import torch
    >>> class Two(nn.Linear):
    ...     def forward(self, x): return {"logits": super().forward(x), "loss": x.sum()}
    >>> net = Two(2, 3)
    >>> with returning(net):
    ...     net(torch.ones(1, 2)).shape
    torch.Size([1, 3])
    >>> sorted(net(torch.ones(1, 2)))
    ['logits', 'loss']
    """
    return net.register_forward_hook(lambda _net, _inputs, output: picked_output(output, choice))
