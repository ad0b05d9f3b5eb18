"""Measures as small frozen objects with a name, for probes and configuration files.

Each is a thin shell around a pure function of a network and data; calling one yields readings
``(key, value, error)``. Anything else with a ``name`` and the same call works in a probe as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from undertow.errors import ConfigError, nearest
from undertow.probe.reading import Measure, Reading, labels_for
from undertow.probe.robustness import RiskBound, RobustAccuracy

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
    "StableRank",
    "measure",
]


_LOSSES = ("auto", "cross-entropy", "bce", "logistic", "exponential")


@dataclass(frozen=True)
class StableRank:
    """‖W‖_F² / ‖W‖₂² of every weight matrix, keyed by the parameter's name."""

    name: ClassVar[str] = "stable-rank"

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        from undertow.measures.rank import stable_rank

        for key, result in stable_rank(net).items():
            yield key, float(result.value), float(result.error)


@dataclass(frozen=True)
class Energy:
    """Dirichlet energy S(net), the root mean square over the points of ‖J(x_i)‖₂."""

    name: ClassVar[str] = "energy"

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        from undertow.measures.energy import energy

        result = energy(net, x)
        yield "", float(result.value), float(result.error)


@dataclass(frozen=True)
class Collaboration:
    """Co-correlation ϱ of head and tail at ``seam``, with the other factors of the decomposition."""

    name: ClassVar[str] = "collaboration"
    seam: str

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        from undertow.measures.collaboration import collaboration

        result = collaboration(net, x, seam=self.seam)
        yield f"{self.seam}:co_correlation", result.co_correlation, result.error
        for key in (
            "linear_correlation",
            "relative_std",
            "energy_head",
            "energy_tail",
            "energy",
            "identity_gap",
        ):
            yield f"{self.seam}:{key}", float(getattr(result, key)), None


@dataclass(frozen=True)
class Loss:
    """Mean loss over the points (key ``mean``), and its decimal logarithm (``log10``), which never underflows.

    ``kind`` is one of the training losses; ``"auto"`` is cross-entropy for several outputs, BCE for one logit.
    """

    name: ClassVar[str] = "loss"
    kind: str = "auto"

    def __post_init__(self) -> None:
        if self.kind not in _LOSSES:
            raise ConfigError(f"{self.kind!r} is not a loss; {nearest(self.kind, _LOSSES)}")

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        import torch

        from undertow.losses import labels_of_classes, log_mean_loss, prepare_labels

        with torch.no_grad():
            scores = net(x).flatten(1) if x.dim() > 1 else net(x)[:, None]
            outputs = scores.shape[1]
            kind: Any = self.kind if self.kind != "auto" else ("bce" if outputs == 1 else "cross-entropy")
            labels = labels_of_classes(labels_for(self, y), loss=kind)
            labels = prepare_labels(labels, loss=kind, outputs=outputs, dtype=torch.float64)
            log_mean = log_mean_loss(scores, labels, kind).item()
        yield "mean", math.exp(log_mean) if log_mean < 709 else math.inf, None
        yield "log10", log_mean / math.log(10), None


@dataclass(frozen=True)
class Accuracy:
    """Share of the points that are classified correctly; a tie is an error."""

    name: ClassVar[str] = "accuracy"

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        import torch

        with torch.no_grad():
            scores, labels = net(x), labels_for(self, y)
            if scores.ndim == 1 or scores.shape[1] == 1:
                correct = scores.flatten() * torch.where(labels > 0, 1, -1) > 0
            else:
                own = scores.gather(1, labels[:, None]).squeeze(1)
                others = scores.scatter(1, labels[:, None], -math.inf).amax(1)
                correct = own > others
        yield "", correct.double().mean().item(), None


MEASURES: dict[str, Any] = {
    kind.name: kind for kind in (StableRank, Energy, Collaboration, Loss, Accuracy, RiskBound, RobustAccuracy)
}


def measure(name: str, **options: Any) -> Measure:
    """The measure called ``name`` in configuration files, or a ``ConfigError`` naming the nearest one.

    >>> measure("collaboration", seam="1")
    Collaboration(seam='1')
    >>> measure("stable-rnak")
    Traceback (most recent call last):
        ...
    undertow.errors.ConfigError: 'stable-rnak' is not a measure; did you mean 'stable-rank'?
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
    made: Measure = kind(**options)
    return made
