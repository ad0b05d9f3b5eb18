"""The fast attack: directions by gradient steps, lengths by whether the last point was adversarial.

Rony et al. (2019, DDN) decouple the direction of a perturbation from its norm; Pintor et al. (2021, FMN) carry this to
other norms. Both begin anywhere and need hundreds of steps, most of them to find the class whose boundary is nearest.
Here one linearisation at the sample ranks the classes, the few nearest get a short search each, the best a last one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from undertow.adversary.attacks.batch import Batch, Found, beaten
from undertow.adversary.attacks.fab import pull_to_boundary
from undertow.adversary.attacks.objectives import gradient
from undertow.adversary.geometry import clip, lengths, nearest_on_hyperplane, project, steepest
from undertow.adversary.scorer import Scorer, margins_of

__all__ = ["decoupled", "decoupled_passes", "shorten"]

_LOOKED_AT = 9  # wrong classes, the strongest at the sample, whose linearised boundaries are ranked
_TARGETS, _STEPS, _LAST, _BISECTIONS = 4, 14, 28, 8
_GROWTH = 1.3  # of a ball in which nothing has been found yet, at most, each step
_OVERSHOOT = 1.02


def decoupled_passes(classes: int) -> tuple[int, int]:
    """Forward and backward passes for one sample.

    >>> decoupled_passes(10), decoupled_passes(2)
    ((93, 93), (51, 43))
    """
    boundaries = min(classes - 1, _LOOKED_AT)
    steps = min(boundaries, _TARGETS) * _STEPS + _LAST
    return 1 + steps + _BISECTIONS, boundaries + steps


def decoupled(scorer: Scorer, batch: Batch, *, norm: float) -> Found:
    """The smallest perturbation that changes the decision, to a few per cent, in a hundred gradients.

    1. At x the boundary s_y = s_t of every wrong class t is replaced by its tangent; d_t is the shortest step onto it
       within the box. The four classes with the shortest d_t are tried.
    2. For each, from x + 1.02 d_t, 14 steps: against the gradient of s_y − s_t by a share of ε that falls along a
       cosine, then back into the ball of radius ε, which shrinks by γ after an example and grows by γ after none.
    3. The closest example is taken on for 28 smaller steps on the margin, and pulled to the boundary by bisection.

    Every length is relative to ε, and every ε to the d_t: neither the units of the inputs nor the scale of the
    logits matters. ``batch.eps`` and ``batch.target`` are not used.
    """
    steps, reach, targets = _linearised(scorer, batch, norm)
    kept = _Shortest.nothing(batch)
    for rank in range(min(_TARGETS, targets.shape[-1])):
        target, step = targets[..., rank], steps[..., rank, :]
        start = clip(batch.x + _OVERSHOOT * step, scorer.bounds)
        _descend(scorer, batch, kept, start, reach[..., rank], norm, _STEPS, target=target)
    start = torch.where(kept.found.unsqueeze(-1), kept.x, batch.x)
    radius = torch.where(kept.found, kept.length, reach[..., 0])
    _descend(scorer, batch, kept, start, radius, norm, _LAST, step=(0.2, 0.01), rate=(0.03, 0.001))
    return Found(pull_to_boundary(scorer, batch, kept.x, kept.found, steps=_BISECTIONS), kept.found)


def shorten(scorer: Scorer, batch: Batch, *, norm: float) -> Found:
    """Only the last search, from examples that are known: ``batch.start``."""
    kept = _Shortest.nothing(batch)
    radius = lengths(batch.start - batch.x, norm)
    _descend(scorer, batch, kept, batch.start, radius, norm, _LAST, step=(0.5, 0.01), rate=(0.1, 0.001))
    return Found(pull_to_boundary(scorer, batch, kept.x, kept.found, steps=_BISECTIONS), kept.found)


@dataclass
class _Shortest:
    """The closest examples so far (M, P, d) and their lengths (M, P), inf where there is none."""

    x: Tensor
    length: Tensor

    @classmethod
    def nothing(cls, batch: Batch) -> _Shortest:
        return cls(
            batch.x.clone(), torch.full(batch.y.shape, math.inf, dtype=torch.float64, device=batch.x.device)
        )

    @property
    def found(self) -> Tensor:
        return self.length.isfinite()

    def keep(self, x: Tensor, length: Tensor, hit: Tensor) -> None:
        closer = hit & (length < self.length)
        self.x = torch.where(closer.unsqueeze(-1), x, self.x)
        self.length = torch.where(closer, length, self.length)


def _descend(
    scorer: Scorer,
    batch: Batch,
    kept: _Shortest,
    x: Tensor,
    radius: Tensor,
    norm: float,
    steps: int,
    *,
    target: Tensor | None = None,
    step: tuple[float, float] = (0.5, 0.02),
    rate: tuple[float, float] = (0.1, 0.002),
) -> None:
    """Steps of ``step``·ε and changes of ε by ``rate``, both from the first number to the second along a cosine."""

    def gap(scores: Tensor) -> Tensor:
        if target is None:
            return margins_of(scores, batch.y)
        own, other = (scores.gather(-1, label.unsqueeze(-1)).squeeze(-1) for label in (batch.y, target))
        return own - other

    ever = torch.zeros_like(batch.y, dtype=torch.bool)
    for index in range(steps):
        share = (1 + math.cos(math.pi * index / (steps - 1))) / 2
        size, change = (last + (first - last) * share for first, last in (step, rate))
        scores, level, slope = gradient(scorer, x, gap)
        hit, length = beaten(scores, batch.y), lengths(x - batch.x, norm)
        kept.keep(x, length, hit)
        if index == steps - 1:
            return
        here = hit & (level <= 0)  # another class may have won on the way to the target
        ever |= here
        # where the tangent says the boundary is; inf on flat ground, hence the limit to the growth
        ahead = length + level.double().clamp(min=0) / _dual(slope, norm)
        blind = torch.minimum(torch.maximum(ahead, (1 + change) * radius), _GROWTH * radius)
        inside = torch.minimum(radius, length) * (1 - change)
        radius = torch.where(here, inside, torch.where(ever, (1 + change) * radius, blind))
        ball = radius.to(x)
        x = project(x - size * ball.unsqueeze(-1) * steepest(slope, norm), batch.x, ball, norm, scorer.bounds)


def _linearised(scorer: Scorer, batch: Batch, norm: float) -> tuple[Tensor, Tensor, Tensor]:
    """The shortest steps (M, P, T, d) onto linearised boundaries, their lengths (M, P, T) and classes, nearest first.

    Lengths are 0 where the scores have no slope: nothing says how far to look.
    """
    with torch.enable_grad():
        leaf = batch.x.detach().requires_grad_(True)
        scores = scorer(leaf)
        own = scores.gather(-1, batch.y.unsqueeze(-1))
        wrong = scores.detach().scatter(-1, batch.y.unsqueeze(-1), -math.inf)
        classes = wrong.topk(min(scores.shape[-1] - 1, _LOOKED_AT), -1).indices
        gaps = own - scores.gather(-1, classes)
        slopes = [
            torch.autograd.grad(gaps[..., rank].sum(), leaf, retain_graph=True)[0]
            for rank in range(classes.shape[-1])
        ]
    found, reach, order = [], [], []
    for rank, normal in enumerate(slopes):
        level = gaps[..., rank].detach()
        step = nearest_on_hyperplane(batch.x, normal, level - (normal * batch.x).sum(-1), norm, scorer.bounds)
        flat = (normal == 0).all(-1)
        # where the box ends before the tangent does, the class comes behind those that can be reached
        short = (normal * step).sum(-1) + level > 1e-3 * level
        length = torch.where(flat, 0.0, lengths(step, norm))
        found.append(torch.where(flat.unsqueeze(-1), 0.0, step))
        reach.append(length)
        order.append(torch.where(flat, math.inf, torch.where(short, 4 * length, length)))
    nearest = torch.stack(order, -1).argsort(-1)
    steps = torch.stack(found, -2)
    return (
        steps.gather(-2, nearest.unsqueeze(-1).expand_as(steps)),
        torch.stack(reach, -1).gather(-1, nearest),
        classes.gather(-1, nearest),
    )


def _dual(slope: Tensor, norm: float) -> Tensor:
    slope = slope.double()
    return slope.abs().sum(-1) if norm == math.inf else torch.linalg.vector_norm(slope, dim=-1)
