"""Projected gradient ascent with a constant step (Madry et al. 2018)."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from undertow.adversary.attacks.batch import Batch, Found, all_columns, beaten
from undertow.adversary.attacks.entry import AttackEntry
from undertow.adversary.attacks.objectives import gradient, objective
from undertow.adversary.attacks.search import Search, random_start
from undertow.adversary.geometry import project, steepest
from undertow.adversary.scorer import Scorer

__all__ = ["PGD", "PGD_ONCE", "pgd"]


def pgd(
    scorer: Scorer,
    batch: Batch,
    *,
    norm: float,
    loss: str = "margin",
    steps: int = 100,
    step: float | None = None,
    stop: bool = True,
) -> Found:
    """Projected gradient ascent with a constant step, in units of ε (Madry et al. 2018)."""
    value = objective(loss)
    size = (2.5 / steps if step is None else step) * batch.eps.unsqueeze(-1)
    found, columns = Found.nothing(batch), all_columns(batch)
    x, best_level = batch.start, torch.full_like(batch.eps, -torch.inf)
    for _ in range(steps + 1):
        scores, level, slope = gradient(scorer, x, lambda s: value(s, batch.y, batch.target, batch.scale))
        if stop:
            found.record(columns, x, beaten(scores, batch.y))
        else:
            better = level > best_level
            found.x, best_level = (
                torch.where(better.unsqueeze(-1), x, found.x),
                torch.where(better, level, best_level),
            )
            found.broken |= beaten(scores, batch.y)
        x = project(x + size * steepest(slope, norm), batch.x, batch.eps, norm, scorer.bounds)
    return found


def _run(restarts: int, search: Search, eps: float, todo: Tensor, _pairs: Tensor) -> list[str]:
    """100 steps from each start, the first of which is the sample itself."""
    for restart in range(restarts):
        start = search.x if restart == 0 else random_start(search, eps, "pgd", restart)
        attack = partial(pgd, norm=search.norm)
        search.run("pgd", attack, eps=eps, todo=todo & (search.distance > eps), start=start)
    return []


PGD = AttackEntry("pgd", partial(_run, 10), lambda _: (1010, 1010))
PGD_ONCE = AttackEntry("pgd-once", partial(_run, 1), lambda _: (101, 101))
