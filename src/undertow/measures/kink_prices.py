"""Prices of slopes at kinks: which choice of them makes a margin's gradient point most along a vector.

With one hidden layer that is found exactly; with more, layer by layer, each the best for the others as they are.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from undertow.core.called_with import called_with
from undertow.core.pulled_back import pulled_back
from undertow.core.scoring import as_rows, slices
from undertow.measures.kink_slopes import KinkSlopes, find_kinks, kinked_modules, record_inputs
from undertow.measures.pair_gradients import PairGradients, Pairs, derivatives_along

__all__ = ["along", "kinked_pairs", "most_useful", "steepest_slopes"]

_SWEEPS = 2


def kinked_pairs(gradients: PairGradients, pairs: Pairs, tolerance: float) -> Pairs | None:
    """Those of the pairs whose point has a unit at its kink, with autograd's slopes to begin with."""
    if not tolerance > 0:
        return None
    points, place = torch.unique(pairs.points, return_inverse=True)
    found = find_kinks(gradients.net, gradients.x[points], tolerance=tolerance, chunk=gradients.chunk)
    if found is None:
        return None
    rows = torch.nonzero(found.rows[place]).flatten()
    return Pairs(pairs.points[rows], pairs.rivals[rows], found.part(place[rows]))


def steepest_slopes(
    gradients: PairGradients, free: Pairs | None, left: Mapping[str, Tensor], excess: Tensor, slack: float
) -> tuple[Pairs | None, Tensor | None]:
    """For each pair with kinks the slopes whose gradient points most along what is left, and its price."""
    if free is None:
        return None, None
    found: list[KinkSlopes] = []
    gains: list[Tensor] = []
    for part in slices(len(free), gradients.chunk):
        slopes, gain = _steepest(gradients, free.part(part), left)
        found.append(slopes)
        gains.append(gain)
    price = torch.cat(gains) - excess[free.points, free.rivals] * slack
    slopes = KinkSlopes(
        {name: torch.cat([each.at[name] for each in found]) for name in found[0].at},
        {name: torch.cat([each.slope[name] for each in found]) for name in found[0].slope},
    )
    return Pairs(free.points, free.rivals, slopes), price


def most_useful(gains: Tensor | None, *, limit: int) -> Tensor:
    """Which slopes at kinks are worth taking in: those with a price, the highest first."""
    if gains is None:
        return torch.zeros(0, dtype=torch.long)
    useful = torch.nonzero(gains > 1e-9 * gains.abs().max()).flatten()
    return useful[torch.topk(gains[useful], min(limit, len(useful))).indices]


def _steepest(
    gradients: PairGradients, pairs: Pairs, left: Mapping[str, Tensor]
) -> tuple[KinkSlopes, Tensor]:
    """Slopes at kinks that make the margins' derivatives along ``left`` large, one activation after the other.

    The derivative is linear in the slopes of one layer, so that each layer's best is at an end: the sign of (what
    arrives at the unit) × (what the margin makes of it). With one hidden layer that is the maximum.
    """
    assert pairs.slopes is not None
    net, x = gradients.net, gradients.x[pairs.points]
    lower = kinked_modules(net, x[:1])
    slopes, q_slopes = pairs.slopes, gradients.score_slopes(pairs)
    names = list(slopes.at)
    for name in names * (_SWEEPS if len(names) > 1 else 1):
        arriving, _ = _forward(gradients, slopes, x, left, lower)
        leaving = _backward(gradients, slopes, x, q_slopes, name)
        up = arriving[name] * leaving > 0
        best = torch.where(up, 1.0, lower[name]).to(leaving)
        changed = torch.where(slopes.at[name], best, slopes.slope[name])
        slopes = KinkSlopes(slopes.at, {**slopes.slope, name: changed})
    return slopes, along(gradients, Pairs(pairs.points, pairs.rivals, slopes), left)


def along(gradients: PairGradients, pairs: Pairs, vector: Mapping[str, Tensor]) -> Tensor:
    """⟨v, ∇q⟩ of pairs with slopes of their own."""
    assert pairs.slopes is not None
    _, derivatives = _forward(gradients, pairs.slopes, gradients.x[pairs.points], vector, {})
    return (derivatives * gradients.score_slopes(pairs)).sum(1)


def _forward(
    gradients: PairGradients,
    slopes: KinkSlopes,
    x: Tensor,
    vector: Mapping[str, Tensor],
    modules: Mapping[str, float],
) -> tuple[dict[str, Tensor], Tensor]:
    """Derivatives along ``vector`` of what every activation is given, and of the scores."""
    net = gradients.net
    leaves = {name: weight.clone().requires_grad_() for name, weight in gradients.weights.items()}
    with torch.enable_grad(), slopes.on(net), record_inputs(net, modules) as kept:
        scores = as_rows(called_with(net, leaves, x), len(x))
    moving = {name: z for name, z in kept.items() if z.requires_grad}
    *arriving, tangent = derivatives_along([*moving.values(), scores], leaves, vector)
    still = {name: torch.zeros_like(z) for name, z in kept.items()}
    return {**still, **dict(zip(moving, arriving, strict=True))}, tangent


def _backward(gradients: PairGradients, slopes: KinkSlopes, x: Tensor, q_slopes: Tensor, name: str) -> Tensor:
    """∂q/∂(output) of the activation called ``name``."""
    kept: list[Tensor] = []

    def keep(module: object, given: object, output: Tensor) -> Tensor:  # noqa: ARG001
        kept.append(output.detach().requires_grad_())
        return kept[0].clone()

    with torch.enable_grad(), slopes.on(gradients.net):
        handle = gradients.net.get_submodule(name).register_forward_hook(keep)
        try:
            scores = as_rows(gradients.net(x), len(x))
            (found,) = pulled_back([scores], [kept[0]], [q_slopes])
            assert found is not None
            return found
        finally:
            handle.remove()
