"""Prices of slopes at kinks: which choice of them makes a margin's gradient point most along a vector.

With one hidden layer that is found exactly; with more, layer by layer, each the best for the others as they are.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from undertow.core.called_with import called_with
from undertow.core.pulled_back import gradients_of, pulled_back
from undertow.core.scoring import as_rows, slices
from undertow.measures.kink_slopes import KinkSlopes, find_kinks, kinked_modules
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

    The derivative is affine in the slopes of one layer, so that each layer's best is at an end: the sign of the
    derivative of it in the slope. With one hidden layer that is the maximum.
    """
    assert pairs.slopes is not None
    net, x = gradients.net, gradients.x[pairs.points]
    lower = kinked_modules(net, x[:1])
    slopes, q_slopes = pairs.slopes, gradients.score_slopes(pairs)
    names = list(slopes.at)
    for name in names * (_SWEEPS if len(names) > 1 else 1):
        gains = _gains(gradients, slopes, x, q_slopes, left, name)
        best = torch.where(gains > 0, 1.0, lower[name]).to(gains)
        changed = torch.where(slopes.at[name], best, slopes.slope[name])
        slopes = KinkSlopes(slopes.at, {**slopes.slope, name: changed})
    return slopes, along(gradients, Pairs(pairs.points, pairs.rivals, slopes), left)


def along(gradients: PairGradients, pairs: Pairs, vector: Mapping[str, Tensor]) -> Tensor:
    """⟨v, ∇q⟩ of pairs with slopes of their own."""
    assert pairs.slopes is not None
    leaves = {name: weight.clone().requires_grad_() for name, weight in gradients.weights.items()}
    x = gradients.x[pairs.points]
    with torch.enable_grad(), pairs.slopes.on(gradients.net):
        scores = as_rows(called_with(gradients.net, leaves, x), len(x))
    (derivatives,) = derivatives_along([scores], leaves, vector)
    return (derivatives * gradients.score_slopes(pairs)).sum(1)


def _gains(
    gradients: PairGradients,
    slopes: KinkSlopes,
    x: Tensor,
    q_slopes: Tensor,
    vector: Mapping[str, Tensor],
    name: str,
) -> Tensor:
    """∂/∂σ of ⟨v, ∇q⟩, σ the slopes of the activation called ``name``.

    Of σ z that is more than what arrives at a unit times what the margin makes of it: z is not zero, merely small, and
    what comes after the unit is multiplied by σ z in its own gradient.
    """
    leaves = {leaf: weight.clone().requires_grad_() for leaf, weight in gradients.weights.items()}
    sigma = slopes.slope[name].detach().clone().requires_grad_()
    own = KinkSlopes(slopes.at, {**slopes.slope, name: sigma})
    with torch.enable_grad(), own.on(gradients.net):
        scores = as_rows(called_with(gradients.net, leaves, x), len(x))
        found = pulled_back([scores], list(leaves.values()), [q_slopes], create_graph=True)
        pairs = zip(leaves, found, strict=True)
        # Rows do not touch each other, so that a sum over them has each row's derivative.
        along_vector = sum(
            ((slope * vector[leaf]).sum() for leaf, slope in pairs if slope is not None), scores.new_zeros(())
        )
        (gains,) = gradients_of(along_vector, [sigma])
    return gains
