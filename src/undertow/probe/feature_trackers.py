"""Trackers of the weight decomposition: by least squares against the start, or step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import astuple, fields
from typing import TYPE_CHECKING, cast

import torch
from torch.nn.functional import cosine_similarity

from undertow.core.losses import Loss
from undertow.measures.feature_steps import FeatureSteps, two_layer_parts
from undertow.measures.features import Coefficients, FeatureBasis, own_features, summarise
from undertow.probe.features import Clusters, pair_readings
from undertow.probe.reading import Reading
from undertow.training.taken import StepTaken

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["LeastSquaresTracker", "StepsTracker"]


class _Decomposed:
    """What both trackers know: the clusters, the start, and the points trained on."""

    def __init__(self, clusters: Clusters, start: nn.Module, x: Tensor, *, pairs: bool) -> None:
        parts = two_layer_parts(start)
        self._pairs = pairs
        self._clusters = clusters.like(parts.weight)
        self._start = parts.weight
        self._x = x.detach().flatten(1)
        self._cluster = self._clusters.nearest(self._x)

    def _readings(self, net: nn.Module, features: Tensor, noise: Tensor) -> Iterator[Reading]:
        parts = two_layer_parts(net)
        mu = self._clusters.centres
        own = own_features(parts.head, self._clusters.signs)
        change = parts.weight - self._start
        size = float(change.norm())
        if size == 0:
            return  # before training there is nothing to decompose, and no ratio to speak of
        xi = self._x.double() - mu[self._cluster]
        from_features = (features / mu.square().sum(1)) @ mu
        from_noise = (noise / xi.square().sum(1).clamp(min=1e-300)) @ xi
        summary = summarise(features, own)
        for field, value in zip(fields(Coefficients), astuple(summary), strict=True):
            yield field.name, value, None
        yield "aligned", float(cosine_similarity(change, own.double() @ mu).min()), None
        yield "noise_share", float(from_noise.norm()) / size, None
        yield "residual", float((change - from_features - from_noise).norm()) / size, None
        if self._pairs:
            yield from pair_readings(features)


class LeastSquaresTracker(_Decomposed):
    """Remembers the start alone; each reading solves for λ and σ anew."""

    observes = False

    def __init__(self, clusters: Clusters, start: nn.Module, x: Tensor, *, pairs: bool = True) -> None:
        super().__init__(clusters, start, x, pairs=pairs)
        self._basis = FeatureBasis(self._clusters.centres, self._x, self._cluster)

    def observe(self, net: nn.Module, taken: StepTaken) -> None:
        """Nothing to do: the start is all that matters."""

    def read(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        found = self._basis.decompose(two_layer_parts(net).weight - self._start)
        yield from self._readings(net, found.features, found.noise)

    def state(self) -> dict[str, Tensor]:
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        pass


class StepsTracker(_Decomposed):
    """Adds up every step: looks at the network before it, which is the one it saw last."""

    def __init__(
        self,
        clusters: Clusters,
        start: nn.Module,
        x: Tensor,
        y: Tensor,
        *,
        loss: str = "auto",
        pairs: bool = True,
    ) -> None:
        super().__init__(clusters, start, x, pairs=pairs)
        several = two_layer_parts(start).head.shape[0] > 1
        kind = loss if loss != "auto" else "cross-entropy" if several else "logistic"
        self._steps = FeatureSteps(x, y, self._clusters.centres, self._cluster, loss=cast("Loss", kind))
        self._before = deepcopy(start).requires_grad_(False)

    def observe(self, net: nn.Module, taken: StepTaken) -> None:
        if not taken.accepted:
            return
        self._steps.add(self._before, learning_rate=taken.rate)
        with torch.no_grad():
            for ours, theirs in zip(self._before.parameters(), net.parameters(), strict=True):
                ours.copy_(theirs)

    def read(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        if self._steps.taken is not None:
            for key, value, error in self._readings(net, self._steps.features, self._steps.noise):
                yield f"steps:{key}", value, error

    def state(self) -> dict[str, Tensor]:
        weights = {f"before.{name}": p.detach().clone() for name, p in self._before.named_parameters()}
        taken = self._steps.taken
        return weights if taken is None else {**weights, "taken": taken.clone()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            for name, parameter in self._before.named_parameters():
                parameter.copy_(state[f"before.{name}"])
        self._steps.taken = state.get("taken")
