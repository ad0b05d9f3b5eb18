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
    shapes: tuple[tuple[int, ...], ...] = ()
    """Those of the results when they were computed, where they may be others now."""

    def shape(self, item: int) -> tuple[int, ...]:
        return self.shapes[item] if self.shapes else tuple(self.results[item].shape)


class _Recorder(EveryOperation):  # type: ignore[no-untyped-call]
    def __init__(self, sample: Tensor) -> None:
        super().__init__()
        self.steps: list[Recorded] = []
        self.depends = {id(sample)}
        self.used: set[int] = set()  # where the constants of the steps are kept
        self.arguments: set[int] = set()  # of the steps
        self.met: dict[int, dict[int, Tensor]] = {}  # all tensors, by where they are kept
        self.stale: set[int] = set()  # what was changed through another tensor
        self.alive: list[Any] = [sample]  # an id is a name only while the tensor lives

    def called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = _tensors((args, kwargs))
        name = func._schema.name.split("::")[1]
        involved = name not in _CONSTANTS and any(id(part) in self.depends for part in given)
        if involved and name in ("_local_scalar_dense", "item", "is_nonzero", "equal"):
            raise UnreadableError(
                "it branches on the values of its input, so other inputs may take another way"
            )
        if any(id(part) in self.stale for part in given):
            raise UnreadableError(f"{name} is given what was changed in place through another tensor")
        changed = _changed(func, args, kwargs)
        if any(id(part) not in self.depends and _place(part) in self.used for part in changed):
            raise UnreadableError(f"{name} changes a constant in place, after it was used")
        recorded = args
        if involved and changed and id(changed[0]) not in self.depends:
            recorded = tuple(part.clone() if part is changed[0] else part for part in args)
        before = [(tuple(part.shape), part.stride()) for part in changed]
        out = func(*args, **kwargs)
        results, several = (tuple(out), True) if isinstance(out, tuple | list) else ((out,), False)
        self.alive += [recorded, args, kwargs, out]
        for part in (*given, *_tensors(out)):
            self.met.setdefault(_place(part), {})[id(part)] = part
        if involved:
            if changed:
                self._check_layout(name, changed[0], before)
                name, func = self._without_change(name, func, changed, out)
            self.used |= {
                _place(part) for part in _tensors((recorded, kwargs)) if id(part) not in self.depends
            }
            self.depends |= {id(part) for part in results if isinstance(part, Tensor)}
            self.arguments |= {id(part) for part in given}
            shapes = tuple(tuple(part.shape) if isinstance(part, Tensor) else () for part in results)
            self.steps.append(Recorded(name, func, recorded, dict(kwargs), results, several, shapes))
        return out

    def _check_layout(self, name: str, changed: Tensor, before: list[tuple[Any, Any]]) -> None:
        if id(changed) in self.arguments and before[0] != (tuple(changed.shape), changed.stride()):
            raise UnreadableError(f"{name} changes the axes of a tensor in place, after it was used")

    def _without_change(self, name: str, func: Any, changed: list[Tensor], out: Any) -> tuple[str, Any]:
        """The operation that gives as a new tensor what this one has put in place of an old one."""
        packet = getattr(torch.ops.aten, name.removesuffix("_"), None)
        known = "int" if name == "transpose_" else func._overloadname
        overload = getattr(packet, known, None) if name.endswith("_") else None
        if overload is None or len(changed) != 1 or out is not changed[0]:
            raise UnreadableError(f"{name} changes a tensor in place in a way that cannot be followed")
        first, last = _range(out)
        for other in self.met[_place(out)].values():
            start, stop = _range(other)
            if other is not out and start <= last and first <= stop:
                self.stale.add(id(other))
        return name.removesuffix("_"), overload


def _tensors(given: Any) -> list[Tensor]:
    return [part for part in tree_flatten(given)[0] if isinstance(part, Tensor)]


def _changed(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """The tensors among its arguments that an operation changes."""
    if not func._schema.is_mutable:
        return []
    names = [each.name for each in func._schema.arguments]
    by_name = dict(zip(names, args, strict=False)) | kwargs
    written = [each.name for each in func._schema.arguments if each.alias_info and each.alias_info.is_write]
    return _tensors([by_name.get(name) for name in written])


def _range(tensor: Tensor) -> tuple[int, int]:
    """The first and the last place of a tensor in what it is kept in."""
    first = int(tensor.storage_offset())
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return first, first + sum((int(size) - 1) * int(step) for size, step in pairs)


def _place(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr() if tensor.layout == torch.strided else id(tensor)


def record(
    function: Callable[[Tensor], Tensor], sample: Tensor
) -> tuple[Tensor, Tensor, list[Recorded], list[Any]]:
    """(the sample, the result, every operation between them, what must stay alive while these are read).

    >>> _, _, steps, _ = record(lambda x: torch.relu(x) * 2 + torch.ones(1).sum(), torch.ones(1, 2))
    >>> [step.name for step in steps]
    ['relu', 'mul', 'add']
    """
    try:
        return _recorded(function, sample, functional=True)
    except (UnreadableError, RuntimeError) as error:
        # a function of the network's own, or a view, that cannot be freed of mutations, may have none
        try:
            return _recorded(function, sample, functional=False)
        except (UnreadableError, RuntimeError):
            raise error from None


def _recorded(
    function: Callable[[Tensor], Tensor], sample: Tensor, *, functional: bool
) -> tuple[Tensor, Tensor, list[Recorded], list[Any]]:
    start = sample.detach().clone()
    recorder = _Recorder(start)
    flags = torch.backends.mkldnn.set_flags(False, None, None, None)  # type: ignore[no-untyped-call]  # else a whole LSTM is one operation
    called = torch.func.functionalize(function, remove="mutations") if functional else function
    try:
        with torch.no_grad(), plain_attention(), recorder:
            result = called(start)
    finally:
        torch.backends.mkldnn.set_flags(flags[0], None, None, None)  # type: ignore[no-untyped-call]
    if not isinstance(result, Tensor):
        raise UnreadableError("it does not return one tensor")
    if id(result) in recorder.stale:
        raise UnreadableError("its scores were changed in place through another tensor")
    return start, result, recorder.steps, recorder.alive
