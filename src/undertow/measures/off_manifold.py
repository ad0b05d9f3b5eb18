"""On and off the data manifold: perturbations split into their part along the data and the rest.

The dimpled-manifold question: do the smallest adversarial perturbations leave the plane of the data?
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from undertow.adversary.closest import closest_examples
from undertow.core.errors import InputError
from undertow.core.sections import Count, Seed
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading, labels_for
from undertow.training.taken import StepTaken

__all__ = ["OffManifold", "Plane", "off_share", "principal_plane", "tangents"]


@dataclass(frozen=True, eq=False)
class Plane:
    """The affine plane c + span(B): centre c (D,), orthonormal rows B (k, D)."""

    centre: Tensor
    basis: Tensor

    def project(self, x: Tensor) -> Tensor:
        """The nearest point of the plane to every row of x.

        >>> floor = Plane(torch.zeros(2), torch.tensor([[1.0, 0.0]]))
        >>> floor.project(torch.tensor([[3.0, 4.0]]))
        tensor([[3., 0.]])
        """
        return self.centre + (x - self.centre) @ self.basis.T @ self.basis

    @property
    def chance(self) -> float:
        """The share of a random direction's energy that is off the plane: 1 − k/D."""
        k, D = self.basis.shape
        return 1 - k / D


def principal_plane(x: Tensor, *, dimension: int) -> Plane:
    """The plane of the given dimension nearest to the rows of x: their mean and first principal directions.

    >>> line = torch.tensor([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
    >>> principal_plane(line, dimension=1).basis.abs()
    tensor([[1., 0.]])
    """
    rows = x.flatten(1).double()
    if not 1 <= dimension <= min(rows.shape):
        raise InputError(
            f"{tuple(rows.shape)} samples and features have no plane of dimension {dimension}: give 1 to "
            f"{min(rows.shape)}."
        )
    centre = rows.mean(0)
    _, vectors = torch.linalg.eigh((rows - centre).T @ (rows - centre))
    return Plane(centre.to(x), vectors.flip(1)[:, :dimension].T.to(x).contiguous())


def tangents(x: Tensor, data: Tensor, *, dimension: int, neighbours: int) -> Tensor:
    """Local PCA: at every row of x the first principal directions of its nearest points in ``data``, (N, k, D).

    The directions are of the neighbours around their own mean, which need not be x: a picture of the tangent
    space of the data where it is dense enough, and no more than that where it is not.

    >>> circle = torch.stack([torch.linspace(0, 6.28, 400).cos(), torch.linspace(0, 6.28, 400).sin()], 1)
    >>> at = tangents(torch.tensor([[1.0, 0.0]]), circle, dimension=1, neighbours=9)
    >>> [round(abs(v), 1) for v in at.flatten().tolist()]
    [0.0, 1.0]
    """
    if not 1 <= dimension < neighbours <= len(data):
        raise InputError(
            f"local PCA wants dimension {dimension} < neighbours {neighbours} ≤ {len(data)} samples: it needs more "
            "neighbours than directions."
        )
    points, rows = x.flatten(1).double(), data.flatten(1).double()
    found = []
    for part in torch.split(points, 256):
        near = rows[torch.cdist(part, rows).topk(neighbours, largest=False).indices]
        around = near - near.mean(1, keepdim=True)
        # Right singular vectors, from the left ones: (B, neighbours, D) has few rows, and a small Gram matrix.
        _, left = torch.linalg.eigh(around @ around.mT)
        along = left.flip(2)[:, :, :dimension].mT @ around
        found.append(torch.linalg.qr(along.mT).Q.mT)
    return torch.cat(found).to(x)


def off_share(delta: Tensor, basis: Tensor) -> Tensor:
    """‖δ − BᵀBδ‖²/‖δ‖² of every row: the share of its energy that leaves span(B), B (k, D) or (N, k, D).

    >>> off_share(torch.tensor([[3.0, 4.0]]), torch.tensor([[1.0, 0.0]])).item()     # 16/25
    0.64
    """
    rows = delta.flatten(1).double()
    B = basis.double().expand(len(rows), *basis.shape[-2:])
    along = torch.einsum("nkd,nd->nk", B, rows).square().sum(1)
    whole = rows.square().sum(1)
    if not bool((whole > 0).all()):
        raise InputError(
            "a perturbation is zero and has no direction: leave out points that are errors already."
        )
    return (1 - along / whole).clamp(0.0, 1.0)


class OffManifold(NamedMeasure):
    """The closest adversarial examples of points on a plane of ``dimension`` k, split by that plane.

    ``plane`` is "axes", the span of the first k coordinates, for data made there; or "pca", the first k principal
    directions of the training data. Points are first projected on it, and those classified wrongly left out. With
    ``neighbours`` the same perturbations are also split by the tangent planes of local PCA, of ``tangent``
    dimensions. ``rounds`` is how often each factor of ``adversary.refine`` tries to shorten them.

    Readings: ``off`` (mean share of ‖δ‖² off the plane), ``chance`` (that of a random direction, 1 − k/D),
    ``data`` (the share of the training data's own variance that is off it), ``off_local`` and
    ``chance_local``; ``radius`` and ``radius_on``, the median length of the closest adversarial perturbation
    found, free and within the plane; ``stretch``, the median of their ratio; ``kept``, the share of points
    that were looked at.
    """

    name: ClassVar[str] = "off-manifold"
    dimension: Count
    plane: Literal["axes", "pca"] = "pca"
    neighbours: Annotated[int, Field(strict=True, ge=0, le=10**9)] = 0
    tangent: Count = 4
    rounds: Annotated[int, Field(strict=True, ge=0, le=10**9)] = 1
    seed: Seed = 0

    def begin(self, start: nn.Module, x: Tensor, y: Tensor, *, learning_rate: float) -> _Split:  # noqa: ARG002
        if self.plane == "axes":
            width = x[0].numel()
            plane = Plane(torch.zeros(width).to(x), torch.eye(self.dimension, width).to(x))
        else:
            plane = principal_plane(x, dimension=self.dimension)
        return _Split(self, plane, x)

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        """Without a training run to follow, the plane is that of the points themselves."""
        return self.begin(net, x, labels_for(self, y), learning_rate=0.0).read(net, x, y)


@dataclass(frozen=True)
class _Split:
    """A training run with the plane of its data, which is found anew rather than remembered."""

    observes: ClassVar[bool] = False
    measure: OffManifold
    plane: Plane
    data: Tensor

    def observe(self, net: nn.Module, taken: StepTaken) -> None:
        pass

    def read(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        labels = labels_for(self.measure, y)
        points = self.plane.project(x.flatten(1))
        coordinates = (points - self.plane.centre) @ self.plane.basis.T
        search = partial(
            closest_examples, rounds=self.measure.rounds, restarts=self.measure.rounds, seed=self.measure.seed
        )
        distance, examples = search(net, points, labels)
        inside, _ = search(_lifted(net, self.plane), coordinates, labels)
        kept = (distance > 0) & distance.isfinite()
        yield "kept", float(kept.double().mean()), None
        if not bool(kept.any()):
            return
        delta = (examples - points)[kept]
        yield "off", float(off_share(delta, self.plane.basis).mean()), None
        yield "chance", self.plane.chance, None
        spread = self.data.flatten(1) - self.plane.centre
        outside = self.data.flatten(1) - self.plane.project(self.data.flatten(1))
        yield "data", float(outside.double().square().sum() / spread.double().square().sum()), None
        if self.measure.neighbours:
            size = self.measure.tangent
            local = tangents(points[kept], self.data, dimension=size, neighbours=self.measure.neighbours)
            yield "off_local", float(off_share(delta, local).mean()), None
            yield "chance_local", 1 - size / points.shape[1], None
        radius, within = distance[kept], inside[kept]
        yield "radius", float(radius.median()), None
        yield "radius_on", float(within.median()), None
        # An unreachable boundary within the plane is an infinite ratio, which a median can bear.
        yield (
            "stretch",
            float(torch.where(within > 0, within / radius, torch.ones_like(radius)).median()),
            None,
        )

    def state(self) -> dict[str, Tensor]:
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        pass


def _lifted(net: nn.Module, plane: Plane) -> nn.Module:
    """The network as a function of coordinates in the plane: z ↦ f(c + Bᵀz), lengths unchanged."""
    lift = nn.Linear(len(plane.basis), plane.basis.shape[1]).to(plane.basis)
    with torch.no_grad():
        lift.weight.copy_(plane.basis.T)
        lift.bias.copy_(plane.centre)
    return nn.Sequential(lift, net).eval()
