"""The bookkeeping of an attack: for each member and sample, the closest adversarial example found so far.

An example is remembered by its distance, so robust accuracy at every ε is read off one array: it cannot
increase with ε, it is the clean accuracy at ε = 0, and the examples kept reproduce it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from undertow.adversary.attacks.batch import Batch, Found, take
from undertow.adversary.geometry import clip, lengths, project
from undertow.adversary.scorer import Scorer, margins_of

__all__ = ["Search", "begin", "generator", "random_direction", "random_start"]

Attack = Callable[[Scorer, Batch], Found]


@dataclass(eq=False)
class Search:
    """``distance`` (M, N) is 0 for clean errors and inf where nothing was found; ``example`` (M, N, d)."""

    scorer: Scorer
    x: Tensor
    y: Tensor
    norm: float
    seed: int
    scores: Tensor
    margin: Tensor
    distance: Tensor
    example: Tensor
    chunk: int
    place: Tensor
    """Of each sample (N,) in an order that is the same however the samples are given: random draws follow it."""
    count: dict[str, Tensor] = field(default_factory=dict)
    """Attack → how many samples of each member it was the first to break, summed over the ε."""

    def run(
        self,
        name: str,
        attack: Attack,
        *,
        eps: float,
        todo: Tensor,
        start: Tensor,
        target: Tensor | None = None,
        minimal: bool = False,
        radius: Tensor | None = None,
    ) -> None:
        """Attack the samples in ``todo`` (M, N) and keep what is closer than before and within ε.

        ``target`` (M, N) are classes; ``start`` (N, d) or (M, N, d) is where each search begins. What a
        ``minimal``-norm attack finds is kept also beyond ε, for the larger ε to come. ``radius`` (M, N) gives
        each sample its own ball. Samples are taken in chunks, halved when the device runs out of memory.
        """
        todo = todo.clone()
        target = self.second if target is None else target
        while bool(todo.any()):
            size = min(self.chunk, int(todo.sum(1).max()))
            order = torch.sort(todo.byte(), dim=1, descending=True, stable=True).indices[:, :size]
            try:
                found = attack(
                    self.scorer, self.batch(order, eps if radius is None else radius, target, start)
                )
            except torch.cuda.OutOfMemoryError:
                if self.chunk <= 1:
                    raise
                torch.cuda.empty_cache()
                self.chunk //= 2
                continue
            self._keep(name, order, found, eps, todo, math.inf if minimal else eps)
            todo.scatter_(1, order, False)

    def batch(self, order: Tensor, eps: float | Tensor, target: Tensor, start: Tensor) -> Batch:
        """The samples ``order`` (M, P), with balls of radius ε around them."""
        x = self.x[order]
        begin = start[order] if start.ndim == 2 else take(start, order)
        # inside ε by more than the rounding of x + δ, so that the distance measured afterwards is within ε
        radius = (
            take(eps, order) if isinstance(eps, Tensor) else torch.full(order.shape, eps, device=x.device)
        )
        rounding = 2 * torch.finfo(x.dtype).eps * x.abs().amax(-1).double()
        radius = (radius.double() * (1 - 1e-6) - rounding).clamp(min=0).to(x.dtype)
        margin = take(self.margin, order)
        return Batch(x, begin, self.y[order], take(target, order), radius, margin, self.place[order])

    def _keep(self, name: str, order: Tensor, found: Found, eps: float, todo: Tensor, limit: float) -> None:
        distance = lengths(found.x - self.x[order], self.norm)
        before = take(self.distance, order)
        accepted = found.broken & take(todo, order) & (distance < before) & (distance <= limit)
        first = (accepted & (before > eps) & (distance <= eps)).sum(1)
        self.count[name] = self.count.get(name, torch.zeros_like(first)) + first
        members, positions = accepted.nonzero(as_tuple=True)
        samples = order[members, positions]
        self.distance[members, samples] = distance[members, positions]
        self.example[members, samples] = found.x[members, positions]

    @property
    def standing(self) -> int:
        """How many samples, of all members together, have no example yet and are no clean errors."""
        return int(self.distance.isinf().sum())

    @property
    def second(self) -> Tensor:
        """The strongest wrong class of each clean sample."""
        return self.ranked[..., 0]

    @property
    def ranked(self) -> Tensor:
        """Wrong classes (M, N, k − 1), strongest first."""
        label = self.y.expand(self.scores.shape[:2]).unsqueeze(-1)
        return self.scores.scatter(-1, label, -math.inf).argsort(-1, descending=True)[..., :-1]


def begin(
    scorer: Scorer, x: Tensor, y: Tensor, *, norm: float, seed: int, chunk: int | None = None
) -> Search:
    """A search in which only the clean errors are known."""
    flat = x.detach().flatten(1)
    scores = scorer.clean(x)
    margin = margins_of(scores, y)
    distance = torch.where(margin > 0, math.inf, 0.0).double()
    example = flat.expand(scorer.members, *flat.shape).clone()
    if chunk is None:  # CPU caches are small; a GPU wants to be full
        chunk = max(16, (2**27 if flat.is_cuda else 2**18) // (flat.shape[1] * scorer.members))
    place = _places(flat)
    return Search(scorer, flat, y, norm, seed, scores, margin, distance, example, chunk, place)


def _places(x: Tensor) -> Tensor:
    """The position of every row among the rows sorted by their bytes; it keeps to a change of units, too.

    >>> x = torch.tensor([[3.0, 1.0], [1.0, 2.0], [3.0, 0.5]])
    >>> _places(x).tolist(), _places(1e9 * x[[2, 0, 1]]).tolist()
    ([2, 0, 1], [1, 2, 0])
    """
    numbers = (x.detach().cpu() + 0.0).numpy()  # −0 is 0
    rows = [row.tobytes() for row in numbers.astype(numbers.dtype.newbyteorder(">"))]
    places = torch.empty(len(x), dtype=torch.int64)
    places[torch.tensor(sorted(range(len(x)), key=rows.__getitem__))] = torch.arange(len(x))
    return places.to(x.device)


def generator(seed: int, *labels: object) -> torch.Generator:
    """A CPU generator of its own for each named purpose; the global one is never touched.

    >>> a, b = generator(0, "apgd", 1), generator(0, "apgd", 1)
    >>> torch.equal(torch.rand(3, generator=a), torch.rand(3, generator=b))
    True
    """
    digest = hashlib.sha256(repr((seed, *labels)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)


def random_direction(search: Search, *labels: object) -> Tensor:
    """A direction of norm 1 for each sample, (N, d).

    Drawn per sample on the CPU: the same for every member, every order of the samples, every chunk size and device.
    """
    source = generator(search.seed, *labels)
    if search.norm == math.inf:
        noise = 2 * torch.rand(search.x.shape, generator=source) - 1
        noise = noise / noise.abs().amax(-1, keepdim=True)
    else:
        noise = torch.randn(search.x.shape, generator=source)
        noise = noise / noise.norm(search.norm, dim=-1, keepdim=True)
    return noise.to(search.x)[search.place]


def random_start(search: Search, eps: float, *labels: object) -> Tensor:
    """A point (N, d) on the sphere of radius ε around each sample, clipped to the box."""
    radius = torch.full(search.y.shape, eps, dtype=search.x.dtype, device=search.x.device)
    moved = search.x + eps * random_direction(search, *labels)
    return clip(project(moved, search.x, radius, search.norm, None), search.scorer.bounds)
