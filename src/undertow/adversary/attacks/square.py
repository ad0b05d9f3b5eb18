"""Square Attack: random search with localised changes, no gradients (Andriushchenko et al. 2020)."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from undertow.adversary.attacks.batch import Batch, Found, all_columns, beaten, remaining, take
from undertow.adversary.attacks.canaries import draw, hidden_at_most
from undertow.adversary.attacks.entry import FEW, AttackEntry
from undertow.adversary.attacks.search import Search, generator
from undertow.adversary.geometry import lengths, project
from undertow.adversary.scorer import Scorer, margins_of

__all__ = ["SQUARE", "share_changed", "square"]

QUERIES = 5000
_BITS = 60  # coins in one hash


def share_changed(query: int, queries: int, first: float = 0.8) -> float:
    """The share of coordinates a proposal changes: p halves at 10, 50, 200, 500, 1000, 2000, 4000, 6000 and
    8000 of 10,000 queries, rescaled to the budget.

    >>> share_changed(0, 5000), share_changed(4999, 5000) == 0.8 / 2 ** 9
    (0.8, True)
    """
    position = int(query / queries * 10_000)
    return float(
        first / 2 ** sum(position > mark for mark in (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000))
    )


def square(
    scorer: Scorer,
    batch: Batch,
    *,
    norm: float,
    seed: int = 0,
    queries: int = QUERIES,
    first: float = 0.8,
) -> Found:
    """Proposals in one window at a time, kept when they lower the margin.

    L∞: a window is set to ±ε per channel. L2: a window receives a bump of one sign per channel whose size is
    what the budget ε leaves, plus what the perturbation in a second window, erased, gives back. Inputs that
    are not images (C, H, W) are treated as one row of coordinates, where a window is an interval.

    All samples of a step share the window; signs are their own, by the number of the sample (``batch.place``) and
    not by its position, so that no sample's search depends on which others are attacked beside it.
    """
    windows = generator(seed, "square")
    shape = scorer.shape if len(scorer.shape) == 3 else (1, 1, math.prod(scorer.shape))
    found, columns = Found.nothing(batch), all_columns(batch)
    x, delta = batch.x, _stripes(batch, shape, norm, seed)
    delta = project(x + delta, x, batch.eps, norm, scorer.bounds) - x
    with torch.no_grad():
        level = margins_of(scorer(x + delta), batch.y)
    bits = _bits(batch, shape[0], seed, 0)
    for query in range(queries):
        if query % _BITS == 0:
            bits = _bits(batch, shape[0], seed, 1 + query // _BITS)
        window = _window(shape, share_changed(query, queries, first), windows)
        proposal = delta.reshape(*delta.shape[:2], *shape).clone()
        signs = _signs(bits, query % _BITS, proposal)[..., None, None]
        if norm == math.inf:
            proposal[..., window[0], window[1]] = signs * batch.eps[..., None, None, None]
        else:
            other = _window(shape, share_changed(query, queries, first), windows)
            _move_mass(proposal, window, other, signs, batch.eps)
        moved = project(x + proposal.reshape_as(delta), x, batch.eps, norm, scorer.bounds)
        with torch.no_grad():
            scores = scorer(moved)
        new_level, hit = margins_of(scores, batch.y), beaten(scores, batch.y)
        better = new_level < level
        delta = torch.where(better.unsqueeze(-1), moved - x, delta)
        level = torch.where(better, new_level, level)
        if bool(hit.any()):
            # The first example counts: broken samples stay in the batch for as long as others share it.
            found.record(columns, moved, hit, first=True)
            left = remaining(found.broken, columns)
            if left is not None:
                if left.shape[1] == 0:
                    break
                batch, columns = batch.keep(left), take(columns, left)
                x, delta, level, bits = batch.x, take(delta, left), take(level, left), take(bits, left)
    return found


def _stripes(batch: Batch, shape: tuple[int, ...], norm: float, seed: int) -> Tensor:
    """The start: vertical stripes of ±ε, scaled to the budget for L2."""
    signs = _signs(_bits(batch, shape[0] * shape[2], seed, 0), 0, batch.x)
    stripes = signs.reshape(*batch.y.shape, shape[0], 1, shape[2]).expand(*batch.y.shape, *shape).flatten(2)
    if norm == 2:
        stripes = stripes / lengths(stripes, 2.0).to(stripes).unsqueeze(-1)
    return stripes * batch.eps.unsqueeze(-1)


def _window(shape: tuple[int, ...], share: float, source: torch.Generator) -> tuple[slice, slice]:
    height, width = shape[1], shape[2]
    if height == 1:
        tall, wide = 1, min(max(round(share * width), 1), max(width - 1, 1))
    else:
        side = min(max(round(math.sqrt(share * height * width)), 1), min(height, width) - 1 or 1)
        tall = wide = side
    top = int(torch.randint(height - tall + 1, (1,), generator=source))
    left = int(torch.randint(width - wide + 1, (1,), generator=source))
    return slice(top, top + tall), slice(left, left + wide)


def _move_mass(
    delta: Tensor, window: tuple[slice, slice], other: tuple[slice, slice], signs: Tensor, eps: Tensor
) -> None:
    """Erase ``other`` and spend what it and the unused budget hold on a bump in ``window``, in place."""
    channels = delta.shape[2]
    outside = delta.clone()
    outside[..., other[0], other[1]] = 0
    outside[..., window[0], window[1]] = 0
    size = torch.where(eps > 0, eps, 1.0)  # shares of ε, whose own square may be too small for a float
    spent = (outside / size[..., None, None, None]).square().sum((2, 3, 4))
    budget = (1 - spent).clamp(min=0)
    old = delta[..., window[0], window[1]]
    norm = torch.linalg.vector_norm(old, dim=(3, 4), keepdim=True)
    bump = _bump(old.shape[3], old.shape[4]).to(delta) * signs + old / torch.where(norm > 0, norm, 1.0)
    bump = bump / torch.linalg.vector_norm(bump, dim=(3, 4), keepdim=True).clamp(min=1e-12)
    outside[..., window[0], window[1]] = bump * (eps * (budget / channels).sqrt())[..., None, None, None]
    delta.copy_(outside)


def _bump(tall: int, wide: int) -> Tensor:
    """A pyramid of unit length: concentric rings that grow toward the centre."""
    rows = torch.minimum(torch.arange(tall), tall - 1 - torch.arange(tall)) + 1.0
    columns = torch.minimum(torch.arange(wide), wide - 1 - torch.arange(wide)) + 1.0
    rings = columns if tall == 1 else torch.minimum(rows[:, None], columns)
    bump = rings.reshape(tall, wide)
    length: Tensor = torch.linalg.vector_norm(bump)
    return bump / length


def _signs(bits: Tensor, position: int, like: Tensor) -> Tensor:
    return (2 * ((bits >> position) & 1) - 1).to(like)


def _bits(batch: Batch, count: int, seed: int, block: int) -> Tensor:
    """Random integers (M, P, count) by sample, position and block: a hash (splitmix64), whose bits are coins."""
    assert batch.place is not None
    each = torch.arange(count, device=batch.x.device)
    mixed = _mix(batch.place.unsqueeze(-1) * 0x1E3779B97F4A7C15 + each * 0x3F58476D1CE4E5B9)
    return _mix(_mix(mixed + seed % 2**62) + block)


def _mix(bits: Tensor) -> Tensor:
    """One round of splitmix64, in int64 arithmetic that wraps around; shifts are made logical by masks."""
    bits = (bits ^ ((bits >> 30) & 0x3FFFFFFFF)) * -0x40A7B892E31B1A47
    bits = (bits ^ ((bits >> 27) & 0x1FFFFFFFFF)) * -0x6B2FB644ECCEEE15
    return bits ^ ((bits >> 31) & 0x1FFFFFFFF)


def _run(search: Search, eps: float, todo: Tensor, _pairs: Tensor) -> list[str]:
    """Square on at most 24 survivors of each member, drawn by class, and on all of a member's if one of these falls.

    Random search breaks what gradients left standing only where gradients mislead; where they do not,
    its 5000 queries would cost more than everything else together.
    """
    priority = torch.randperm(len(search.y), generator=generator(search.seed, "canaries"))
    priority = priority.to(search.place.device)[search.place]
    # who is still standing is decided as its label says
    canaries = torch.stack([draw(own, search.y, priority, FEW) for own in todo])
    attack = partial(square, norm=search.norm, seed=search.seed, queries=QUERIES)
    search.run("square", attack, eps=eps, todo=canaries, start=search.x)
    fell = (canaries & (search.distance <= eps)).any(1)
    rest = todo & ~canaries
    notes = []
    if bool(fell.any()):
        search.run("square", attack, eps=eps, todo=rest & fell.unsqueeze(1), start=search.x)
        notes.append("square broke samples that other attacks had not: gradients of this network may mislead")
    kept = (rest.any(1) & ~fell).nonzero().squeeze(1).tolist()
    if kept:
        notes.append(max(_guarantee(todo[member], canaries[member], search.y, eps) for member in kept)[1])
    return notes


def _guarantee(todo: Tensor, canaries: Tensor, classes: Tensor, eps: float) -> tuple[int, str]:
    """How many could have been missed, and the sentence that says so."""
    found = [classes[some].bincount(minlength=int(classes.max()) + 1).tolist() for some in (todo, canaries)]
    hidden, standing = hidden_at_most(found[0], found[1]) + 1, int(todo.sum())
    return hidden, (
        f"square was tried on {int(canaries.sum())} of the {standing} samples left standing at ε = {eps:g}, drawn at "
        f"random from every class, and broke none: if it could break {hidden} or more of them, wherever they are, one "
        "would have shown with 95 %"
    )


SQUARE = AttackEntry("square", _run, lambda _: (QUERIES + 1, 0), few_first=True)
