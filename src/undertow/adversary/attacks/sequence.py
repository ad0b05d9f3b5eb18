"""The attacks by name, and AutoAttack as a sequence of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from undertow.adversary.attacks.apgd import apgd, pgd
from undertow.adversary.attacks.attack_progress import Watcher
from undertow.adversary.attacks.batch import Batch, Found
from undertow.adversary.attacks.canaries import draw, hidden_at_most
from undertow.adversary.attacks.carlini import carlini_wagner
from undertow.adversary.attacks.cost import CANARIES, ENDS, MINIMAL, QUERIES, TARGETS, expected
from undertow.adversary.attacks.decoupled import decoupled
from undertow.adversary.attacks.fab import deepfool, fab
from undertow.adversary.attacks.line import try_lines
from undertow.adversary.attacks.search import Search, generator, random_start
from undertow.adversary.attacks.square import square
from undertow.adversary.classifier import Scorer
from undertow.adversary.geometry import project
from undertow.core.errors import ConfigError, nearest

__all__ = ["ATTACKS", "AUTOATTACK", "attack_all", "sequence_of"]

AUTOATTACK = ("apgd-ce", "apgd-t", "fab-t", "line", "square")
"""The standard version of Croce & Hein (2020), and the lines to points that are decided otherwise."""

Runner = Callable[[Search, float, Tensor, Tensor], list[str]]
"""(search, ε, samples to attack (M, N), (sample, class) pairs not excluded (M, N, k)) → notes."""


def sequence_of(attack: str | Sequence[str]) -> tuple[str, ...]:
    """The attacks that run one after the other, each on what the ones before left standing.

    >>> sequence_of("autoattack")
    ('apgd-ce', 'apgd-t', 'fab-t', 'line', 'square')
    """
    names = AUTOATTACK if attack == "autoattack" else (attack,) if isinstance(attack, str) else tuple(attack)
    for name in names:
        if name not in ATTACKS:
            raise ConfigError(f"attack {name!r} is unknown: {nearest(name, [*ATTACKS, 'autoattack'])}")
    return names


def attack_all(
    search: Search,
    names: Sequence[str],
    eps: Sequence[float],
    possible: Callable[[float], Tensor],
    watcher: Watcher | None = None,
) -> list[str]:
    """Run the attacks at every ε, from the smallest; ``possible(ε)`` (M, N, k) are the pairs left to attack.

    Attacks that look for the smallest perturbation do not depend on ε and see each sample once.
    """
    notes: list[str] = []
    seen = {name: torch.zeros_like(search.distance, dtype=torch.bool) for name in names}
    radii = [radius for radius in sorted(set(eps)) if radius > 0]
    watcher = Watcher() if watcher is None else watcher
    watcher.follow(search)
    for position, radius in enumerate(radii):
        pairs = possible(radius)
        for index, name in enumerate(names):
            todo = (search.distance > radius) & pairs.any(-1)
            if name in MINIMAL:
                todo &= ~seen[name]
            if bool(todo.any()):
                left = partial(_left, search, names, index, radius, len(radii) - position - 1, seen, pairs)
                watcher.stage(search, name, radius, int(todo.sum()), left)
                seen[name] |= todo
                notes += ATTACKS[name](search, radius, todo, pairs)
    watcher.leave(search)
    return list(dict.fromkeys(notes))


def _left(
    search: Search,
    names: Sequence[str],
    index: int,
    eps: float,
    later: int,
    seen: dict[str, Tensor],
    pairs: Tensor,
) -> int:
    """Passes at most, from the attack ``names[index]`` at ε on, if nothing more is broken or spared at later radii."""
    alive = search.distance > eps
    total = 0
    for place, name in enumerate(names):
        now, then = int((alive & pairs.any(-1)).sum()) if place >= index else 0, later * int(alive.sum())
        if name in MINIMAL:
            now, then = int((alive & ~seen[name]).sum()) if later or place >= index else 0, 0
        each = expected([name], 1, 1, search.scorer.classes)[name]
        if name == "square":
            most = CANARIES * search.scorer.members
            now, then = min(now, most), min(then, later * most)
        total += (now + then) * sum(each)
    return total


def _apgd(loss: str, restarts: int, search: Search, eps: float, todo: Tensor, _pairs: Tensor) -> list[str]:
    for restart in range(restarts):
        start = random_start(search, eps, "apgd", loss, restart)
        attack = partial(apgd, norm=search.norm, loss=loss if search.scorer.classes > 2 else "margin")
        search.run(f"apgd-{loss}", attack, eps=eps, todo=todo & (search.distance > eps), start=start)
    return []


def _apgd_targeted(search: Search, eps: float, todo: Tensor, pairs: Tensor) -> list[str]:
    ranked = search.ranked[..., :TARGETS]
    for rank in range(ranked.shape[-1]):
        target = ranked[..., rank]
        standing = todo & (search.distance > eps) & pairs.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        start = random_start(search, eps, "apgd-t", rank)
        attack = partial(apgd, norm=search.norm, loss="dlr-targeted")
        search.run("apgd-t", attack, eps=eps, todo=standing, target=target, start=start)
    return []


def _fab_targeted(search: Search, eps: float, todo: Tensor, pairs: Tensor) -> list[str]:
    ranked = search.ranked[..., :TARGETS]
    for rank in range(ranked.shape[-1]):
        target = ranked[..., rank]
        standing = todo & pairs.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        standing &= search.distance > eps
        attack = partial(fab, norm=search.norm)
        search.run("fab-t", attack, eps=eps, todo=standing, target=target, start=search.x, minimal=True)
    return []


def _pgd(restarts: int, search: Search, eps: float, todo: Tensor, _pairs: Tensor) -> list[str]:
    """100 steps from each start, the first of which is the sample itself."""
    for restart in range(restarts):
        start = search.x if restart == 0 else random_start(search, eps, "pgd", restart)
        attack = partial(pgd, norm=search.norm)
        search.run("pgd", attack, eps=eps, todo=todo & (search.distance > eps), start=start)
    return []


def _deepfool(search: Search, eps: float, todo: Tensor, _pairs: Tensor) -> list[str]:
    search.run(
        "deepfool", partial(deepfool, norm=search.norm), eps=eps, todo=todo, start=search.x, minimal=True
    )
    return []


def _carlini(search: Search, eps: float, todo: Tensor, _pairs: Tensor) -> list[str]:
    attack = partial(carlini_wagner, norm=search.norm)
    search.run("cw", attack, eps=eps, todo=todo, start=search.x, minimal=True)
    return []


def _fast(search: Search, eps: float, todo: Tensor, _pairs: Tensor) -> list[str]:
    """The decoupled search, and where it finds nothing the lines to points decided otherwise."""
    search.run("fast", partial(decoupled, norm=search.norm), eps=eps, todo=todo, start=search.x, minimal=True)
    lacking = todo & search.distance.isinf()
    if bool(lacking.any()):
        try_lines(search, todo=lacking, ends=ENDS, name="fast", eps=eps)
    return []


def _line(search: Search, eps: float, todo: Tensor, _pairs: Tensor) -> list[str]:
    """Points decided otherwise: those within ε are examples; from the others, moved to the ball, APGD goes on."""
    try_lines(search, todo=todo, ends=ENDS, eps=eps)
    reached = todo & (search.distance > eps) & search.distance.isfinite()
    search.run("line", partial(_from_outside, norm=search.norm), eps=eps, todo=reached, start=search.example)
    return []


def _from_outside(scorer: Scorer, batch: Batch, *, norm: float) -> Found:
    start = project(batch.start, batch.x, batch.eps, norm, scorer.bounds)
    return apgd(scorer, replace(batch, start=start), norm=norm, loss="margin")


def _square(search: Search, eps: float, todo: Tensor, _pairs: Tensor) -> list[str]:
    """Square on at most 24 survivors of each member, drawn by class, and on all of a member's if one of these falls.

    Random search breaks what gradients left standing only where gradients mislead; where they do not,
    its 5000 queries would cost more than everything else together.
    """
    priority = torch.randperm(len(search.y), generator=generator(search.seed, "canaries"))
    priority = priority.to(search.place.device)[search.place]
    # who is still standing is decided as its label says
    canaries = torch.stack([draw(own, search.y, priority, CANARIES) for own in todo])
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


ATTACKS: dict[str, Runner] = {
    "apgd-ce": partial(_apgd, "ce", 1),
    "apgd-dlr": partial(_apgd, "dlr", 1),
    "apgd-t": _apgd_targeted,
    "fab-t": _fab_targeted,
    "fast": _fast,
    "line": _line,
    "square": _square,
    "pgd": partial(_pgd, 10),
    "pgd-once": partial(_pgd, 1),
    "deepfool": _deepfool,
    "cw": _carlini,
}
