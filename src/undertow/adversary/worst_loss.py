"""The largest loss within a ball, from both sides: found by ascent from many starts, bounded by the certificate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from undertow.adversary.attacks.apgd import apgd
from undertow.adversary.attacks.batch import take
from undertow.adversary.attacks.search import Search, random_start
from undertow.adversary.certificates.member_proofs import gap_bounds_of, weakest_directions_of
from undertow.adversary.certificates.network_graph import NetworkGraph
from undertow.adversary.geometry import Box, clip, project
from undertow.adversary.scorer import Scorer, margins_of

__all__ = ["LOSSES", "Loss", "climb", "loss_values", "upper_losses"]

Loss = Callable[[Tensor, Tensor], Tensor]
"""(scores (…, k), labels (…)) → losses (…)."""

_RANDOM, _BORROWED = 16, 16  # points looked at, of which the best one of each kind is a start
_CLOSED, _NEARLY = (
    1e-6,
    1e-3,
)  # shares of the rise that may be missing where no ascent, or no other start, is tried


def _cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    index = labels.expand(scores.shape[:-1]).unsqueeze(-1)
    return -torch.log_softmax(scores, -1).gather(-1, index).squeeze(-1)


LOSSES: dict[str, Loss] = {
    "cross-entropy": _cross_entropy,
    "exponential": lambda scores, labels: torch.exp(-margins_of(scores, labels)),
    "zero-one": lambda scores, labels: (margins_of(scores, labels) <= 0).to(scores),
}


def loss_values(scorer: Scorer, points: Tensor, y: Tensor, function: Loss) -> Tensor:
    """Losses (M, N) at the points (M, N, d), in float64 from the scores on."""
    with torch.no_grad():
        parts = [scorer(part) for part in torch.split(points, 1024, 1)]
        return function(torch.cat(parts, 1).double(), y.expand(points.shape[:2]))


def upper_losses(
    graphs: Sequence[NetworkGraph],
    x: Tensor,
    y: Tensor,
    eps: float,
    norm: float,
    loss: Loss,
    box: Box = None,
) -> Tensor:
    """Proved upper bounds (M, N) of the largest loss in the ball; inf where none is known.

    The losses fall with every score difference s_y − s_t, so their value at the lower bounds of these is above theirs
    anywhere in the ball, although no point may have all differences so small at once. A loss of one's own need not
    fall with them.

    >>> from undertow.adversary.certificates.network_graph import read_graph
    >>> from undertow.adversary.classifier import Classifier
    >>> line = torch.nn.Linear(2, 2, bias=False, dtype=torch.float64).requires_grad_(False)
    >>> _ = line.weight.copy_(torch.tensor([[0.0, 0.0], [3.0, 4.0]]))
    >>> x, y = torch.tensor([[1.0, 1.0]]).double(), torch.tensor([1])
    >>> graph = read_graph(Classifier(line), line, x)
    >>> round(upper_losses([graph], x, y, 1.0, 2.0, LOSSES["exponential"]).item(), 9)    # exp(5 − 7)
    0.135335283
    """
    if not graphs or all(loss is not known for known in LOSSES.values()):
        return torch.full((max(len(graphs), 1), len(x)), math.inf, dtype=torch.float64, device=x.device)
    radius = torch.full((len(x),), eps, dtype=torch.float64, device=x.device)
    gaps = gap_bounds_of(graphs, x, y, radius, norm, box)
    # as scores relative to the label's: 0 there, −gap elsewhere
    scores = torch.where(gaps.isinf() & (gaps > 0), 0.0, -gaps)
    return loss(scores, y.expand(scores.shape[:-1]))


def climb(
    search: Search,
    radius: float,
    losses: Tensor,
    points: Tensor,
    function: Loss,
    *,
    graphs: Sequence[NetworkGraph] = (),
    shape: torch.Size | None = None,
    upper: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The largest losses (M, N) met within the radius, and where; never below what is given.

    Ascents begin at the best point so far, on the margin, which does not saturate, and on the loss. At large radii a
    ball holds many hills, so that where ``upper`` (M, N) leaves room others begin twice at the best of 16 random places
    on the sphere (in L∞ the second time corners); at the best of 16 places on the way to other samples' worst points;
    and where the certificate is weakest.
    """
    state = _State(search, radius, losses, points, function)

    def unsettled(share: float) -> Tensor:
        if upper is None:
            return torch.ones_like(losses, dtype=torch.bool)
        return ~(state.losses >= upper - share * (upper - losses))

    smooth = function is not LOSSES["zero-one"]  # it has no slope to climb, and the margin decides it
    for objective in ("margin", partial(_call, function))[: 2 if smooth else 1]:
        state.ascend(objective, [state.points], unsettled(_CLOSED), 30)
    todo = unsettled(_NEARLY)
    if not bool(todo.any()):
        return state.losses, state.points
    starts = _best_of_kinds(search, radius, state)
    if graphs and shape is not None:
        starts.append(_weakest(search, radius, graphs, shape))
    state.ascend("margin", starts, todo, 20)
    if smooth:
        state.ascend(partial(_call, function), [state.points], todo, 20)
    return state.losses, state.points


class _State:
    """The best losses and points so far, and what improves them."""

    def __init__(self, search: Search, radius: float, losses: Tensor, points: Tensor, function: Loss) -> None:
        self.search, self.radius, self.function = search, radius, function
        self.losses, self.points = losses.clone(), points.clone()

    def ascend(
        self, objective: str | Callable[..., Tensor], starts: Sequence[Tensor], todo: Tensor, steps: int
    ) -> None:
        """From all starts (M, N, d) at once: few samples cost hardly more together than alone."""
        search, size = self.search, int(todo.sum(1).max())
        order = torch.sort(todo.byte(), dim=1, descending=True, stable=True).indices[:, :size]
        for some in torch.split(order, search.chunk, 1) if size else ():
            batch = search.batch(some.repeat(1, len(starts)), self.radius, search.second, search.x)
            batch.start = torch.cat([take(start, some) for start in starts], 1)
            found = apgd(search.scorer, batch, norm=search.norm, loss=objective, steps=steps, stop=False)
            losses = loss_values(search.scorer, found.x, batch.y, self.function)
            for own in torch.arange(losses.shape[1]).chunk(len(starts)):
                self.keep(some, found.x[:, own], losses[:, own])

    def keep(self, some: Tensor, points: Tensor, losses: Tensor) -> None:
        members, positions = (losses > take(self.losses, some)).nonzero(as_tuple=True)
        samples = some[members, positions]
        self.losses[members, samples] = losses[members, positions]
        self.points[members, samples] = points[members, positions]


def _best_of_kinds(search: Search, radius: float, state: _State) -> list[Tensor]:
    """Starts (M, N, d): of each kind of place the one with the largest loss."""
    others = min(_BORROWED, len(search.y) - 1)
    kinds: list[list[Callable[[], Tensor]]] = [
        [partial(_on_sphere, search, radius, index, corners=False) for index in range(_RANDOM)],
        [partial(_on_sphere, search, radius, index, corners=True) for index in range(_RANDOM, 2 * _RANDOM)],
        [partial(_toward_others, search, radius, state.points, index) for index in range(others)],
    ]
    found = []
    for kind in kinds:
        best, highest = state.points, torch.full_like(state.losses, -math.inf)
        for place in kind:
            point = place()
            level = loss_values(search.scorer, point, search.y, state.function)
            best = torch.where((level > highest).unsqueeze(-1), point, best)
            highest = torch.maximum(level, highest)
        found.append(best)
    return found


def _on_sphere(search: Search, radius: float, index: int, *, corners: bool) -> Tensor:
    """A random place; every second one is opposite to the one before. In L∞ a corner, if so asked."""
    ahead = random_start(search, radius, "risk", index // 2) - search.x
    if corners and search.norm == math.inf:
        ahead = radius * ahead.sign()
    moved = clip(search.x - ahead if index % 2 else search.x + ahead, search.scorer.bounds)
    return moved.expand(search.scorer.members, -1, -1)


def _toward_others(search: Search, radius: float, points: Tensor, index: int) -> Tensor:
    """As near as the ball allows to another sample's worst point: the one that follows after some places."""
    order = search.place.argsort()
    stride = max(1, (len(order) - 1) // _BORROWED)
    other = order[(search.place + 1 + index * stride) % len(order)]
    ball = torch.full(points.shape[:2], radius, dtype=points.dtype, device=points.device)
    return project(points[:, other], search.x.expand_as(points), ball, search.norm, search.scorer.bounds)


def _weakest(search: Search, radius: float, graphs: Sequence[NetworkGraph], shape: torch.Size) -> Tensor:
    samples = search.x.reshape(-1, *shape)
    balls = torch.full((len(graphs), len(samples)), radius, dtype=torch.float64, device=search.x.device)
    directions = weakest_directions_of(graphs, samples, search.y, balls, search.norm)
    return clip(search.x + radius * directions.to(search.x), search.scorer.bounds)


def _call(loss: Loss, scores: Tensor, labels: Tensor, _targets: Tensor, _scale: Tensor) -> Tensor:
    return loss(scores, labels)
