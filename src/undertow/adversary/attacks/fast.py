"""The attack for a first look: the decoupled search, and lines where it finds nothing."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from undertow.adversary.attacks.decoupled import decoupled, decoupled_passes
from undertow.adversary.attacks.entry import AttackEntry
from undertow.adversary.attacks.line import try_lines
from undertow.adversary.attacks.search import Search

__all__ = ["FAST"]


def _run(search: Search, eps: float, todo: Tensor, _pairs: Tensor) -> list[str]:
    """The decoupled search, and where it finds nothing the lines to points decided otherwise."""
    search.run("fast", partial(decoupled, norm=search.norm), eps=eps, todo=todo, start=search.x, minimal=True)
    lacking = todo & search.distance.isinf()
    if bool(lacking.any()):
        try_lines(search, todo=lacking, name="fast", eps=eps)
    return []


FAST = AttackEntry("fast", _run, decoupled_passes, minimal=True)
