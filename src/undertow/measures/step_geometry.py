"""Which way the weights go: along the gradient, or along its signs (Adam is said to do one, then the other)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from undertow.core.called_with import called_with
from undertow.core.errors import InputError
from undertow.core.losses import log_mean_loss
from undertow.core.scoring import as_rows, double_copy, margins_of
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading

__all__ = ["StepGeometry", "StepGeometryTracker", "log_gradient"]


class StepGeometry(NamedMeasure):
    """Cosines of the way made since the last reading with −∇L and with −sign ∇L, ∇L at this moment.

    Readings: ``gradient`` and ``sign``, the two cosines, from the second reading on; ``log10-steepest``, log₁₀ of the
    largest |∂L/∂θ_i|, L the mean loss over the probe's points; ``log10-loss``, of L. A measure with a memory.
    """

    name: ClassVar[str] = "step-geometry"

    def begin(self, start: nn.Module, x: Tensor, y: Tensor, *, learning_rate: float) -> StepGeometryTracker:  # noqa: ARG002
        """A tracker of one training run."""
        return StepGeometryTracker(start)


class StepGeometryTracker:
    """One training run, looked at when it is read and not in between."""

    name: ClassVar[str] = StepGeometry.name
    observes = False

    def __init__(self, start: nn.Module) -> None:
        self._last = _flat(start)

    def observe(self, net: nn.Module, taken: object) -> None:
        """Steps in between are nothing to it."""

    def read(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        if y is None:
            raise InputError(f"{self.name} needs labels: give the probe y beside x.")
        log_loss, slope = log_gradient(net, x, y)
        now = _flat(net)
        way, self._last = now - self._last, now
        if bool(way.any()) and bool(slope.any()):
            for key, goal in {"gradient": -slope, "sign": -slope.sign()}.items():
                yield key, float(torch.nn.functional.cosine_similarity(way, goal, dim=0)), None
        steepest = float(slope.abs().max())
        if steepest > 0:
            yield "log10-steepest", (math.log(steepest) + log_loss) / math.log(10), None
        yield "log10-loss", log_loss / math.log(10), None

    def state(self) -> dict[str, Tensor]:
        return {"last": self._last}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self._last = state["last"].clone()


def log_gradient(net: nn.Module, x: Tensor, y: Tensor) -> tuple[float, Tensor]:
    """log L and ∇log L = ∇L/L of the mean loss, all parameters in one row, in float64: nothing underflows.

    >>> net = nn.Linear(1, 1, bias=False)
    >>> _ = net.weight.data.fill_(1000.0)
    >>> log_loss, slope = log_gradient(net, torch.ones(1, 1), torch.tensor([1]))
    >>> round(log_loss, 6), slope.tolist()
    (-1000.0, [-1.0])
    """
    copied = double_copy(net)
    weights = {name: weight.detach().requires_grad_() for name, weight in copied.named_parameters()}
    points = x.double() if x.is_floating_point() else x
    with torch.enable_grad():
        scores = as_rows(called_with(copied, weights, points), len(x))
        _, labels, named = margins_of(scores.detach(), y, "auto")
        log_loss = log_mean_loss(scores, labels, named).sum()
        slopes = torch.autograd.grad(log_loss, list(weights.values()))
    return float(log_loss.detach()), torch.cat([slope.flatten() for slope in slopes])


def _flat(net: nn.Module) -> Tensor:
    return torch.cat([weight.detach().double().flatten() for weight in net.parameters()])
