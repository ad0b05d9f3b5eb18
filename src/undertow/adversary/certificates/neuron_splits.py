"""Proofs by cases: a neuron is on one side of its kink or on the other, and each case is proved apart.

In a case the limits of the split neuron end at its kink, and the bound need hold only where the neuron is on that side:
with z ≥ 0 known, β·z ≥ 0 may be taken off for any β ≥ 0 (β-CROWN, Wang et al. 2021). The slopes of `RowSlopes` do that
by themselves once they may be any number (``extra``): on [0, u] the constant of c·z ≥ (c − β)·z is 0.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from undertow.adversary.certificates.ball_coupling import BallCoupling
from undertow.adversary.certificates.linear_bounds import BallBounds, LinearBounds
from undertow.adversary.certificates.operations import CurveOf
from undertow.adversary.certificates.relaxations import lines_around
from undertow.adversary.certificates.slope_ascent import ascended_bounds

__all__ = ["kinked_neurons", "proved_by_cases"]

_CASES = 64  # of one sample and target, open at a time


def kinked_neurons(bounds: LinearBounds) -> int:
    """How many neurons have one kink; 0 where an activation has another form."""
    curves = [operation for operation in bounds.graph.operations if isinstance(operation, CurveOf)]
    if any(not operation.curve.homogeneous for operation in curves):
        return 0
    return sum(torch.Size(operation.shape).numel() for operation in curves)


def proved_by_cases(
    bounds: LinearBounds,
    ball: BallBounds,
    rows: Tensor,
    *,
    couplings: dict[int, BallCoupling],
    steps: int,
    rounds: int,
) -> Tensor:
    """Which of the pairs, a ball and a row (P, 1, *S) each, are proved positive in every case."""
    proved = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
    pair = torch.arange(len(rows), device=rows.device)  # of every open case
    cases = ball
    for level in range(rounds + 1):
        given = {index: coupling.taken(pair) for index, coupling in couplings.items()}
        lower = ascended_bounds(
            bounds, cases, rows[pair], couplings=given, steps=steps, until=0.0, cases=level > 0
        ).squeeze(1)
        still = torch.bincount(pair[lower <= 0], minlength=len(rows))
        # pairs with too many open cases are given up, and those without any are done
        keep = (lower <= 0) & (still[pair] <= _CASES // 2)
        proved |= (still == 0) & (torch.bincount(pair, minlength=len(rows)) > 0)
        if level == rounds or not bool(keep.any()):
            break
        some = keep.nonzero().squeeze(1)
        cases, pair = cases.taken(some), pair[some]
        cases, kept = _split(bounds, cases, rows[pair])
        # a case without an open neuron that is not proved disproves its pair
        lost = torch.bincount(pair, minlength=len(rows)) > torch.bincount(pair[kept], minlength=len(rows))
        pair = pair[kept].repeat(2)
        alive = (~lost[pair]).nonzero().squeeze(1)
        if len(alive) == 0:
            break
        cases, pair = cases.taken(alive), pair[alive]
    return proved


def _split(bounds: LinearBounds, cases: BallBounds, rows: Tensor) -> tuple[BallBounds, Tensor]:
    """Both sides of the neuron that costs most in each case: first all of one side, then all of the other."""
    met = bounds.rows_met(cases, rows)
    kinks = [at for at, operation in enumerate(bounds.graph.operations) if isinstance(operation, CurveOf)]
    scores = []
    for at in kinks:
        low, high = cases.limits[bounds.graph.operations[at].inputs[0]]
        open_ended = (low < 0) & (high > 0)
        area = torch.where(open_ended, -low * high / (high - low).clamp(min=1e-300), 0.0)
        row = met[at].squeeze(1).abs() if at in met else torch.zeros_like(area)
        scores.append(((row + 1e-12) * area).flatten(1))
    together = torch.cat(scores, 1)
    chosen = together.argmax(1)
    kept = (together.amax(1) > 0).nonzero().squeeze(1)
    both = cases.taken(kept.repeat(2))
    upper = torch.arange(2 * len(kept), device=rows.device) >= len(kept)
    first = 0
    for at, score in zip(kinks, scores, strict=True):
        operation = bounds.graph.operations[at]
        assert isinstance(operation, CurveOf)
        place = chosen[kept].repeat(2) - first
        first += score.shape[1]
        here = (place >= 0) & (place < score.shape[1])
        mask = torch.nn.functional.one_hot(place.clamp(0, score.shape[1] - 1), score.shape[1]).bool()
        mask = (mask & here.unsqueeze(1)).reshape(-1, *operation.shape)
        low, high = both.limits[operation.inputs[0]]
        side = upper.reshape(-1, *[1] * (low.ndim - 1))
        low = torch.where(mask & side, low.clamp(min=0), low)
        high = torch.where(mask & ~side, high.clamp(max=0), high)
        both.limits[operation.inputs[0]] = low, high
        both.relaxations[at] = lines_around(operation.curve, low, high)
    return replace(both), kept
