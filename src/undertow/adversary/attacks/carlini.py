"""The attack of Carlini & Wagner (2017) for L2, with a margin that does not depend on the logits' scale."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from undertow.adversary.attacks.batch import Batch, Found, beaten
from undertow.adversary.attacks.entry import AttackEntry
from undertow.adversary.attacks.objectives import gradient
from undertow.adversary.attacks.search import Search
from undertow.adversary.geometry import lengths
from undertow.adversary.scorer import Scorer, margins_of
from undertow.core.errors import InputError
from undertow.training.directions import Adam

__all__ = ["CARLINI_WAGNER", "carlini_wagner"]


def carlini_wagner(
    scorer: Scorer,
    batch: Batch,
    *,
    norm: float = 2.0,
    searches: int = 9,
    steps: int = 200,
    rate: float = 0.02,
    constant: float = 1.0,
) -> Found:
    """min ‖δ‖² / r² + c·max(q(x + δ) / q(x), 0) by Adam, with c found by binary search.

    Both terms are pure numbers: q(x) is the clean margin and r the radius ‖∇q‖⁻¹ q(x) at which the margin
    would vanish if the network were linear, so neither the scale of the logits nor that of the inputs
    matters. In a box x + δ = centre + half-width·tanh(w), as in the paper; without one δ itself is searched.
    """
    if norm != 2:
        raise InputError(
            "the Carlini–Wagner attack here is for norm=2: use attack='apgd-ce' or 'fab-t' for norm=math.inf"
        )
    scale = torch.where(batch.scale > 0, batch.scale, 1.0)
    _, _, slope = gradient(scorer, batch.x, lambda s: margins_of(s, batch.y))
    steepness = lengths(slope, 2.0).to(scale)
    radius = torch.where(steepness > 0, scale / torch.where(steepness > 0, steepness, 1.0), 1.0).unsqueeze(-1)
    to_point, start = _coordinates(batch.x, batch.start, radius, scorer.bounds)
    low, high = torch.zeros_like(scale), torch.full_like(scale, math.inf)
    c = torch.full_like(scale, constant)
    best, shortest = batch.start.clone(), torch.full_like(scale, math.inf, dtype=torch.float64)
    rates = torch.full_like(scale[:, 0], rate)
    for _ in range(searches):
        w = start.clone().requires_grad_(True)
        searched = {"w": w.detach()}
        adam, memory = Adam(), Adam().start(searched)
        succeeded = torch.zeros_like(batch.y, dtype=torch.bool)
        for _ in range(steps):
            with torch.enable_grad():
                point = to_point(w)
                scores = scorer(point)
                distance = (((point - batch.x) / radius) ** 2).sum(-1)
                cost = distance + c * (margins_of(scores, batch.y) / scale).clamp(min=0)
                (slope,) = torch.autograd.grad(cost.sum(), w)
            hit = beaten(scores.detach(), batch.y)
            length = lengths(point.detach() - batch.x, 2.0)
            closer = hit & (length < shortest)
            best = torch.where(closer.unsqueeze(-1), point.detach(), best)
            shortest = torch.where(closer, length, shortest)
            succeeded |= hit
            adam.step(searched, {"w": slope}, memory, rates)
        high, low = torch.where(succeeded, c, high), torch.where(succeeded, low, c)
        c = torch.where(high.isfinite(), (low + high) / 2, 10 * c)
    return Found(best, shortest.isfinite())


def _coordinates(
    x: Tensor, start: Tensor, radius: Tensor, bounds: tuple[float, float] | None
) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """The change of variables w → point, and the w of the starting point."""
    if bounds is None:
        return (lambda w: x + radius * w), (start - x) / radius
    centre, half = (bounds[0] + bounds[1]) / 2, (bounds[1] - bounds[0]) / 2
    # one part in 10⁵ inside the box: tanh never reaches ±1, and its slope there is nearly zero
    inside = ((start - centre) / half).clamp(-1 + 1e-5, 1 - 1e-5)
    return (lambda w: centre + half * torch.tanh(w)), torch.atanh(inside)


def _run(search: Search, eps: float, todo: Tensor, _pairs: Tensor) -> list[str]:
    attack = partial(carlini_wagner, norm=search.norm)
    search.run("cw", attack, eps=eps, todo=todo, start=search.x, minimal=True)
    return []


CARLINI_WAGNER = AttackEntry("cw", _run, lambda _: (1801, 1801), minimal=True)
