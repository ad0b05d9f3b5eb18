"""How nearly θ is a KKT point of the margin problem in a norm: 1 − ⟨θ, u⟩/(‖θ‖ ‖u‖_*), u = Σ λ ∇q.

A network is a KKT point of min ‖θ‖ such that all q ≥ 1 where some λ ≥ 0 on the smallest margins give a u with
⟨θ, u⟩ = ‖θ‖ ‖u‖_*. Over λ with sum 1 the smallest ‖u‖_* is the largest margin of the linear problem whose rows are
the gradients ∇q_i (``undertow.theory.max_margin``): so θ is compared with the best direction for the network as it is
linearised at θ, and the answer is proved from both sides. Where a rectifier is at its kink, ∇q is any of Clarke's
derivatives, and so there are more rows: one for every choice of slopes, taken in as they are needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from undertow.measures.kink_prices import kinked_pairs, steepest_slopes
from undertow.measures.pair_gradients import PairGradients, Pairs
from undertow.theory.max_margin import MaxMargin, max_margin
from undertow.theory.weight_norms import WeightNorm, weight_norm

__all__ = ["NormStationarity", "stationarity", "stationarity_of"]

_ROUNDS = 12
_CLOSE = 1e-3  # of the optimum: rows that would lower it by less are not taken in
_ACCURACY = 1e-7


@dataclass(frozen=True, eq=False)
class NormStationarity:
    """How nearly θ is a KKT point in one norm."""

    best: MaxMargin
    """The largest margin of the network as it is linearised at θ."""
    total: float
    """1 − (1 − residual)(1 − slackness), which the λ minimise: 0 at a KKT point and nowhere else."""
    residual: float
    """1 − ⟨θ, u⟩/(‖θ‖ ‖u‖_*)."""
    slackness: float
    """Σ λ (q − q_min)/Σ λ q."""
    multipliers: Tensor
    """λ (m,) ≥ 0 with ‖Σ λ ∇q‖_* = 1, one for each constraint."""
    error: float
    """No other λ have a total that is smaller by more than this."""
    smooth: float
    """The total with autograd's slopes at kinks."""
    kinks: int = 0
    """How many constraints have a point with a unit at its kink, whose slope was free."""


def stationarity(rows: Tensor, theta: Sequence[Tensor], norm: WeightNorm) -> NormStationarity:
    """The λ ≥ 0 that make 1 − (⟨θ, u⟩ − slack)/(‖θ‖ ‖u‖_*) smallest, u = Σ λ_i a_i, a_i = ∇q_i the ``rows`` (m, P).

    With ⟨θ, ∇q_i⟩ = L q_i the numerator is L q_min Σ λ: weight on larger margins counts for nothing. θ must have a
    positive margin, ⟨a_i, θ⟩ > 0 for all i.

    >>> rows = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> [round(stationarity(rows, [torch.tensor([1.0, 1.0])], norm).total, 6) for norm in ("2", "inf", "1")]
    [0.0, 0.0, 0.0]
    >>> round(stationarity(rows, [torch.tensor([2.0, 1.0])], "inf").total, 6)   # margin 1/2, and 1 could be had
    0.5
    """
    shapes = [tuple(weight.shape) for weight in theta]
    best = max_margin(rows, norm=norm, shapes=shapes, accuracy=_ACCURACY)
    return _compared(best, rows, theta, norm, lower=best.value)


def stationarity_of(
    gradients: PairGradients, rivals: Tensor, theta: Mapping[str, Tensor], norm: WeightNorm, *, kinks: float
) -> NormStationarity:
    """The same of a network, the constraints those where ``rivals`` (N, k) is true.

    ``kinks`` is as in :func:`undertow.kkt`; 0 takes autograd's slopes. With one hidden layer the best slopes are
    found; with more, good ones, and ``error`` does not cover better ones.
    """
    points, others = rivals.nonzero(as_tuple=True)
    pairs, weights = Pairs(points, others), [weight.cpu() for weight in theta.values()]
    flat = torch.cat([weight.flatten() for weight in weights])
    free = _Free.of(gradients, pairs, kinks)
    rows, owners = gradients.rows(pairs).cpu(), torch.arange(len(pairs))
    smooth = found = stationarity(rows, weights, norm)
    for further in range(_ROUNDS, -1, -1):
        if free is None:
            break
        more, whose, least = free.worst(found.best, theta)
        found = _compared(found.best, rows, weights, norm, lower=min(found.best.value, least))
        useful = more @ flat > 0  # θ has a margin of its own with these
        if not further or not bool(useful.any()):
            break
        rows, owners = torch.cat([rows, more[useful]]), torch.cat([owners, whose[useful]])
        found = stationarity(rows, weights, norm)
    each = found.multipliers.new_zeros(len(pairs)).index_add_(0, owners, found.multipliers)
    return replace(found, multipliers=each, smooth=smooth.total, kinks=0 if free is None else len(free.pairs))


@dataclass(frozen=True)
class _Free:
    """The constraints whose point has a unit at its kink, and their places among all."""

    gradients: PairGradients
    pairs: Pairs
    places: Tensor

    @classmethod
    def of(cls, gradients: PairGradients, pairs: Pairs, kinks: float) -> _Free | None:
        free = kinked_pairs(gradients, pairs, kinks)
        if free is None:
            return None
        place = {
            each: at for at, each in enumerate(zip(pairs.points.tolist(), pairs.rivals.tolist(), strict=True))
        }
        both = zip(free.points.tolist(), free.rivals.tolist(), strict=True)
        return cls(gradients, free, torch.tensor([place[each] for each in both]))

    def worst(self, best: MaxMargin, theta: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, float]:
        """Rows with slopes that the best direction fares worst with, whose they are, and its least margin over all.

        Rows that would lower the optimum by next to nothing are left out.
        """
        away = _as_weights(-best.direction, theta)
        excess = self.gradients.x.new_zeros(
            int(self.pairs.points.max()) + 1, int(self.pairs.rivals.max()) + 1
        )
        steepest, gains = steepest_slopes(self.gradients, self.pairs, away, excess, 0.0)
        assert steepest is not None, "there are pairs with kinks"
        assert gains is not None, "there are pairs with kinks"
        worse = torch.nonzero(-gains < best.value - _CLOSE * best.upper).flatten()
        if not len(worse):
            return best.direction.new_zeros(0, len(best.direction)), self.places[:0], -float(gains.max())
        rows = self.gradients.rows(steepest.part(worse)).cpu()
        return rows, self.places[worse.cpu()], -float(gains.max())


def _as_weights(flat: Tensor, theta: Mapping[str, Tensor]) -> dict[str, Tensor]:
    parts = torch.split(flat, [weight.numel() for weight in theta.values()])
    return {name: part.view_as(w).to(w) for (name, w), part in zip(theta.items(), parts, strict=True)}


def _compared(
    best: MaxMargin, rows: Tensor, theta: Sequence[Tensor], norm: WeightNorm, *, lower: float
) -> NormStationarity:
    """θ beside the best direction for these rows, whose optimum is ``lower`` at least."""
    flat = torch.cat([weight.detach().double().flatten() for weight in theta])
    gaps = rows.double() @ flat
    size, least = weight_norm(theta, norm), float(gaps.min())
    carried = float(best.multipliers @ gaps.cpu())
    total = 1 - least / (size * best.upper)
    return NormStationarity(
        best=best,
        total=total,
        smooth=total,
        residual=1 - carried / (size * best.upper),
        slackness=1 - least / carried,
        multipliers=best.multipliers / best.upper,
        error=max(total - (1 - least / (size * lower)), 0.0) if lower > 0 else torch.inf,
    )
