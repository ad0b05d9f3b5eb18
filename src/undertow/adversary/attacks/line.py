"""Where a decision changes on a line: in one given direction, or toward a point that is decided otherwise."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from undertow.adversary.attacks.apgd import apgd
from undertow.adversary.attacks.batch import Batch, Found, beaten
from undertow.adversary.attacks.decoupled import shorten
from undertow.adversary.attacks.entry import AttackEntry
from undertow.adversary.attacks.fab import pull_to_boundary
from undertow.adversary.attacks.search import Search
from undertow.adversary.geometry import project
from undertow.adversary.scorer import Scorer

__all__ = ["LINE", "bisect_line", "first_crossing", "try_lines"]

_ENDS = 5  # lines that are bisected for each sample
_PAIRS = 2**20  # distances held at a time
_PLAIN = "donot_use_mm_for_euclid_dist"  # squares and products cancel where points are close


def first_crossing(hidden: Tensor, slopes: Tensor, head: Tensor) -> Tensor:
    """The smallest t ≥ 0 with Σ_r a_r ReLU(h_r + t g_r) ≤ 0; inf where there is none. 0 at an error or a tie.

    How far a two-layer network's decision survives along one direction: exact, no search.

    ``hidden`` h and ``slopes`` g have shape (…, m), ``head`` a (…, m) or (m,), signed so that a positive sum is
    correct. Between the m places where a neuron switches the sum is linear, so its first zero follows from its values
    at these places and its slope behind the last.

    >>> first_crossing(torch.tensor([[3.0, -1.0]]), torch.tensor([[-1.0, 1.0]]), torch.tensor([1.0, -1.0]))
    tensor([2.])
    """
    switches = torch.where(slopes != 0, -hidden / slopes, math.inf)
    switches = torch.where(switches > 0, switches, math.inf)
    reached = torch.where(switches.isfinite(), switches, 0.0)
    # A length behind the last switch, in the units of the input: twice as far, or as far as a neuron takes to 0.
    last = 2 * reached.amax(-1, keepdim=True)
    far = hidden.abs().amax(-1, keepdim=True) / _nonzero(slopes.abs().amax(-1, keepdim=True))
    last = torch.where(last > 0, last, _nonzero(far))
    # Neurons that never switch are looked at just behind the last switch, which adds nothing new.
    places = torch.where(switches.isfinite(), switches, last).sort(-1).values
    places = torch.cat([torch.zeros_like(last), places, last], -1)
    values = _sums(hidden, slopes, head, places)
    # At the switch of the last neuron that was on the sum is 0 up to rounding, and stays 0 behind it: a tie.
    rounding = 64 * torch.finfo(values.dtype).eps * (head.abs() * hidden.abs()).sum(-1, keepdim=True)
    crossed = values <= rounding
    index = crossed.to(torch.int64).argmax(-1, keepdim=True)
    before = (index - 1).clamp(min=0)
    left, right = places.gather(-1, before), places.gather(-1, index)
    high, low = values.gather(-1, before), values.gather(-1, index)
    inside = left + (right - left) * (high / _nonzero(high - low)).clamp(max=1.0)
    # Behind the last switch the sum goes on with its last slope.
    end = values[..., -1:]
    rate = (head * slopes * (hidden + last * slopes > 0)).sum(-1, keepdim=True)
    beyond = torch.where(rate < 0, last - end / rate, math.inf)
    found = torch.where(crossed.any(-1, keepdim=True), torch.where(index > 0, inside, 0.0), beyond)
    return found.squeeze(-1)


def _nonzero(value: Tensor) -> Tensor:
    return torch.where(value > 0, value, 1.0)


def _sums(hidden: Tensor, slopes: Tensor, head: Tensor, places: Tensor) -> Tensor:
    """Σ_r a_r ReLU(h_r + t g_r) at each of the places t (…, T): shape (…, T)."""
    moved = hidden.unsqueeze(-2) + places.unsqueeze(-1) * slopes.unsqueeze(-2)
    return (moved.relu() * head.unsqueeze(-2)).sum(-1)


def try_lines(
    search: Search,
    *,
    todo: Tensor | None = None,
    others: Tensor | None = None,
    ends: int = _ENDS,
    name: str = "line",
    eps: float = 0.0,
) -> None:
    """Look for examples on the lines from samples to points that are known to be decided otherwise.

    Where no gradient leads to an example one may be known all the same: another sample that is given another class,
    another sample's adversarial example, or one of ``others`` (P, …). The ``ends`` nearest of these, in the norm of the
    search, are bisected for the samples ``todo`` (M, N), by default those without an example, and the closest point so
    found is shortened: what begins far away may end on a farther part of the boundary. What is within ε counts as
    broken by ``name``. 21 forward passes for each end, and 28 gradients; none where there is no such point.

    >>> from undertow.adversary.classifier import Classifier
    >>> from undertow.adversary.attacks.search import begin
    >>> x, y = torch.tensor([[-4.0], [4.0]]).double(), torch.tensor([0, 1])
    >>> dead = lambda x: torch.relu(x - 1) - 0.5              # no slope at −4, the boundary at 1.5
    >>> with Classifier(dead).scoring(x, y) as scorer:
    ...     search = begin(scorer, x, y, norm=2.0, seed=0)
    ...     try_lines(search)
    >>> [round(float(distance), 3) for distance in search.distance[0]]
    [5.5, 2.5]
    """
    todo = search.distance.isinf() if todo is None else todo & (search.distance > 0)
    if not bool(todo.any()):
        return
    starts, usable = _nearest_ends(search, todo, ends, others)
    before = search.distance.clone()
    for start, can in zip(starts, usable, strict=True):
        if bool(can.any()):
            search.run(name, bisect_line, eps=eps, todo=todo & can, start=start, minimal=True)
    closer = search.distance < before
    attack = partial(shorten, norm=search.norm)
    search.run(name, attack, eps=eps, todo=closer, start=search.example, minimal=True)


def bisect_line(scorer: Scorer, batch: Batch) -> Found:
    """The line from each sample to its start: where the decision changes, if the start is decided otherwise."""
    with torch.no_grad():
        broken = beaten(scorer(batch.start), batch.y)
    return Found(pull_to_boundary(scorer, batch, batch.start, broken), broken)


def _nearest_ends(search: Search, todo: Tensor, count: int, others: Tensor | None) -> tuple[Tensor, Tensor]:
    """The nearest points decided otherwise, (count, M, N, d), x itself where there are fewer; and which there are."""
    members, samples, _ = search.example.shape
    starts = search.x.repeat(count, members, 1, 1)
    usable = torch.zeros(count, members, samples, dtype=torch.bool, device=search.x.device)
    with torch.no_grad():
        scores = torch.cat([search.scorer(part) for part in torch.split(search.example, search.chunk, 1)], 1)
    more = search.x[:0] if others is None else others.to(search.x).flatten(1)
    heard = search.scores[:, :0] if others is None else search.scorer.clean(more)
    for member in range(members):
        rows = todo[member].nonzero().squeeze(1)
        # a sample without an example stands in its own example's place: every point once
        moved = (search.distance[member] > 0) & search.distance[member].isfinite()
        pool = torch.cat([search.x, search.example[member, moved], more])
        says = torch.cat([search.scores[member], scores[member, moved], heard[member]])
        for some in torch.split(rows, max(1, _PAIRS // len(pool))):
            other = beaten(says.expand(len(some), -1, -1), search.y[some].unsqueeze(1))
            apart = torch.cdist(search.x[some].double(), pool.double(), p=search.norm, compute_mode=_PLAIN)
            nearest = torch.where(other, apart, math.inf).topk(min(count, len(pool)), 1, largest=False)
            for place, (distance, index) in enumerate(zip(nearest.values.T, nearest.indices.T, strict=True)):
                there = distance.isfinite()
                starts[place, member, some[there]] = pool[index[there]]
                usable[place, member, some] = there
    return starts, usable


def _run(search: Search, eps: float, todo: Tensor, _pairs: Tensor) -> list[str]:
    """Points decided otherwise: those within ε are examples; from the others, moved to the ball, APGD goes on."""
    try_lines(search, todo=todo, eps=eps)
    reached = todo & (search.distance > eps) & search.distance.isfinite()
    search.run("line", partial(_from_outside, norm=search.norm), eps=eps, todo=reached, start=search.example)
    return []


def _from_outside(scorer: Scorer, batch: Batch, *, norm: float) -> Found:
    start = project(batch.start, batch.x, batch.eps, norm, scorer.bounds)
    return apgd(scorer, replace(batch, start=start), norm=norm, loss="margin")


LINE = AttackEntry("line", _run, lambda _: (1 + 21 * _ENDS + 36 + 101, 28 + 101))
