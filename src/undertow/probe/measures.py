"""Measures as small frozen objects with a name, for probes and configuration files.

Each is a thin shell around a pure function of a network and data; calling one yields readings
``(key, value, error)``. Anything else with a ``name`` and the same call works in a probe as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal

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
        for key in ("co_correlation", "linear_correlation", "energy_head", "energy_tail", "energy"):
            yield f"{self.seam}:{key}", float(getattr(result, key)), None


@dataclass(frozen=True)
class Loss:
    """Mean loss over the points (key ``mean``), and its decimal logarithm, which never underflows.

    With u_i = log Σ_{j≠y} exp(s_j − s_y) for classes and u_i = −y_i s_i for one logit, the loss is
    log(1 + e^u) (cross-entropy, logistic) or e^u (exponential).
    """

    name: ClassVar[str] = "loss"
    kind: Literal["logistic", "exponential"] = "logistic"

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        import torch
        from torch.nn.functional import softplus

        with torch.no_grad():
            excess = _excess(net(x).double(), labels_for(self, y))
            # log softplus(u) → u as u → −∞, long before e^u underflows
            log_each = excess
            if self.kind == "logistic":
                log_each = torch.where(excess < -30, excess, softplus(excess.clamp(min=-30)).log())
            log_mean = (log_each.logsumexp(0) - math.log(len(log_each))).item()
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


def _excess(scores: Tensor, labels: Tensor) -> Tensor:
    """u_i = log Σ_{j≠y} exp(s_j − s_y), or −y_i s_i for one logit; minus the margin for two classes."""
    import torch

    if scores.ndim == 1 or scores.shape[1] == 1:
        return -scores.flatten() * torch.where(labels > 0, 1.0, -1.0).to(scores)
    own = scores.gather(1, labels[:, None])
    return (scores - own).scatter(1, labels[:, None], -math.inf).logsumexp(1)


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
