"""Auto-PGD: projected gradient ascent that chooses its own step size (Croce & Hein 2020, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from undertow.adversary.attacks.batch import Batch, Found, all_columns, beaten, remaining, take
from undertow.adversary.attacks.entry import TARGETS, AttackEntry, targets_left
from undertow.adversary.attacks.objectives import Objective, gradient, objective
from undertow.adversary.attacks.search import Search, random_start
from undertow.adversary.geometry import project, steepest
from undertow.adversary.scorer import Scorer

__all__ = ["APGD_CE", "APGD_DLR", "APGD_TARGETED", "apgd", "checkpoints"]


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
    value = objective(loss) if isinstance(loss, str) else loss
    found, columns, marks = Found.nothing(batch), all_columns(batch), checkpoints(steps)

    def climb(at: Tensor) -> tuple[Tensor, ...]:
        return gradient(scorer, at, lambda s: value(s, batch.y, batch.target, batch.scale))

    scores, level, slope = climb(batch.start)
    state = _Climb.begin(batch, level, slope)
    found.record(columns, state.best, beaten(scores, batch.y), first=stop)
    since = 0
    for index in range(1, steps + 1):
        state.move(batch, 1.0 if index == 1 else momentum, norm, scorer.bounds)
        scores, level, slope = climb(state.x)
        state.hear(level, slope)
        found.record(columns, state.x, beaten(scores, batch.y), first=stop)
        since += 1
        if index not in marks:
            continue
        state.reconsider(rho * since)
        since = 0
        if stop and (left := remaining(found.broken, columns)) is not None:
            if left.shape[1] == 0:
                return found
            batch, columns, state = batch.keep(left), take(columns, left), state.keep(left)
    if not stop:
        return Found(state.best, found.broken)
    found.fill(columns, state.best)
    return found


@dataclass
class _Climb:
    """Where every sample's search stands, (M, P, d) or (M, P): here, one step before, at its best, and its step."""

    x: Tensor
    previous: Tensor
    best: Tensor
    slope: Tensor
    best_slope: Tensor
    level: Tensor
    best_level: Tensor
    last_best: Tensor
    """The best level at the checkpoint before."""
    step: Tensor
    unchanged: Tensor
    """Whether the step size stayed the same at the checkpoint before."""
    rises: Tensor
    """Steps that went up since then."""

    @classmethod
    def begin(cls, batch: Batch, level: Tensor, slope: Tensor) -> _Climb:
        start, none = batch.start, torch.zeros_like(batch.y)
        return cls(
            x=start,
            previous=start,
            best=start,
            slope=slope,
            best_slope=slope,
            level=level,
            best_level=level,
            last_best=level.clone(),
            step=2 * batch.eps,
            unchanged=none.bool(),
            rises=none,
        )

    def move(self, batch: Batch, alpha: float, norm: float, box: tuple[float, float] | None) -> None:
        """One step up, with a share 1 − α of the step before."""
        x = self.x
        up = x + self.step.unsqueeze(-1) * steepest(self.slope, norm)
        ascent = project(up, batch.x, batch.eps, norm, box)
        moved = x + alpha * (ascent - x) + (1 - alpha) * (x - self.previous)
        self.previous, self.x = x, project(moved, batch.x, batch.eps, norm, box)

    def hear(self, level: Tensor, slope: Tensor) -> None:
        """What the network says of the point just reached."""
        self.rises = self.rises + (level > self.level)
        self.level, self.slope = level, slope
        better = level > self.best_level
        self.best = torch.where(better.unsqueeze(-1), self.x, self.best)
        self.best_slope = torch.where(better.unsqueeze(-1), slope, self.best_slope)
        self.best_level = torch.where(better, level, self.best_level)

    def reconsider(self, enough: float) -> None:
        """Halve the steps of searches with fewer rises than ``enough``, or stuck, and take these back to their best."""
        stuck = self.unchanged & (self.last_best >= self.best_level)
        halve = (self.rises < enough) | stuck
        self.step = torch.where(halve, self.step / 2, self.step)
        back = halve.unsqueeze(-1)
        self.x, self.slope = (
            torch.where(back, self.best, self.x),
            torch.where(back, self.best_slope, self.slope),
        )
        self.level = torch.where(halve, self.best_level, self.level)
        self.unchanged, self.last_best = ~halve, self.best_level.clone()
        self.rises = torch.zeros_like(self.rises)

    def keep(self, columns: Tensor) -> _Climb:
        """The samples that stay in the batch."""
        return _Climb(**{name: take(value, columns) for name, value in vars(self).items()})


def _run(loss: str, search: Search, eps: float, todo: Tensor, _pairs: Tensor) -> list[str]:
    start = random_start(search, eps, "apgd", loss, 0)
    attack = partial(apgd, norm=search.norm, loss=loss if search.scorer.classes > 2 else "margin")
    search.run(f"apgd-{loss}", attack, eps=eps, todo=todo & (search.distance > eps), start=start)
    return []


def _run_targeted(search: Search, eps: float, todo: Tensor, pairs: Tensor) -> list[str]:
    for rank, target, standing in targets_left(search, eps, todo, pairs):
        start = random_start(search, eps, "apgd-t", rank)
        attack = partial(apgd, norm=search.norm, loss="dlr-targeted")
        search.run("apgd-t", attack, eps=eps, todo=standing, target=target, start=start)
    return []


def _targeted_passes(classes: int) -> tuple[int, int]:
    each = 101 * min(classes - 1, TARGETS)
    return each, each


APGD_CE = AttackEntry("apgd-ce", partial(_run, "ce"), lambda _: (101, 101))
APGD_DLR = AttackEntry("apgd-dlr", partial(_run, "dlr"), lambda _: (101, 101))
APGD_TARGETED = AttackEntry("apgd-t", _run_targeted, _targeted_passes)
