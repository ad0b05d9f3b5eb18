"""Whether the weights converge in direction: the angle between θ/‖θ‖ of two moments (Ji & Telgarsky 2020)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from undertow.core.errors import InputError, ModelError
from undertow.core.scoring import chosen_parameters
from undertow.core.sections import Text
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading
from undertow.training.taken import StepTaken

__all__ = ["DirectionOfWeights", "DirectionTracker", "directional_distance"]


def directional_distance(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> float:
    """The angle between θ/‖θ‖ of two moments, in radians, accurate also where it is tiny: directional convergence.

    Both are parameters by name, as ``dict(net.named_parameters())`` gives them.

    >>> round(directional_distance({"w": torch.tensor([1.0, 0.0])}, {"w": torch.tensor([1e-9, 1e-9])}), 6)
    0.785398
    """
    if {n: p.shape for n, p in before.items()} != {n: p.shape for n, p in after.items()}:
        raise InputError("the two moments have parameters of other names or shapes: give the same network's.")
    flat = [torch.cat([p.detach().double().flatten() for p in each.values()]) for each in (before, after)]
    one, other = (each / each.norm() for each in flat)
    # 2 atan2(‖a − b‖, ‖a + b‖) loses nothing near 0 and π, as the arccos of a product would.
    return 2 * math.atan2(float((one - other).norm()), float((one + other).norm()))


class DirectionOfWeights(NamedMeasure):
    """How far the direction θ/‖θ‖ has turned, in radians; a measure with a memory.

    Readings: ``since-start``; ``since-last``, from the last time that this was read; and ``norm``, ‖θ‖.
    ``parameters`` are the beginnings of the names that count, all where empty.
    """

    name: ClassVar[str] = "direction"
    parameters: tuple[Text, ...] = ()

    def begin(self, start: nn.Module, x: Tensor, y: Tensor, *, learning_rate: float) -> DirectionTracker:  # noqa: ARG002
        """A tracker of one training run."""
        return DirectionTracker(self, start)


class DirectionTracker:
    """One training run, looked at when it is read and not in between."""

    observes = False

    def __init__(self, options: DirectionOfWeights, start: nn.Module) -> None:
        self._options = options
        self._start = self._weights(start)
        self._last = self._start.clone()

    def _weights(self, net: nn.Module) -> Tensor:
        chosen = chosen_parameters(net, self._options.parameters)
        return torch.cat([weight.flatten().double() for weight in chosen.values()])

    def observe(self, net: nn.Module, taken: StepTaken) -> None:
        """Steps in between are nothing to it."""

    def read(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        now = self._weights(net)
        if not bool(now.any()):
            raise ModelError("every parameter is zero: there is no direction to follow.")
        yield "since-start", directional_distance({"": self._start}, {"": now}), None
        yield "since-last", directional_distance({"": self._last}, {"": now}), None
        yield "norm", float(now.norm()), None
        self._last = now

    def state(self) -> dict[str, Tensor]:
        return {"start": self._start, "last": self._last}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self._start, self._last = state["start"].clone(), state["last"].clone()
