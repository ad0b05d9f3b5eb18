"""Shorter adversarial examples: APGD in ever smaller balls."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from undertow.adversary.attacks.apgd import apgd
from undertow.adversary.attacks.batch import Batch, Found
from undertow.adversary.attacks.fab import pull_to_boundary
from undertow.adversary.attacks.search import Search, random_direction
from undertow.adversary.geometry import project
from undertow.adversary.scorer import Scorer

__all__ = ["reach_out", "refine", "shrink"]


def refine(
    search: Search,
    *,
    factors: tuple[float, ...] = (0.9, 0.97, 0.99, 0.999),
    rounds: int = 4,
    restarts: int = 3,
) -> None:
    """Ask, for each sample with an example at distance r, for one within f·r, as long as that succeeds.

    Searches start at random places in the ball, which may find another part of the boundary, then at the
    known example moved into the smaller ball, where it is nearly adversarial already.
    """
    for restart in range(restarts):
        # not a point at distance 1 less x, which in large units is nothing but rounding
        direction = random_direction(search, "refine", restart)
        radius = torch.where(search.distance.isfinite(), search.distance, 0.0).to(search.x)
        start = search.x + radius.unsqueeze(-1) * direction
        todo = (search.distance > 0) & search.distance.isfinite()
        shrink(search, start, todo, factors[0])
    for factor in factors:
        todo = (search.distance > 0) & search.distance.isfinite()
        for _ in range(rounds):
            todo = shrink(search, search.example, todo, factor)


def reach_out(search: Search, radius: Tensor, *, starts: int = 2, doublings: int = 10) -> None:
    """Look for examples where none is known, from random starts in balls that grow from ``radius`` (M, N).

    A gradient at the sample says nothing of what lies behind a flat region, or behind a place where another class is
    nearly as strong.
    """
    for doubling in range(doublings + 1):
        for start in range(starts):
            todo = search.distance.isinf() & radius.isfinite() & (radius > 0)
            if not bool(todo.any()):
                return
            ball = torch.where(todo, 2.0**doubling * radius, 0.0)
            direction = random_direction(search, "reach", doubling, start)
            begin = search.x + ball.to(search.x).unsqueeze(-1) * direction
            shrink(search, begin, todo, 1.0, radius=ball)


def shrink(
    search: Search, start: Tensor, todo: Tensor, factor: float, *, radius: Tensor | None = None
) -> Tensor:
    """One attack, from ``start``, on balls of ``factor`` times each distance, or radius; whom it helped."""
    if not bool(todo.any()):
        return todo
    before = search.distance.clone()
    attack = partial(_within, factor=factor, norm=search.norm)
    balls = search.distance if radius is None else radius
    search.run("refine", attack, eps=0.0, todo=todo, start=start, minimal=True, radius=balls)
    return todo & (search.distance < before)


def _within(scorer: Scorer, batch: Batch, *, factor: float, norm: float) -> Found:
    smaller = factor * batch.eps
    start = project(batch.start, batch.x, smaller, norm, scorer.bounds)
    inner = Batch(batch.x, start, batch.y, batch.target, smaller, batch.scale)
    found = apgd(scorer, inner, norm=norm, loss="margin", steps=30)
    return Found(pull_to_boundary(scorer, inner, found.x, found.broken), found.broken)
