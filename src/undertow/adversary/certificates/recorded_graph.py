"""Any network as a list of operations, recorded while it computes one sample.

Whatever Python a network's ``forward`` is made of, what reaches the tensors is a list of ATen operations; they are
recorded in the order of their execution, without an edit to the network. Branches on the values of the sample cannot be
recorded, and are refused: on another sample the network may compute something else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten

from undertow.core.every_operation import EveryOperation
from undertow.core.plain_attention import plain_attention

__all__ = ["Recorded", "UnreadableError", "record"]


# what they are given says only of what kind their result is
_CONSTANTS = frozenset(("new_ones", "new_zeros", "new_full", "ones_like", "zeros_like", "full_like"))


class UnreadableError(Exception):
    """A sentence that says why a network cannot be read for a proof."""


@dataclass(frozen=True, eq=False)
class Recorded:
    """One operation: its ATen name, what it was given, and what it returned (of which ``id`` is the name)."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: tuple[Any, ...]
    several: bool


class _Recorder(EveryOperation):  # type: ignore[no-untyped-call]
    def __init__(self, sample: Tensor) -> None:
        super().__init__()
        self.steps: list[Recorded] = []
        self.depends = {id(sample)}
        self.alive: list[Any] = [sample]  # an id is a name only while the tensor lives

    def called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = [part for part in tree_flatten((args, kwargs))[0] if isinstance(part, Tensor)]
        name = func._schema.name.split("::")[1]
        involved = name not in _CONSTANTS and any(id(part) in self.depends for part in given)
        if involved and name in ("_local_scalar_dense", "item", "is_nonzero", "equal"):
            raise UnreadableError(
                "it branches on the values of its input, so other inputs may take another way"
            )
        out = func(*args, **kwargs)
        results, several = (tuple(out), True) if isinstance(out, tuple | list) else ((out,), False)
        self.alive += [args, kwargs, out]
        if involved:
            if func._schema.is_mutable:
                raise UnreadableError(f"{name} changes a tensor in place in a way that cannot be followed")
            self.depends |= {id(part) for part in results if isinstance(part, Tensor)}
            self.steps.append(Recorded(name, func, tuple(args), dict(kwargs), results, several))
        return out


def record(
    function: Callable[[Tensor], Tensor], sample: Tensor
) -> tuple[Tensor, Tensor, list[Recorded], list[Any]]:
    """(the sample, the result, every operation between them, what must stay alive while these are read).

    >>> _, _, steps, _ = record(lambda x: torch.relu(x) * 2 + torch.ones(1).sum(), torch.ones(1, 2))
    >>> [step.name for step in steps]
    ['relu', 'mul', 'add']
    """
    start = sample.detach().clone()
    recorder = _Recorder(start)
    functional = torch.func.functionalize(function, remove="mutations")
    with torch.no_grad(), plain_attention(), recorder:
        result = functional(start)
    if not isinstance(result, Tensor):
        raise UnreadableError("it does not return one tensor")
    return start, result, recorder.steps, recorder.alive
