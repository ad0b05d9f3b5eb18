"""AutoAttack as a sequence of attacks, and how a sequence runs: each attack on what the ones before left standing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from undertow.adversary.attacks.attack_progress import Watcher
from undertow.adversary.attacks.cost import expected
from undertow.adversary.attacks.entry import FEW
from undertow.adversary.attacks.registry import ATTACKS
from undertow.adversary.attacks.search import Search
from undertow.core.errors import ConfigError, nearest

__all__ = ["AUTOATTACK", "attack_all", "sequence_of"]

AUTOATTACK = ("apgd-ce", "apgd-t", "fab-t", "line", "square")
"""The standard version of Croce & Hein (2020), and the lines to points that are decided otherwise."""


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
            if ATTACKS[name].minimal:
                todo &= ~seen[name]
            if bool(todo.any()):
                left = partial(_left, search, names, index, radius, len(radii) - position - 1, seen, pairs)
                watcher.stage(search, name, radius, int(todo.sum()), left)
                seen[name] |= todo
                notes += ATTACKS[name].run(search, radius, todo, pairs)
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
        if ATTACKS[name].minimal:
            now, then = int((alive & ~seen[name]).sum()) if later or place >= index else 0, 0
        each = expected([name], 1, 1, search.scorer.classes)[name]
        if ATTACKS[name].few_first:
            most = FEW * search.scorer.members
            now, then = min(now, most), min(then, later * most)
        total += (now + then) * sum(each)
    return total
