"""What a measure is to a probe: a name, and readings of a network on points."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from undertow.errors import InputError

if TYPE_CHECKING:  # torch is imported where it computes, so that reading a configuration stays quick
    from torch import Tensor, nn

__all__ = ["Measure", "Reading", "labels_for"]

Reading = tuple[str, float, float | None]
"""(key, value, numerical error or None)."""


class Measure(Protocol):
    """What a probe needs of a measure."""

    @property
    def name(self) -> str: ...

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]: ...


def labels_for(measure: Measure, y: Tensor | None) -> Tensor:
    """The labels, or an error that says which measure wanted them."""
    if y is None:
        raise InputError(f"{measure.name} needs labels: give the probe y beside x.")
    return y
