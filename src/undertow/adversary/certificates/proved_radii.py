"""The lower side of the bracket for all networks of a search: every proof there is, and which it was."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import torch
from torch import Tensor

from undertow.adversary.attacks.search import Search
from undertow.adversary.certificates.case_radii import kinked_neurons, radii_by_cases
from undertow.adversary.certificates.certified import certified_radii
from undertow.adversary.certificates.linear_bounds import LinearBounds
from undertow.adversary.certificates.network_graph import NetworkGraph
from undertow.adversary.certificates.refined import refined_radii
from undertow.adversary.certificates.stacked_graphs import together
from undertow.core.deadline import Deadline

__all__ = ["certify", "certify_by_cases", "named_proof"]

_FEW = 32  # neurons up to which radii are proved case by case
_BEYOND = 1.002  # times the closest example known: the ball in which they are


def certify(
    graphs: Sequence[NetworkGraph], search: Search, x: Tensor, refined: Sequence[bool], seconds: float
) -> tuple[Tensor, Tensor, bool]:
    """Proved lower bounds (M, N), whether each is more than nothing, and whether time was up before all was tried.

    Clean errors are proved to have radius 0. ``refined`` says of each network whether its radii are to be made longer
    than plain linear bounds give, which may take ``seconds`` for each. Networks of one architecture are one batch.
    """
    right, box = search.margin > 0, search.scorer.bounds
    certified, proved, ended = torch.zeros_like(search.distance), ~right, False
    longer = torch.tensor(list(refined), dtype=torch.bool, device=x.device)
    for members, graph in together(graphs):
        proved[members.start : members.stop] = True
        who, own = right[members.start : members.stop].nonzero(as_tuple=True)
        if len(who) == 0:
            continue
        found = certified_radii(graph, x[own], search.y[own], search.norm, box, who=who)
        some = longer[members.start + who].nonzero().squeeze(1)
        if len(some):
            bounds = LinearBounds.of(graph, search.norm, box)
            points, labels = x[own[some]].double(), search.y[own[some]]
            limit = Deadline(len(members) * seconds) if seconds < math.inf else None
            found[some] = refined_radii(bounds, points, labels, found[some], who=who[some], limit=limit)
            ended |= limit is not None and limit.passed
        certified[members.start + who, own] = found
    return certified, proved, ended


def certify_by_cases(
    graphs: Sequence[NetworkGraph], search: Search, x: Tensor, certified: Tensor, seconds: float
) -> tuple[Tensor, bool]:
    """The same or longer radii of narrow networks, each neuron on either side of its kink; and whether any was tried.

    The example known says where to prove, and is not believed: the ball reaches beyond it. ``seconds`` are those of
    one network: together they have as many times that.
    """
    tried, longest = False, certified.clone()
    for members, graph in together(graphs):
        bounds, deadline = LinearBounds.of(graph, search.norm), time.monotonic() + len(members) * seconds
        shortest = certified[members.start : members.stop]
        who, own = ((shortest > 0) & shortest.isfinite()).nonzero(as_tuple=True)
        if not 0 < kinked_neurons(bounds) <= _FEW or len(who) == 0:
            continue
        known, shortest = search.distance[members.start + who, own].double(), shortest[who, own]
        reach = torch.where(known.isfinite(), _BEYOND * known, 2 * shortest)
        points, labels = x[own].double(), search.y[own]
        found = radii_by_cases(bounds, points, labels, reach, deadline=deadline, who=who)
        tried = True
        longest[members.start + who, own] = torch.maximum(shortest, found.to(shortest))
    return longest, tried


def named_proof(
    graphs: Sequence[NetworkGraph], reason: str, search: Search, *, refined: bool, ended: bool, by_cases: bool
) -> str:
    """Which proof is behind certified radii, as `Robustness.certificate` says it."""
    if not graphs:
        return f"none: {reason}"
    if all(graph.linear for graph in graphs) and search.scorer.bounds is None:
        return "linear-exact"
    added = {
        "slopes by ascent": refined,
        "coupled by the L2 ball": refined and search.norm == 2,
        "until time was up": ended,
        "case by case": by_cases,
    }
    return ", ".join(["crown", *(words for words, used in added.items() if used)])
