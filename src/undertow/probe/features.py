"""Features as measures for probes: cosines with the clusters' centres, and the weights' coefficients λ.

Both need to know the centres: a run tells them what its data know; in a loop of your own say
``FeatureCosines().about({"centres": mu, "cluster_sign": signs})``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from undertow.core.errors import ConfigError, InputError, nearest
from undertow.probe.reading import Reading, Tracker

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = [
    "Clusters",
    "FeatureCoefficients",
    "FeatureCosines",
    "clusters_in",
    "needs_clusters",
    "pair_readings",
]


@dataclass(frozen=True, eq=False)
class Clusters:
    """Centres μ_j (k, d) and the sign of the class each belongs to (k,)."""

    centres: Tensor
    signs: Tensor

    def like(self, tensor: Tensor) -> Clusters:
        """The same on the device of ``tensor``, the centres in float64."""
        return Clusters(self.centres.to(tensor.device).double(), self.signs.to(tensor.device))

    def nearest(self, x: Tensor) -> Tensor:
        """To which centre each point is nearest: its cluster, since clusters are √(2d) apart and √d wide."""
        x = x.flatten(1).to(self.centres)
        closest: Tensor = (x @ self.centres.T - self.centres.square().sum(1) / 2).argmax(1)
        return closest


def clusters_in(details: Mapping[str, Tensor], *, name: str) -> Clusters:
    """The clusters that a data set knows of."""
    if "centres" not in details or "cluster_sign" not in details:
        raise ConfigError(f"the measure {name} needs data that know their clusters, such as d-binary.")
    return Clusters(details["centres"], details["cluster_sign"])


@dataclass(frozen=True)
class FeatureCosines:
    """cos(w_r, μ_j) of the first layer: ``r:j`` for each pair, and what the theorem says of them.

    ``own_mean``, ``own_least`` and ``own_largest`` are over pairs of one class, ``cross_largest`` is the largest
    absolute value over the others; ``aligned`` is the smallest cosine of a neuron with the sum of its own features.
    Without ``pairs`` these summaries are all.
    """

    name: ClassVar[str] = "feature-cosines"
    pairs: bool = True

    def about(self, details: Mapping[str, Tensor]) -> _Cosines:
        return _Cosines(clusters_in(details, name=self.name), self.pairs)

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        raise needs_clusters(self.name, net, x, y)


@dataclass(frozen=True)
class _Cosines:
    name: ClassVar[str] = FeatureCosines.name
    clusters: Clusters
    pairs: bool

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        from torch.nn.functional import cosine_similarity

        from undertow.measures.feature_steps import two_layer_parts
        from undertow.measures.features import feature_cosines, own_features

        parts = two_layer_parts(net)
        clusters = self.clusters.like(parts.weight)
        cosines = feature_cosines(parts.weight, clusters.centres)
        own = own_features(parts.head, clusters.signs)
        yield "own_mean", float(cosines[own].mean()), None
        yield "own_least", float(cosines[own].min()), None
        yield "own_largest", float(cosines[own].max()), None
        yield "cross_largest", float(cosines[~own].abs().max()), None
        sums = own.double() @ clusters.centres
        yield "aligned", float(cosine_similarity(parts.weight, sums).min()), None
        if self.pairs:
            yield from pair_readings(cosines)


@dataclass(frozen=True)
class FeatureCoefficients:
    """λ of w_r(t) − w_r(0) = Σ_j λ_rj μ_j/‖μ_j‖² + Σ_i σ_ri ξ_i/‖ξ_i‖²: ``r:j`` for each pair, and a summary.

    ``method`` is "least-squares", or "steps", which adds up what each step of full-batch gradient descent
    contributes and needs as much time again as the training; its keys begin with ``steps:``. It must know the
    ``loss``: "auto" is cross-entropy for several outputs, the logistic loss for one. Both agree to rounding where
    the training is in float64. In float32 the network may take a point that lies at a neuron's kink for active where
    this, in float64, does not: one such point is 10⁻⁴ of λ at the paper's n = 1000.

    Keys beside the pairs, which ``pairs=False`` leaves out: those of
    ``undertow.measures.features.Coefficients``; ``aligned``, the smallest cosine of a neuron's change with the sum
    of its own features; ``noise_share``, the part from the ξ_i relative to the change; ``residual``, what neither
    explains. Before the first step there is nothing to read.
    """

    name: ClassVar[str] = "feature-coefficients"
    method: Literal["least-squares", "steps"] = "least-squares"
    loss: Literal["auto", "logistic", "exponential", "bce", "cross-entropy"] = "auto"
    pairs: bool = True

    def __post_init__(self) -> None:
        losses = ("auto", "logistic", "exponential", "bce", "cross-entropy")
        for option, known in {"method": ("least-squares", "steps"), "loss": losses}.items():
            value = getattr(self, option)
            if value not in known:
                raise ConfigError(
                    f"{option} = {value!r} of {self.name} is unknown; {nearest(str(value), known)}"
                )

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
        from undertow.probe.feature_trackers import LeastSquaresTracker, StepsTracker

        options = self.options
        if options.method == "least-squares":
            return LeastSquaresTracker(self.clusters, start, x, pairs=options.pairs)
        return StepsTracker(self.clusters, start, x, y, loss=options.loss, pairs=options.pairs)


def pair_readings(values: Tensor) -> Iterator[Reading]:
    """One reading for each neuron and feature, keyed ``r:j``."""
    for neuron, row in enumerate(values.tolist()):
        for feature, value in enumerate(row):
            yield f"{neuron}:{feature}", value, None


def needs_clusters(name: str, *_: object) -> InputError:
    """What a measure answers that was not told about the clusters."""
    return InputError(
        f"{name} does not know the clusters: use .about({{'centres': …, 'cluster_sign': …}}) and measure with that."
    )
