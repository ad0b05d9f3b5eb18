"""The dimpled-manifold question as a measure: do the smallest adversarial perturbations leave the data's plane?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from undertow.core.errors import ConfigError, nearest
from undertow.probe.reading import Reading, labels_for
from undertow.training.taken import StepTaken

if TYPE_CHECKING:
    from torch import Tensor, nn

    from undertow.measures.manifold import Plane

__all__ = ["OffManifold"]

_KINDS = ("axes", "pca")


@dataclass(frozen=True)
class OffManifold:
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
    dimension: int
    plane: str = "pca"
    neighbours: int = 0
    tangent: int = 4
    rounds: int = 1
    seed: int = 0

    @staticmethod
    def error_side(key: str) -> str | None:
        """The closest examples may not have been found."""
        return "below" if key in ("radius", "radius_on") else None

    def __post_init__(self) -> None:
        if self.plane not in _KINDS:
            raise ConfigError(f"plane = {self.plane!r} is unknown; {nearest(str(self.plane), _KINDS)}")

    def begin(self, start: nn.Module, x: Tensor, y: Tensor, *, learning_rate: float) -> _Split:  # noqa: ARG002
        import torch

        from undertow.measures.manifold import Plane, principal_plane

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
        import torch

        from undertow.adversary.closest import closest_examples
        from undertow.measures.manifold import off_share, tangents

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
    import torch
    from torch import nn

    lift = nn.Linear(len(plane.basis), plane.basis.shape[1]).to(plane.basis)
    with torch.no_grad():
        lift.weight.copy_(plane.basis.T)
        lift.bias.copy_(plane.centre)
    return nn.Sequential(lift, net).eval()
