"""FAB: a minimal-norm attack that follows the linearised decision boundary."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from undertow.adversary.attacks.batch import Batch, Found, beaten
from undertow.adversary.attacks.entry import TARGETS, AttackEntry, targets_left
from undertow.adversary.attacks.objectives import gradient
from undertow.adversary.attacks.search import Search
from undertow.adversary.geometry import clip, lengths, nearest_on_hyperplane
from undertow.adversary.scorer import Scorer

__all__ = ["FAB_TARGETED", "fab", "pull_to_boundary"]


def fab(
    scorer: Scorer,
    batch: Batch,
    *,
    norm: float,
    steps: int = 100,
    alpha_max: float = 0.1,
    overshoot: float = 1.05,
    backward: float = 0.9,
) -> Found:
    """The smallest perturbation that turns the label into the target class (Croce & Hein 2020, targeted FAB).

    At x_i the boundary s_y = s_t is replaced by its tangent hyperplane. With d_i, d_0 the shortest steps
    onto it from x_i and from the clean x, inside the box, and α = min(‖d_i‖ / (‖d_i‖ + ‖d_0‖), α_max),

        x_{i+1} = (1 − α)(x_i + η d_i) + α (x + η d_0),   η = ``overshoot``,

    and each time x_{i+1} is misclassified it is kept if closer than all before and pulled back toward x by
    the factor β = ``backward``. ``batch.eps`` is not used: the result may be longer.
    """
    box, clean = scorer.bounds, batch.x
    x, best = batch.start, batch.start.clone()
    shortest = torch.full_like(batch.eps, torch.inf, dtype=torch.float64)

    def gap(scores: Tensor) -> Tensor:
        picked = [scores.gather(-1, label.unsqueeze(-1)).squeeze(-1) for label in (batch.y, batch.target)]
        return picked[0] - picked[1]

    for _ in range(steps):
        _, level, normal = gradient(scorer, x, gap)
        offset = level - (normal * x).sum(-1)
        here = _onto(x, normal, offset, norm, box)
        there = nearest_on_hyperplane(clean, normal, offset, norm, box)
        from_here, from_there = lengths(here, norm), lengths(there, norm)
        alpha = (
            (from_here / (from_here + from_there).clamp(min=1e-300)).clamp(max=alpha_max).to(x).unsqueeze(-1)
        )
        x = clip((1 - alpha) * (x + overshoot * here) + alpha * (clean + overshoot * there), box)
        with torch.no_grad():
            hit = beaten(scorer(x), batch.y)
        if bool(hit.any()):
            length = lengths(x - clean, norm)
            closer = hit & (length < shortest)
            best = torch.where(closer.unsqueeze(-1), x, best)
            shortest = torch.where(closer, length, shortest)
            x = torch.where(hit.unsqueeze(-1), clean + backward * (x - clean), x)
    broken = shortest.isfinite()
    return Found(pull_to_boundary(scorer, batch, best, broken, steps=5), broken)


def _onto(x: Tensor, normal: Tensor, offset: Tensor, norm: float, box: tuple[float, float] | None) -> Tensor:
    """The shortest step from x onto the hyperplane, from whichever side x lies on."""
    side = torch.where((normal * x).sum(-1) + offset < 0, -1.0, 1.0).to(x)
    return nearest_on_hyperplane(x, side.unsqueeze(-1) * normal, side * offset, norm, box)


def pull_to_boundary(
    scorer: Scorer, batch: Batch, found: Tensor, broken: Tensor, *, steps: int = 20
) -> Tensor:
    """Bisection between the clean point and an adversarial example; what is returned is still adversarial."""
    low, high = torch.zeros_like(batch.eps), torch.ones_like(batch.eps)
    for _ in range(steps):
        middle = (low + high) / 2
        with torch.no_grad():
            hit = beaten(scorer(batch.x + middle.unsqueeze(-1) * (found - batch.x)), batch.y) & broken
        high, low = torch.where(hit, middle, high), torch.where(hit, low, middle)
    nearer = batch.x + high.unsqueeze(-1) * (found - batch.x)
    return torch.where((broken & (high < 1)).unsqueeze(-1), nearer, found)


def _run(search: Search, eps: float, todo: Tensor, pairs: Tensor) -> list[str]:
    for _, target, standing in targets_left(search, eps, todo, pairs):
        attack = partial(fab, norm=search.norm)
        search.run("fab-t", attack, eps=eps, todo=standing, target=target, start=search.x, minimal=True)
    return []


def _passes(classes: int) -> tuple[int, int]:
    targets = min(classes - 1, TARGETS)
    return 205 * targets, 100 * targets


FAB_TARGETED = AttackEntry("fab-t", _run, _passes, minimal=True)
