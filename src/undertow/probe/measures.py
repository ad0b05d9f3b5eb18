"""Measures as small frozen objects with a name, for probes and configuration files.

Each is a thin shell around a pure function of a network and data; calling one yields readings
``(key, value, error)``. Anything else with a ``name`` and the same call works in a probe as well.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from undertow.core.errors import ConfigError, UndertowError, nearest
from undertow.probe.bias_search import BiasSearch
from undertow.probe.chain import Chain
from undertow.probe.cluster_radius import ClusterRadius
from undertow.probe.collaboration import Collaboration
from undertow.probe.features import FeatureCoefficients, FeatureCosines
from undertow.probe.growth import Growth
from undertow.probe.kkt import KktNetwork, KktResiduals
from undertow.probe.manifold import OffManifold
from undertow.probe.min_vidal import FeatureDistance
from undertow.probe.options import check_choices, check_kinds
from undertow.probe.printed import PrintedCollaboration
from undertow.probe.reading import Measure, Reading, labels_for
from undertow.probe.robustness import RiskBound, RobustAccuracy
from undertow.probe.simplicity import LinearLikeness, RandomisedFeatures
from undertow.probe.spectrum import Spectrum
from undertow.probe.supervision import SupervisionRobustness

if TYPE_CHECKING:  # torch is imported where it computes, so that reading a configuration stays quick
    from torch import Tensor, nn

__all__ = [
    "MEASURES",
    "Accuracy",
    "Collaboration",
    "Energy",
    "Loss",
    "Measure",
    "RiskBound",
    "RobustAccuracy",
    "Spectrum",
    "StableRank",
    "measure",
]


_LOSSES = ("auto", "cross-entropy", "bce", "logistic", "exponential")


@dataclass(frozen=True)
class StableRank:
    """‖W‖_F² / ‖W‖₂² of every weight matrix, keyed by the parameter's name."""

    name: ClassVar[str] = "stable-rank"
    error_side: ClassVar[str] = "below"  # the norm is bounded from below

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        from undertow.measures.rank import stable_rank

        for key, result in stable_rank(net).items():
            yield key, float(result.value), float(result.error)


@dataclass(frozen=True)
class Energy:
    """Dirichlet energy S(net), the root mean square over the points of ‖J(x_i)‖₂."""

    name: ClassVar[str] = "energy"
    error_side: ClassVar[str] = "above"

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        from undertow.measures.energy import energy

        result = energy(net, x)
        yield "", float(result.value), float(result.error)

    def together(self, networks: Sequence[nn.Module], x: Tensor, y: Tensor | None) -> list[list[Reading]]:  # noqa: ARG002
        """All networks' Jacobians as one batch."""
        from undertow.jacobian.batched_norms import batched_norms
        from undertow.measures.energy import root_mean_square

        several = batched_norms(networks, x)
        return [[("", *root_mean_square(norms.value, norms.error))] for norms in several]


class _OfScores(ABC):
    """A measure that needs no more of a network than its scores."""

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        import torch

        from undertow.probe.checks import check_scores

        with torch.no_grad():
            scores = net(x)
            check_scores(scores)
            return iter(self._of(scores[None], y)[0])

    def together(self, networks: Sequence[nn.Module], x: Tensor, y: Tensor | None) -> list[list[Reading]]:
        """One forward pass of all networks."""
        from undertow.probe.scores import scores_together

        return self._of(scores_together(networks, x), y)

    @abstractmethod
    def _of(self, scores: Tensor, y: Tensor | None) -> list[list[Reading]]:
        """From the scores of M networks, (M, N, k) or (M, N)."""


@dataclass(frozen=True)
class Loss(_OfScores):
    """Mean loss over the points (key ``mean``), and its decimal logarithm (``log10``), which never underflows.

    ``kind`` is one of the training losses; ``"auto"`` is cross-entropy for several outputs, BCE for one logit.
    """

    name: ClassVar[str] = "loss"
    kind: str = "auto"

    def __post_init__(self) -> None:
        if self.kind not in _LOSSES:
            raise ConfigError(f"{self.kind!r} is not a loss; {nearest(self.kind, _LOSSES)}")

    def _of(self, scores: Tensor, y: Tensor | None) -> list[list[Reading]]:
        import torch

        from undertow.core.losses import labels_of_classes, log_mean_loss, prepare_labels

        scores = scores[:, :, None] if scores.dim() == 2 else scores.flatten(2)
        outputs = scores.shape[2]
        kind: Any = self.kind if self.kind != "auto" else ("bce" if outputs == 1 else "cross-entropy")
        labels = labels_of_classes(labels_for(self, y), loss=kind)
        labels = prepare_labels(labels, loss=kind, outputs=outputs, dtype=torch.float64)
        return [
            [
                ("mean", math.exp(log_mean) if log_mean < 709 else math.inf, None),
                ("log10", log_mean / math.log(10), None),
            ]
            for log_mean in log_mean_loss(scores, labels, kind).tolist()
        ]


@dataclass(frozen=True)
class Accuracy(_OfScores):
    """Share of the points that are classified correctly; a tie is an error."""

    name: ClassVar[str] = "accuracy"

    def _of(self, scores: Tensor, y: Tensor | None) -> list[list[Reading]]:
        import torch

        from undertow.core.losses import prepare_labels

        labels = labels_for(self, y)
        if scores.ndim == 2 or scores.shape[2] == 1:
            correct = scores.flatten(1) * torch.where(labels > 0, 1, -1) > 0
        else:
            labels = prepare_labels(labels, loss="cross-entropy", outputs=scores.shape[2], dtype=scores.dtype)
            index = labels.expand(len(scores), -1)[:, :, None]
            others = scores.scatter(2, index, -math.inf).amax(2)
            correct = scores.gather(2, index)[:, :, 0] > others
        return [[("", share, None)] for share in correct.double().mean(1).tolist()]


MEASURES: dict[str, Any] = {
    kind.name: kind
    for kind in (
        StableRank,
        Energy,
        Collaboration,
        Loss,
        Accuracy,
        RiskBound,
        RobustAccuracy,
        Spectrum,
        Chain,
        PrintedCollaboration,
        Growth,
        FeatureCosines,
        FeatureCoefficients,
        ClusterRadius,
        BiasSearch,
        FeatureDistance,
        KktResiduals,
        KktNetwork,
        RandomisedFeatures,
        LinearLikeness,
        OffManifold,
        SupervisionRobustness,
    )
}


def measure(name: str, **options: Any) -> Measure:
    """The measure called ``name`` in configuration files, or a ``ConfigError`` naming the nearest one.

    >>> measure("loss", kind="bce")
    Loss(kind='bce')
    >>> measure("stable-rnak")
    Traceback (most recent call last):
        ...
    undertow.core.errors.ConfigError: 'stable-rnak' is not a measure; did you mean 'stable-rank'?
    """
    if name not in MEASURES:
        raise ConfigError(f"{name!r} is not a measure; {nearest(name, MEASURES)}")
    kind = MEASURES[name]
    known = [field.name for field in fields(kind)]
    for option in options:
        if option not in known:
            raise ConfigError(f"{option!r} is not an option of the measure {name}; {nearest(option, known)}")
    missing = [field for field in known if field not in options and not hasattr(kind, field)]
    if missing:
        raise ConfigError(f"the measure {name} needs {' and '.join(map(repr, missing))}.")
    try:
        made: Measure = kind(**options)
    except UndertowError:
        raise
    except Exception:  # its own checks expect the kinds of options that it names
        check_kinds(kind, options)
        raise
    check_kinds(kind, options)
    check_choices(made)
    return made
