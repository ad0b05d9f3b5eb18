"""The distance to the closest adversarial examples that attacks find, in units of the data's own gaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from undertow.adversary.closest import closest_examples
from undertow.core.sections import Count, Seed
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.point_radii import half_distances
from undertow.measures.reading import Reading, labels_for

__all__ = ["AttackedRadius"]


class AttackedRadius(NamedMeasure):
    """Distance to the closest example found, mean over the first ``count`` points; a clean error has distance 0.

    ``radius`` is in the network's units, ``relative`` in those of half the distance to the nearest point of another
    label: 1 is what a nearest-neighbour classifier has. Both are upper bounds. Points where nothing nearer
    was found count with the distance to that other point.

    >>> x, y = torch.tensor([[1.0], [-3.0]]), torch.tensor([1, 0])
    >>> [(key, round(value, 3)) for key, value, _ in AttackedRadius()(nn.Identity(), x, y)]
    [('radius', 2.0), ('relative', 1.0)]
    """

    name: ClassVar[str] = "attacked-radius"
    count: Count = 20
    norm: Literal["2", "inf"] = "2"
    rounds: Count = 1
    restarts: Count = 1
    seed: Seed = 0

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        return iter(self.batched([net], x, y)[0])

    def batched(self, networks: Sequence[nn.Module], x: Tensor, y: Tensor | None) -> list[list[Reading]]:
        """All networks attacked along one member axis."""
        labels, p = labels_for(self, y), float(self.norm)
        points, own = x[: self.count], labels[: self.count]
        gaps = half_distances(points, own, x, labels, norm=p)
        found, _ = closest_examples(
            list(networks), points, own, norm=p, rounds=self.rounds, restarts=self.restarts, seed=self.seed
        )
        distance = torch.minimum(found.double().reshape(len(networks), -1), 2 * gaps)
        return [
            [("radius", float(each.mean()), None), ("relative", float((each / gaps).mean()), None)]
            for each in distance
        ]
