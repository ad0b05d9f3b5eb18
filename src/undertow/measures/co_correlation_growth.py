"""The growth of co-correlation as a measure for probes: Theorems 5.3 and 5.5 beside what training does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import ClassVar

import torch
from torch import Tensor, nn

from undertow.core.sections import Count
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading
from undertow.theory.growth_history import GrowthHistory
from undertow.theory.growth_network import first_weight, growth_network_of, refuse_moved_head
from undertow.theory.linear_growth import linear_growth
from undertow.theory.mlp_growth import activation_overlap, mlp_growth, point_inputs
from undertow.training.taken import StepTaken

__all__ = ["Growth", "GrowthTracker"]


class Growth(NamedMeasure):
    """The relative rate of ϱ and the terms that Theorems 5.3 (linear) and 5.5 (other activations) give for it.

    A measure with a memory: the theorems' main terms are sums over all steps made. It works in float64, on
    two-layer networks with one logit, no biases and a fixed head a_r = ±1/√m, trained on the binary cross-entropy.

    The theorems' expectation over x is a mean over the first ``points`` samples trained on: their sums begin with
    training, and a tracker learns of the probe's points only when it is first read. Singular vectors at those
    points are found every ``refresh`` steps; see ``undertow.theory.growth_history``.

    Keys are those of ``undertow.theory.growth_terms.GrowthResult``, and

    =================  ==================================================================================
    ``flow_time``      Σ η over the steps made
    ``cosine_first``   of the angle between x̃*(0,x) and x̃*(t,x), mean over x
    ``cosine_least``   the smallest between x̃*(τ,x) and x̃*(t,x), over τ = 0, 1, 2, 4, … and all x
    ``cosine_sum``     between Σ_τ x̃*(τ,x) and x̃*(t,x), mean over x
    ``overlap``        α̂_i(t,x), mean over i and x
    ``overlap_error``  its standard error over neurons, root mean square over i and x
    ``steepest``       the largest |σ′| met (Assumption 5.4)
    ``start_norm``     ‖W(0)x_i‖, mean over i: near m^-q (Lemma B.2)
    ``update_gap``     how far the step after the last reading was from ηG, relatively (Lemma B.1)
    =================  ==================================================================================
    """

    name: ClassVar[str] = "growth"
    points: Count = 16
    refresh: Count = 1

    def begin(self, start: nn.Module, x: Tensor, y: Tensor, *, learning_rate: float) -> GrowthTracker:
        """A tracker of one training run on x and y; ``learning_rate`` is that of its first step."""
        return GrowthTracker(self, start, x, y, learning_rate=learning_rate)


class GrowthTracker:
    """One training run, followed."""

    def __init__(
        self, options: Growth, start: nn.Module, x: Tensor, y: Tensor, *, learning_rate: float
    ) -> None:
        network = growth_network_of(start)
        self._x = x.detach().flatten(1).double().to(network.weight.device)
        self._y = (y.detach().flatten() > 0).to(self._x)
        points = self._x[: 1 if network.linear else options.points]
        self._history = GrowthHistory(network, points, refresh=options.refresh)
        self._rate = learning_rate  # of the next step, as far as that is known: the last one's

    def observe(self, net: nn.Module, taken: StepTaken) -> None:
        """The optimiser has made a step."""
        if taken.accepted:
            self._rate = taken.rate
            self._history.observe(first_weight(net), rate=taken.rate)

    def read(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        """The rate at this moment and its terms; the probe's own points are not looked at."""
        history = self._history
        refuse_moved_head(net, history.start.head)
        now, begun = history.at(first_weight(net)), history.start.weight
        direction = now.direction(self._x, self._y)
        history.expect(direction)
        if now.linear:
            growth = linear_growth(now, self._x, self._y, start=begun, learning_rate=self._rate)
        else:
            growth = mlp_growth(
                now,
                self._x,
                self._y,
                points=history.points,
                start=begun,
                sums=history.sums,
                flow_time=history.flow_time,
                learning_rate=self._rate,
                direction=direction,
                top=history.top,
            )
        for key, value in asdict(growth).items():
            yield key, value, None
        yield "flow_time", history.flow_time, None
        if history.update_gap is not None:
            yield "update_gap", history.update_gap, None
        point_slopes, slopes = now.slopes_at(history.points), now.slopes_at(self._x)
        inputs = point_inputs(point_slopes, now.head, direction)
        early = torch.stack(history.early) if history.early else inputs[None]
        cosines = torch.nn.functional.cosine_similarity(early, inputs[None], dim=2, eps=1e-300)
        yield "cosine_first", float(cosines[0].mean()), None
        yield "cosine_least", float(cosines.min()), None
        if history.steps:
            along = torch.nn.functional.cosine_similarity(history.sums.plain, inputs, dim=1, eps=1e-300)
            yield "cosine_sum", float(along.mean()), None
        overlap, overlap_error = activation_overlap(point_slopes, slopes)
        yield "overlap", float(overlap.mean()), None
        yield "overlap_error", float(overlap_error.square().mean().sqrt()), None
        yield "steepest", float(slopes.abs().max()), None
        yield "start_norm", float((self._x @ begun.T).norm(dim=1).mean()), None

    def state(self) -> dict[str, Tensor]:
        """What the tracker remembers."""
        state = self._history.state()
        return {**state, "rate": state["flow"].new_tensor(self._rate)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what ``state`` gave."""
        if "flow" not in state:  # a checkpoint from when every step had the same rate
            flow = state["weight"].new_tensor([0.0, self._rate, float(state["steps"])])
            state = {**state, "flow": flow, "rate": flow[1]}
        self._rate = float(state["rate"])
        self._history.restore(state)
