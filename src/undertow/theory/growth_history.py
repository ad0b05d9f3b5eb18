"""What Theorems 5.3 and 5.5 of Wang, Min & Ruan (2024) remember of a training run: sums over the steps made."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from undertow.core.errors import InputError
from undertow.theory.growth_network import GrowthNetwork
from undertow.theory.mlp_growth import RunningSums, point_inputs
from undertow.theory.top_vectors import TopVectors, top_vectors

__all__ = ["GrowthHistory"]


class FlowTime:
    """Σ_τ η_τ, as one product for each stretch of equal rates: n steps of η are n·η, to the bit.

    >>> time = FlowTime()
    >>> for rate in (0.1, 0.1, 0.1, 0.5):
    ...     time.add(rate)
    >>> time.value == 0.1 * 3 + 0.5
    True
    """

    def __init__(self) -> None:
        self._before, self._rate, self._steps = 0.0, 0.0, 0

    @property
    def value(self) -> float:
        """The sum."""
        return self._before + self._rate * self._steps

    def add(self, rate: float) -> None:
        """One more step."""
        if rate != self._rate:
            self._before, self._rate, self._steps = self.value, rate, 0
        self._steps += 1

    def state(self) -> Tensor:
        """All of it, as numbers."""
        return torch.tensor([self._before, self._rate, self._steps], dtype=torch.float64)

    def restore(self, state: Tensor) -> None:
        """Go on from what ``state`` gave."""
        self._before, self._rate, steps = state.tolist()
        self._steps = int(steps)


class GrowthHistory:
    """Σ_τ x̃*(τ,x) and its kin at some points, from the weights after every step.

    x̃*(τ,x) = aᵀD(τ,x)G(τ) takes G(τ) from the step that was made, (W(τ+1) − W(τ))/η_τ: no gradient is computed again,
    and with batches the sums are those of the steps as they were. aᵀv(τ,x) costs a singular value decomposition each;
    it is found every ``refresh`` steps and held between them. A linear network needs one point, any.

    ``early`` are x̃*(τ,x) at τ = 0, 1, 2, 4, 8, …, for the angles between then and now.
    """

    def __init__(self, start: GrowthNetwork, points: Tensor, *, refresh: int = 1) -> None:
        # Copies: the network's own tensors move with the training.
        self.start = GrowthNetwork(start.weight.clone(), start.head.clone(), start.activation, start.linear)
        self.points = points
        self.refresh = refresh
        self.steps = 0
        self._flow = FlowTime()
        self.early: list[Tensor] = []
        nothing = torch.zeros_like(points)
        self.sums = RunningSums(nothing, nothing, nothing)
        self._expected: Tensor | None = None
        self.update_gap: float | None = None
        self._weight = self.start.weight
        self._look()

    @property
    def flow_time(self) -> float:
        """s = Σ_τ η_τ over the steps made."""
        return self._flow.value

    def at(self, weight: Tensor) -> GrowthNetwork:
        """The network with other weights in its first layer."""
        return GrowthNetwork(weight, self.start.head, self.start.activation, self.start.linear)

    def observe(self, weight: Tensor, *, rate: float) -> None:
        """A step of length η = ``rate`` was made, to W = ``weight`` (m, d) in float64."""
        if not 0 < rate < math.inf:
            raise InputError(
                f"a step of rate {rate:g} has no length in the time of the gradient flow: follow the growth of ϱ only "
                "where rates are positive and within float64's range."
            )
        head, before = self.start.head, self._weight
        direction = (weight - before) / rate
        if self._expected is not None:
            self.update_gap = float((direction - self._expected).norm() / self._expected.norm())
            self._expected = None
        inputs = point_inputs(self.at(before).slopes_at(self.points), head, direction)
        added = rate * inputs
        self.sums = RunningSums(
            self.sums.plain + added,
            self.sums.aligned + self._towards[:, None] * added,
            self.sums.printed + self._everywhere * added,
        )
        if self.steps & (self.steps - 1) == 0:
            self.early.append(inputs)
        self._weight = weight.clone()
        self.steps += 1
        self._flow.add(rate)
        self.top: TopVectors | None = None
        if self.steps % self.refresh == 0:
            self._look()

    def expect(self, direction: Tensor) -> None:
        """The next step should change W by η times ``direction``; ``update_gap`` then says how far off it was."""
        self._expected = direction

    def _look(self) -> None:
        """Find v at these weights, of DW at every point and of W."""
        now, head = self.at(self._weight), self.start.head
        whole = top_vectors(now.weight, torch.ones_like(head)[None], head)
        self._everywhere = whole.towards
        self.top = whole if now.linear else top_vectors(now.weight, now.slopes_at(self.points), head)
        self._towards = self.top.towards

    def state(self) -> dict[str, Tensor]:
        """Everything but the start, as tensors."""
        kept = {
            "steps": torch.tensor(self.steps),
            "flow": self._flow.state(),
            "weight": self._weight,
            "plain": self.sums.plain,
            "aligned": self.sums.aligned,
            "printed": self.sums.printed,
            "towards": self._towards,
            "everywhere": self._everywhere,
        }
        if self.early:
            kept["early"] = torch.stack(self.early)
        if self._expected is not None:
            kept["expected"] = self._expected
        if self.update_gap is not None:
            kept["update_gap"] = torch.tensor(self.update_gap, dtype=torch.float64)
        # Copies: what is checkpointed must not move with the training.
        return {name: tensor.clone() for name, tensor in kept.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what ``state`` gave."""
        self.steps = int(state["steps"])
        self._flow.restore(state["flow"])
        self._weight = state["weight"].clone()
        self.sums = RunningSums(*(state[name].clone() for name in ("plain", "aligned", "printed")))
        self._towards, self._everywhere = state["towards"].clone(), state["everywhere"].clone()
        self.early = list(state["early"].clone()) if "early" in state else []
        self._expected = state["expected"].clone() if "expected" in state else None
        self.update_gap = float(state["update_gap"]) if "update_gap" in state else None
        self.top = None  # found again where it is needed
