"""Whether the smoothed margin ever falls: γ̃ = ρ^-L ℓ⁻¹(𝓛) followed through every step (Lyu & Li 2020, Theorem 4.1)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from undertow.core.errors import ModelError
from undertow.core.losses import Loss, log_mean_loss
from undertow.core.scoring import chosen_parameters, in_double, loss_of, margins_of, scores_of
from undertow.core.sections import Text
from undertow.core.stacked_members import StackedMembers
from undertow.measures.homogeneity import homogeneity
from undertow.measures.margins import smoothed_gap
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading
from undertow.training.taken import StepTaken

__all__ = ["MarginFalls", "MarginFallsTracker"]


class MarginFalls(NamedMeasure):
    """How much the smoothed margin γ̃ has fallen on the way; a measure with a memory that looks after every step.

    Of the steps after t0, the first at which 𝓛, the loss summed over the training points, is small enough for γ̃ > 0
    (below log 2; below 1 for the exponential loss): ``total`` = Σ max(γ̃ before − γ̃ after, 0), over the present γ̃;
    ``deepest``, the largest share of the highest γ̃ so far that was lost at any moment; ``count``, how many steps
    lowered γ̃; ``steps``, how many were compared. No readings before t0.

    Gradient flow never lowers γ̃. Steps of length η do where they cross a kink of the network, each by a share of order
    η: where the flow holds units at their kink, ``total`` keeps its size as η → 0, and ``deepest`` falls with η.

    ``parameters`` are the beginnings of the names that count for ρ and L, all where empty. L is measured before
    training. A group's scores are taken in the precision that it is trained in.
    """

    name: ClassVar[str] = "margin-falls"
    loss: Literal["auto", "logistic", "exponential", "bce", "cross-entropy"] = "auto"
    parameters: tuple[Text, ...] = ()

    def begin(self, start: nn.Module, x: Tensor, y: Tensor, *, learning_rate: float) -> MarginFallsTracker:  # noqa: ARG002
        """A tracker of one training run."""
        return MarginFallsTracker(self, start, x, y)


class MarginFallsTracker:
    """One training run, looked at after every step."""

    def __init__(self, options: MarginFalls, start: nn.Module, x: Tensor, y: Tensor) -> None:
        self._options, self._x, self._y = options, x, y
        self._names = list(chosen_parameters(start, options.parameters))
        scaling = homogeneity(start, x, parameters=options.parameters)
        if math.isnan(scaling.order):
            raise ModelError(
                f"{scaling.sentence} {options.name} divides by ρ^L: leave it out, or take a network that grows with a "
                "power of its weights."
            )
        self._order = scaling.order
        with torch.no_grad():
            outputs = scores_of(start, x[:1]).shape[1]
        self._loss: Loss = loss_of(options.loss, outputs)
        self._last = self._highest = self._total = self._deepest = 0.0
        self._count = self._steps = 0

    def observe(self, net: nn.Module, taken: StepTaken) -> None:  # noqa: ARG002
        """The margin after a step, of one network alone, in float64."""
        with torch.no_grad():
            scores = scores_of(in_double(net), self._x.double() if self._x.is_floating_point() else self._x)
        _, labels, named = margins_of(scores, self._y, self._loss)
        weights = dict(net.named_parameters())
        norm = math.hypot(*(float(weights[name].detach().double().norm()) for name in self._names))
        self._note(float(log_mean_loss(scores, labels, named)), norm)

    @staticmethod
    def observe_batched(
        trackers: Sequence[MarginFallsTracker], networks: StackedMembers, members: Sequence[int]
    ) -> None:
        """The same of these members of a group, whose losses are computed at once."""
        norms = [networks.weights[name].flatten(1).double().norm(dim=1) for name in trackers[0]._names]
        sizes = torch.stack(norms).norm(dim=0).tolist()
        losses = networks.log_loss().tolist()
        for tracker, member in zip(trackers, members, strict=True):
            tracker._note(losses[member], sizes[member])

    def _note(self, log_mean: float, norm: float) -> None:
        gap = smoothed_gap(log_mean + math.log(len(self._x)), self._loss)
        if not (gap > 0 and 0 < norm < math.inf):  # before t0, or diverged
            return
        now = math.exp(math.log(gap) - self._order * math.log(norm))
        if self._highest > 0:
            self._steps += 1
            self._count += now < self._last
            self._total += max(self._last - now, 0.0)
            self._deepest = max(self._deepest, 1 - now / self._highest)
        self._last, self._highest = now, max(now, self._highest)

    def read(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        if self._highest > 0:
            yield "total", self._total / self._last, None
            yield "deepest", self._deepest, None
            yield "count", float(self._count), None
            yield "steps", float(self._steps), None

    def state(self) -> dict[str, Tensor]:
        known = [self._last, self._highest, self._total, self._deepest, self._count, self._steps]
        return {"falls": torch.tensor(known, dtype=torch.float64)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        known = state["falls"].tolist()
        self._last, self._highest, self._total, self._deepest = known[:4]
        self._count, self._steps = int(known[4]), int(known[5])
