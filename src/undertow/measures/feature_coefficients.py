"""The coefficients λ of a layer's features over a training run: by least squares against the start, or step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import astuple, dataclass, fields
from typing import ClassVar, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from undertow.core.errors import InputError
from undertow.core.losses import Loss
from undertow.core.sections import Switch
from undertow.measures.cluster_centres import Clusters, clusters_in, needs_clusters, pair_readings
from undertow.measures.feature_cosines import own_features
from undertow.measures.feature_decomposition import Coefficients, FeatureBasis, summarise
from undertow.measures.feature_steps import FeatureSteps, two_layer_parts
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading, Tracker
from undertow.training.taken import StepTaken

__all__ = ["FeatureCoefficients", "LeastSquaresTracker", "StepsTracker"]


class FeatureCoefficients(NamedMeasure):
    """λ of w_r(t) − w_r(0) = Σ_j λ_rj μ_j/‖μ_j‖² + Σ_i σ_ri ξ_i/‖ξ_i‖²: ``r:j`` for each pair, and a summary.

    ``method`` is "least-squares", or "steps", which adds up what each step of full-batch gradient descent
    contributes and needs as much time again as the training; its keys begin with ``steps:``. It must know the
    ``loss``: "auto" is cross-entropy for several outputs, the logistic loss for one. Both agree to rounding where
    the training is in float64. In float32 the network may take a point that lies at a neuron's kink for active where
    this, in float64, does not: one such point is 10⁻⁴ of λ at the paper's n = 1000.

    Keys beside the pairs, which ``pairs=False`` leaves out: those of
    ``undertow.measures.feature_decomposition.Coefficients``; ``aligned``, the smallest cosine of a neuron's change with
    the sum of its own features; ``noise_share``, the part from the ξ_i relative to the change; ``residual``, what
    neither explains. Before the first step there is nothing to read.
    """

    name: ClassVar[str] = "feature-coefficients"
    method: Literal["least-squares", "steps"] = "least-squares"
    loss: Literal["auto", "logistic", "exponential", "bce", "cross-entropy"] = "auto"
    pairs: Switch = True

    def about(self, details: Mapping[str, Tensor]) -> _Coefficients:
        return _Coefficients(clusters_in(details, name=self.name), self)

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        raise needs_clusters(self.name, net, x, y)


@dataclass(frozen=True)
class _Coefficients:
    name: ClassVar[str] = FeatureCoefficients.name
    clusters: Clusters
    options: FeatureCoefficients

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        raise InputError(f"{self.name} compares a network with its start: give the probe the training data.")

    def begin(self, start: nn.Module, x: Tensor, y: Tensor, *, learning_rate: float) -> Tracker:  # noqa: ARG002
        options = self.options
        if options.method == "least-squares":
            return LeastSquaresTracker(self.clusters, start, x, pairs=options.pairs)
        return StepsTracker(self.clusters, start, x, y, loss=options.loss, pairs=options.pairs)


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
