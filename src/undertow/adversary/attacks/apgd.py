"""Auto-PGD: projected gradient ascent that chooses its own step size (Croce & Hein 2020, Algorithm 1)."""

from __future__ import annotations

import torch
from torch import Tensor

from undertow.adversary.attacks.batch import Batch, Found, beaten, remaining, take
from undertow.adversary.attacks.objectives import Objective, gradient, objective
from undertow.adversary.classifier import Scorer
from undertow.adversary.geometry import project, steepest

__all__ = ["apgd", "checkpoints", "pgd"]


def checkpoints(steps: int) -> set[int]:
    """Steps at which the step size is reconsidered: p₁ = 0.22, then intervals shrinking by 0.03 to 0.06.

    >>> sorted(checkpoints(100))
    [22, 41, 57, 70, 80, 87, 93, 99]
    """
    shares, interval = [0.22], 0.22
    while shares[-1] < 1:
        interval = max(interval - 0.03, 0.06)
        shares.append(shares[-1] + interval)
    return {int(share * steps + 1 - 1e-9) for share in shares if share < 1}


def apgd(
    scorer: Scorer,
    batch: Batch,
    *,
    norm: float,
    loss: str | Objective = "ce",
    steps: int = 100,
    momentum: float = 0.75,
    rho: float = 0.75,
    stop: bool = True,
) -> Found:
    """Maximise an objective in the ball of each sample's radius.

    The step starts at 2ε and is halved at a checkpoint when too few steps (a share below ``rho``) went up,
    or when neither the step size nor the best value changed since the checkpoint before; the search then
    resumes from the best point. With ``stop`` a sample leaves the batch as soon as it is misclassified.
    """
    value, box = (objective(loss) if isinstance(loss, str) else loss), scorer.bounds
    found = Found(batch.start.clone(), torch.zeros_like(batch.y, dtype=torch.bool))
    columns = torch.arange(batch.y.shape[1], device=batch.x.device).expand_as(batch.y)
    marks = checkpoints(steps)

    def climb(at: Tensor) -> tuple[Tensor, ...]:
        return gradient(scorer, at, lambda s: value(s, batch.y, batch.target, batch.scale))

    scores, level, slope = climb(batch.start)
    x = previous = best = batch.start
    best_level, best_slope, step = level, slope, 2 * batch.eps
    rises, last_best = torch.zeros_like(batch.y), level.clone()
    unchanged, since = torch.zeros_like(found.broken), 0
    _record(found, columns, best, beaten(scores, batch.y), stop)
    for index in range(1, steps + 1):
        alpha = 1.0 if index == 1 else momentum
        ascent = project(x + step.unsqueeze(-1) * steepest(slope, norm), batch.x, batch.eps, norm, box)
        moved = x + alpha * (ascent - x) + (1 - alpha) * (x - previous)
        previous, x = x, project(moved, batch.x, batch.eps, norm, box)
        scores, new_level, slope = climb(x)
        rises = rises + (new_level > level)
        level = new_level
        better = level > best_level
        best = torch.where(better.unsqueeze(-1), x, best)
        best_slope = torch.where(better.unsqueeze(-1), slope, best_slope)
        best_level = torch.where(better, level, best_level)
        _record(found, columns, x, beaten(scores, batch.y), stop)
        since += 1
        if index not in marks:
            continue
        stuck = unchanged & (last_best >= best_level)
        halve = (rises < rho * since) | stuck
        step = torch.where(halve, step / 2, step)
        back = halve.unsqueeze(-1)
        x, slope = torch.where(back, best, x), torch.where(back, best_slope, slope)
        level = torch.where(halve, best_level, level)
        unchanged, last_best, since = ~halve, best_level.clone(), 0
        rises = torch.zeros_like(rises)
        if stop and (left := remaining(found.broken, columns)) is not None:
            if left.shape[1] == 0:
                return found
            batch, columns = batch.keep(left), take(columns, left)
            x, previous, best, slope, best_slope, level, best_level, last_best, step, unchanged, rises = (
                take(state, left)
                for state in (
                    x,
                    previous,
                    best,
                    slope,
                    best_slope,
                    level,
                    best_level,
                    last_best,
                    step,
                    unchanged,
                    rises,
                )
            )
    if not stop:
        return Found(best, found.broken)
    _fill(found, columns, best)
    return found


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
    found = Found(batch.start.clone(), torch.zeros_like(batch.y, dtype=torch.bool))
    columns = torch.arange(batch.y.shape[1], device=batch.x.device).expand_as(batch.y)
    x, best_level = batch.start, torch.full_like(batch.eps, -torch.inf)
    for _ in range(steps + 1):
        scores, level, slope = gradient(scorer, x, lambda s: value(s, batch.y, batch.target, batch.scale))
        if stop:
            _record(found, columns, x, beaten(scores, batch.y), stop)
        else:
            better = level > best_level
            found.x, best_level = (
                torch.where(better.unsqueeze(-1), x, found.x),
                torch.where(better, level, best_level),
            )
            found.broken |= beaten(scores, batch.y)
        x = project(x + size * steepest(slope, norm), batch.x, batch.eps, norm, scorer.bounds)
    return found


def _record(found: Found, columns: Tensor, x: Tensor, hit: Tensor, stop: bool) -> None:
    """Store new adversarial examples at their place in the whole batch; the first one found stays."""
    if not bool(hit.any()):
        return
    fresh = hit & ~found.broken.gather(1, columns) if stop else hit
    members, positions = fresh.nonzero(as_tuple=True)
    places = columns[members, positions]
    found.x[members, places] = x[members, positions]
    found.broken[members, places] = True


def _fill(found: Found, columns: Tensor, best: Tensor) -> None:
    """The best point met, where nothing was broken."""
    members, positions = (~found.broken.gather(1, columns)).nonzero(as_tuple=True)
    found.x[members, columns[members, positions]] = best[members, positions]
