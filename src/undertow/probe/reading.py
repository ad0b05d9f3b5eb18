"""What a measure is to a probe: a name, and readings of a network on points."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from undertow.errors import InputError

if TYPE_CHECKING:  # torch is imported where it computes, so that reading a configuration stays quick
    from torch import Tensor, nn

__all__ = ["Measure", "OnPoints", "Reading", "labels_for"]

Reading = tuple[str, float, float | None]
"""(key, value, numerical error or None)."""


class Measure(Protocol):
    """What a probe needs of a measure."""

    @property
    def name(self) -> str: ...

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]: ...


@dataclass(frozen=True, eq=False)
class OnPoints:
    """A measure taken on points of its own, e.g. test points, instead of those the probe was given.

    >>> import torch
    >>> from undertow.probe.measures import Accuracy
    >>> test = OnPoints(Accuracy(), torch.tensor([[-1.0]]), torch.tensor([1]))
    >>> list(test(torch.nn.Identity(), torch.tensor([[1.0]]), torch.tensor([1])))
    [('', 0.0, None)]
    """

    measure: Measure
    x: Tensor
    y: Tensor

    @property
    def name(self) -> str:
        return self.measure.name

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        # The probe's own points lie on the network's device, in its precision.
        return self.measure(net, self.x.to(x), self.y.to(x.device))


def labels_for(measure: Measure, y: Tensor | None) -> Tensor:
    """The labels, or an error that says which measure wanted them."""
    if y is None:
        raise InputError(f"{measure.name} needs labels: give the probe y beside x.")
    return y
