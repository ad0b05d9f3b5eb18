"""The attacks by name, and AutoAttack as a sequence of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from undertow.adversary.apgd import apgd, pgd
from undertow.adversary.carlini import carlini_wagner
from undertow.adversary.fab import deepfool, fab
from undertow.adversary.search import Search, generator, random_start
from undertow.adversary.square import square
from undertow.errors import ConfigError, nearest

__all__ = ["ATTACKS", "AUTOATTACK", "attack_all", "sequence_of"]

AUTOATTACK = ("apgd-ce", "apgd-t", "fab-t", "square")
"""The standard version of Croce & Hein (2020)."""

_TARGETS = 9
_CANARIES = 24

Runner = Callable[[Search, float, Tensor, Tensor], list[str]]
"""(search, ε, samples to attack (M, N), (sample, class) pairs not excluded (M, N, k)) → notes."""


def sequence_of(attack: str | Sequence[str]) -> tuple[str, ...]:
    """The attacks that run one after the other, each on what the ones before left standing.

    >>> sequence_of("autoattack")
    ('apgd-ce', 'apgd-t', 'fab-t', 'square')
    """
    names = AUTOATTACK if attack == "autoattack" else (attack,) if isinstance(attack, str) else tuple(attack)
    for name in names:
        if name not in ATTACKS:
            raise ConfigError(f"attack {name!r} is unknown: {nearest(name, [*ATTACKS, 'autoattack'])}")
    return names


def attack_all(
    search: Search, names: Sequence[str], eps: Sequence[float], possible: Callable[[float], Tensor]
) -> list[str]:
    """Run the attacks at every ε, from the smallest; ``possible(ε)`` (M, N, k) are the pairs left to attack.

    Attacks that look for the smallest perturbation do not depend on ε and see each sample once.
    """
    notes: list[str] = []
    seen = {name: torch.zeros_like(search.distance, dtype=torch.bool) for name in names}
    for radius in sorted(set(eps)):
        if radius == 0:
            continue
        pairs = possible(radius)
        for name in names:
            todo = (search.distance > radius) & pairs.any(-1)
            if name in _MINIMAL:
                todo &= ~seen[name]
                seen[name] |= todo
            if bool(todo.any()):
                notes += ATTACKS[name](search, radius, todo, pairs)
    return list(dict.fromkeys(notes))


def _apgd(loss: str, restarts: int, search: Search, eps: float, todo: Tensor, _pairs: Tensor) -> list[str]:
    for restart in range(restarts):
        start = random_start(search, eps, "apgd", loss, restart)
        attack = partial(apgd, norm=search.norm, loss=loss if search.scorer.classes > 2 else "margin")
        search.run(f"apgd-{loss}", attack, eps=eps, todo=todo & (search.distance > eps), start=start)
    return []


def _apgd_targeted(search: Search, eps: float, todo: Tensor, pairs: Tensor) -> list[str]:
    ranked = search.ranked[..., :_TARGETS]
    for rank in range(ranked.shape[-1]):
        target = ranked[..., rank]
        standing = todo & (search.distance > eps) & pairs.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        start = random_start(search, eps, "apgd-t", rank)
        attack = partial(apgd, norm=search.norm, loss="dlr-targeted")
        search.run("apgd-t", attack, eps=eps, todo=standing, target=target, start=start)
    return []


def _fab_targeted(search: Search, eps: float, todo: Tensor, pairs: Tensor) -> list[str]:
    ranked = search.ranked[..., :_TARGETS]
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


def _square(search: Search, eps: float, todo: Tensor, _pairs: Tensor, *, queries: int = 5000) -> list[str]:
    """Square on at most 24 survivors of each member, and on all of them if one of these falls.

    Random search breaks what gradients left standing only where gradients mislead; where they do not,
    its 5000 queries would cost more than everything else together.
    """
    canaries = todo & (todo.cumsum(1) <= _CANARIES)
    _run_square(search, eps, canaries, queries)
    if bool(canaries.equal(todo)):
        return []
    if bool((canaries & (search.distance <= eps)).any()):
        _run_square(search, eps, todo & ~canaries, queries)
        return ["square broke samples that gradient attacks had not: gradients of this network may mislead"]
    return [f"square was tried on {_CANARIES} of the samples left standing, and broke none"]


def _run_square(search: Search, eps: float, todo: Tensor, queries: int) -> None:
    source = generator(search.seed, "square", eps)
    attack = partial(square, norm=search.norm, generator=source, queries=queries)
    search.run("square", attack, eps=eps, todo=todo, start=search.x)


ATTACKS: dict[str, Runner] = {
    "apgd-ce": partial(_apgd, "ce", 1),
    "apgd-dlr": partial(_apgd, "dlr", 1),
    "apgd-t": _apgd_targeted,
    "fab-t": _fab_targeted,
    "square": _square,
    "pgd": partial(_pgd, 10),
    "pgd-once": partial(_pgd, 1),
    "deepfool": _deepfool,
    "cw": _carlini,
}
_MINIMAL = {"fab-t", "deepfool", "cw"}
