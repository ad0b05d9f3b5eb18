"""Robust accuracy against ε, with intervals for the choice of the samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from undertow.adversary.accuracy import robust_accuracy
from undertow.adversary.accuracy_result import RobustAccuracyResult
from undertow.adversary.any_network import ready_to_attack
from undertow.adversary.certified_accuracy import certified_accuracy
from undertow.adversary.classifier import Classifier, Net, as_classifier
from undertow.adversary.radii import check_radii
from undertow.adversary.readout import Groups
from undertow.core.outputs import OutputChoice
from undertow.core.shown import Shown

if TYPE_CHECKING:
    import altair

__all__ = ["RobustCurve", "robust_curve", "wilson"]


@dataclass(frozen=True, eq=False)
class RobustCurve(Shown):
    """Robust accuracy against ε with the Wilson interval of each point: tensors (E,), or (M, E).

    ``value`` is what attacks leave standing, ``proved`` what `certified_accuracy` proves: the truth is in between.
    """

    eps: tuple[float, ...]
    value: Tensor
    lower: Tensor
    upper: Tensor
    proved: Tensor
    accuracy: RobustAccuracyResult

    def figure(self) -> altair.TopLevelMixin:
        """Both lines against ε, what attacks leave and what is proved; several networks as means with their spread."""
        from undertow.drawing.accuracy_curves import accuracy_curves
        from undertow.drawing.letters import lettered

        attacked, proved = (side.reshape(-1, len(self.eps)).tolist() for side in (self.value, self.proved))
        return lettered(accuracy_curves(self.eps, attacked, proved, norm=self.accuracy.norm))


def robust_curve(
    net: Classifier | Net | Sequence[nn.Module],
    x: Tensor,
    y: Tensor,
    *,
    eps: float | Sequence[float],
    confidence: float = 0.95,
    norm: float | str = 2,
    attack: str | Sequence[str] = "autoattack",
    bounds: tuple[float, float] | None = None,
    readout: str | Groups | None = None,
    seed: int = 0,
    output: OutputChoice = None,
    extras: Mapping[str, Any] | None = None,
) -> RobustCurve:
    """Robust accuracy at each ε, from above by attacks and from below by proofs, with intervals for the N test points.

    Args:
        net, x, y, norm, attack, seed, output, extras: as in `robust_accuracy`.
        eps: one radius, or several, in raw input units.
        confidence: of each interval by itself.
        bounds, readout: as in `Classifier`.

    >>> line, x, y = lambda x: x.sum(1, keepdim=True), torch.ones(4, 2), torch.ones(4, dtype=torch.int64)
    >>> curve = robust_curve(line, x, y, eps=[0.0, 3.0], attack="fab-t")
    >>> curve.value.tolist(), round(float(curve.lower[0]), 4)    # four out of four, and none
    ([1.0, 0.0], 0.5101)
    >>> curve.proved.tolist()    # nothing is proved of a function: a module can be read
    [0.0, 0.0]
    """
    net, x = ready_to_attack(net, x, output=output, extras=extras)
    classifier, radii = as_classifier(net, bounds=bounds, readout=readout), check_radii(eps)
    found = robust_accuracy(classifier, x, y, eps=radii, norm=norm, attack=attack, seed=seed)
    sure = certified_accuracy(classifier, x, y, eps=radii, norm=norm)
    value, proved = torch.as_tensor(found.value), torch.as_tensor(sure.value).cpu()
    lower, upper = wilson(value, len(x), confidence=confidence)
    return RobustCurve(found.eps, value, lower, upper, proved, found)


def wilson(share: Tensor, samples: int, *, confidence: float = 0.95) -> tuple[Tensor, Tensor]:
    """Wilson's score interval of a proportion (Wilson 1927): never empty at 0 or 1, never outside [0, 1].

    >>> [round(float(end), 4) for end in wilson(torch.tensor(0.5), 100)]
    [0.4038, 0.5962]
    """
    z = math.sqrt(2) * float(torch.erfinv(torch.tensor(confidence, dtype=torch.float64)))
    share = share.double()
    centre = (share + z**2 / (2 * samples)) / (1 + z**2 / samples)
    half = z / (1 + z**2 / samples) * (share * (1 - share) / samples + z**2 / (4 * samples**2)).sqrt()
    return (centre - half).clamp(min=0), (centre + half).clamp(max=1)
