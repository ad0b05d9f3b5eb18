"""How results show themselves: a line for each field, and of a large tensor what it holds in a few words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields
from enum import Enum
from typing import Any

import torch
from torch import Tensor

__all__ = ["Shown", "aligned"]

_FEW = 4  # numbers that are listed one by one
_DIGITS = 4
_LONGEST = 100  # letters of what is told in its own words


class Shown:
    """Base of results, dataclasses with tensors as fields, that are read at a prompt or in a notebook.

    The generated ``repr`` of ten thousand samples is a wall of numbers. This one has a line for each field that is set.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Found(Shown):
    ...     value: Tensor
    ...     proved: Tensor
    ...     order: float
    ...     note: str = ""
    >>> Found(torch.linspace(0, 1, 101), torch.arange(101) > 0, 2.0)
    Found
      value   101 numbers from 0 to 1, mean 0.5
      proved  true for 100 of 101
      order   2
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__repr__" not in cls.__dict__:  # else a dataclass writes one of its own
            shown: Any = next(base.__repr__ for base in cls.__mro__[1:] if "__repr__" in vars(base))
            cls.__repr__ = shown  # type: ignore[method-assign]

    def __repr__(self) -> str:
        told = {
            each.name: _words(getattr(self, each.name))
            for each in fields(self)  # type: ignore[arg-type]  # whoever inherits is a dataclass
            if each.repr
        }
        return "\n".join(
            [type(self).__name__, *aligned([("", name, words) for name, words in told.items() if words])]
        )


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Lines of cells, each column as wide as its longest cell, two spaces apart.

    >>> aligned([("a", "1"), ("seam", "22")])
    ['a     1', 'seam  22']
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _words(value: object) -> str:
    """What a field holds, in one line; empty where it holds nothing."""
    if value is None:
        return ""
    if isinstance(value, Tensor):
        return _tensor_words(value.detach().cpu())
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, float):
        return _number_words(value)
    if isinstance(value, Mapping):
        return _listed([f"{name}: {_words(item)}" for name, item in value.items()])
    if isinstance(value, tuple | list):
        return _listed([_words(item) or "none" for item in value])
    words = str(value)
    return words if isinstance(value, str) or _is_short(words) else type(value).__name__


def _number_words(number: float) -> str:
    """A count in full, anything else in a few digits."""
    return str(number) if isinstance(number, int) else f"{number:.{_DIGITS}g}"


def _is_short(words: str) -> bool:
    return "\n" not in words and len(words) <= _LONGEST


def _listed(words: list[str]) -> str:
    """All of them where they are few, each kind with its number where there are few kinds, else the first."""
    if len(words) <= _FEW:
        return ", ".join(words)
    kinds = Counter(words)
    if len(kinds) <= _FEW:
        return ", ".join(f"{word} × {count}" for word, count in kinds.items())
    return f"{', '.join(words[:_FEW])}, … ({len(words)} entries)"


def _tensor_words(values: Tensor) -> str:
    if values.numel() == 0:
        return "no numbers"
    if values.dtype == torch.bool:
        return str(bool(values)) if values.dim() == 0 else f"true for {int(values.sum())} of {values.numel()}"
    if values.dim() <= 1 and values.numel() <= _FEW and not values.is_complex():
        return ", ".join(_number_words(number) for number in values.flatten().tolist())
    shape = " × ".join(str(size) for size in values.shape)
    if values.is_complex() or values.layout is not torch.strided:
        return f"{shape} numbers"  # which have no order, or nothing at most places
    known = values[~values.isnan()]
    missing = values.numel() - known.numel()
    if known.numel() == 0:
        return f"{shape} numbers, all NaN"
    ends = known.min(), known.max()
    least, most = (_number_words(end.item()) for end in ends)
    mean = f", mean {_number_words(float(known.double().mean()))}" if bool(known.isfinite().all()) else ""
    same = f"all {least}" if ends[0] == ends[1] else f"all about {least}"
    between = f"from {least} to {most}{mean}" if least != most else same
    return f"{shape} numbers {between}" + (f", {missing} NaN" if missing else "")
