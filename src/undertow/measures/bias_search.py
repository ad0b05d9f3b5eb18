"""The best that biases can do: robust accuracy of fixed weights, searched over the biases.

The feature-averaging paper claims non-robustness "for any choice of bias". An attack along one direction bounds
robust accuracy from above for every choice; a search over choices looks for the one at which the bound is weakest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from undertow.adversary.attacks.line import first_crossing
from undertow.core.sections import Seed
from undertow.measures.averaged_direction import along_average
from undertow.measures.cluster_centres import Clusters, clusters_in, needs_clusters
from undertow.measures.named_measure import AsWritten, NamedMeasure
from undertow.measures.reading import Reading, labels_for

__all__ = ["BestBiases", "BiasSearch", "best_biases"]


@dataclass(frozen=True)
class BestBiases:
    """What the best of the biases tried leaves standing; each number is a maximum of its own.

    ``radius`` and ``robust`` are None where no biases tried keep the accuracy: there is nothing to speak of then.
    """

    radius: float | None
    """Mean distance to the boundary along the direction, over biases that keep the accuracy asked for."""
    robust: float | None
    """Share of points that survive the radius along the direction, over biases that keep the accuracy."""
    robust_any: float
    """The same over every choice of biases, those included that make the network a constant."""
    tried: int


def best_biases(
    hidden: Tensor,
    slopes: Tensor,
    head: Tensor,
    y: Tensor,
    *,
    radius: float,
    accuracy: float = 0.9,
    rounds: int = 300,
    generator: torch.Generator,
) -> BestBiases:
    """Search the biases b of Σ_r a_r ReLU(⟨w_r, x⟩ + b_r) for the most robust network.

    First a grid of one bias for each sign of the head, in units of the largest typical input; then random changes of
    all biases, kept when they help, for each of the three aims.

    Args:
        hidden: ⟨w_r, x_i⟩, (N, m).
        slopes: how much these change for one unit of length along each point's attack direction, (N, m).
        head: a, (m,).
        y: the points' classes, (N,), ±1.
        radius: of the attack along that direction.
        accuracy: share of the points that must be right for biases to count, ``robust_any`` apart.
        rounds: how many random changes are tried.
        generator: of these.

    >>> hidden, y = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([1.0, -1.0])
    >>> slopes, head = torch.tensor([[-1.0, 1.0], [1.0, -1.0]]), torch.tensor([1.0, -1.0])
    >>> draw = torch.Generator().manual_seed(0)
    >>> found = best_biases(hidden, slopes, head, y, radius=0.9, generator=draw)
    >>> round(found.radius, 2), found.robust, found.robust_any   # the two radii sum to 1; a constant keeps one class
    (0.5, 0.5, 0.5)
    """
    hidden, slopes, head, y = hidden.double(), slopes.double(), head.double(), y.double()
    signed = head[None] * y[:, None]
    unit = hidden.abs().quantile(0.9, dim=0).amax()

    def scores(biases: Tensor) -> Tensor:
        found = first_crossing(hidden[None] + biases[:, None], slopes.expand(len(biases), -1, -1), signed)
        return _aims(found, radius=radius, accuracy=accuracy)

    levels = torch.linspace(-2.0, 2.0, 17, dtype=torch.float64, device=hidden.device)
    pairs = torch.cartesian_prod(levels, levels) * unit
    grid = torch.where(head > 0, pairs[:, :1], pairs[:, 1:])
    best = _climb(scores, grid, size=float(unit), rounds=rounds, generator=generator)
    accurate = float(best[0]) >= 0  # −1 stands for biases that do not keep the accuracy
    return BestBiases(
        radius=float(best[0]) if accurate else None,
        robust=float(best[1]) if accurate else None,
        robust_any=float(best[2]),
        tried=len(grid) + rounds,
    )


def _climb(
    scores: Callable[[Tensor], Tensor], grid: Tensor, *, size: float, rounds: int, generator: torch.Generator
) -> Tensor:
    """The largest of each aim (3,): from the best of the grid (B, m), by random changes that become smaller."""
    values = scores(grid)
    best, chosen = values.amax(0), grid[values.argmax(0)]
    for step in range(rounds):
        shrunk = size * 10.0 ** (-2.5 * step / max(rounds - 1, 1))
        change = torch.randn(3, grid.shape[1], generator=generator, dtype=torch.float64).to(grid)
        proposed = chosen + shrunk * change
        found = scores(proposed).diagonal()
        better = found > best
        best = torch.where(better, found, best)
        chosen = torch.where(better[:, None], proposed, chosen)
    return best


def _aims(radii: Tensor, *, radius: float, accuracy: float) -> Tensor:
    """What the search is for, (B, 3), from the points' radii (B, N) with each of B choices of biases."""
    kept = (radii > 0).double().mean(1) >= accuracy
    surviving = (radii > radius).double().mean(1)
    # A point that no length along the direction breaks counts as far, not as infinitely far.
    mean = radii.clamp(max=10 * radius).mean(1)
    return torch.stack([torch.where(kept, mean, -1.0), torch.where(kept, surviving, -1.0), surviving], dim=1)


class BiasSearch(NamedMeasure):
    """The best robust accuracy that other biases could give the same weights, against the averaged direction.

    Readings: ``radius``, the largest mean radius along the averaged direction, in units of √(d/k); ``robust`` and
    ``robust_any``, the largest share of the points that survive ``reach``·√(d/k) along it, over biases that keep an
    accuracy of 90 %, and over all; see ``best_biases``. Where none keeps it, ``robust_any`` is all.
    """

    name: ClassVar[str] = "bias-search"
    reach: AsWritten = 2.5
    rounds: Annotated[int, Field(strict=True, ge=0, le=10**9)] = 300
    seed: Seed = 0

    def about(self, details: Mapping[str, Tensor]) -> _Biases:
        return _Biases(clusters_in(details, name=self.name), self)

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        raise needs_clusters(self.name, net, x, y)


@dataclass(frozen=True)
class _Biases:
    name: ClassVar[str] = BiasSearch.name
    clusters: Clusters
    options: BiasSearch

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        line = along_average(net, x, labels_for(self, y), self.clusters.centres, self.clusters.signs)
        unit = math.sqrt(x[0].numel() / len(self.clusters.signs))
        found = best_biases(
            line.hidden,
            line.slopes,
            line.head,
            line.sign,
            radius=self.options.reach * unit,
            rounds=self.options.rounds,
            generator=torch.Generator().manual_seed(self.options.seed),
        )
        if found.radius is not None and found.robust is not None:
            yield "radius", found.radius / unit, None
            yield "robust", found.robust, None
        yield "robust_any", found.robust_any, None
