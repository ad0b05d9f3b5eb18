"""Robustness as measures for probes: adversarial risk beside its first-order bound, and robust accuracy.

Radii are in *raw* input units. A probe sees inputs as the network does, so a measure is told how long one raw
unit is there: ``unit`` is 1 where the two agree, 2 where pixels in [0, 1] were scaled to [-1, 1]. An offset
does not matter to a ball. Inputs that were divided by their own norms have no such number: robust accuracy
then goes back to the raw inputs (``normalise="unit-norm"``); the bound's radii are relative to ‖x‖ = 1.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from undertow.core.errors import ConfigError, InputError, nearest
from undertow.probe.reading import Reading, labels_for

if TYPE_CHECKING:
    from torch import Tensor, nn

    from undertow.adversary.classifier import Classifier
    from undertow.adversary.risk import RiskBoundResult as Found

__all__ = ["RiskBound", "RobustAccuracy"]

Precision = Literal["float32", "float64"]


@dataclass(frozen=True)
class RiskBound:
    """Both sides of R_rob(r) ≲ R + r·S(L∘f) (Wang, Min & Ruan 2024, Theorem 4.1) over a range of L2 radii.

    Readings: ``risk`` R, ``energy`` S(L∘f) = √E‖∇_x L‖², and for every r ``adversarial@r``, ``bound@r`` and
    ``gap@r`` = R + r·S − R_rob(r), positive where the inequality holds; ``holds_up_to`` is the largest r
    before the first negative gap, 0 when there is none. R_rob comes from attacks without a box, as in the
    theorem: a *lower* bound of the true adversarial risk, so a negative gap refutes the inequality at that
    r, whereas a positive one could be smaller in truth. ``upper@r``, where linear bounds of the network give one, is a
    proved upper bound of R_rob(r): the inequality is proved at r where ``bound@r`` is above it.

    ``loss`` is "cross-entropy" (for one logit: binary cross-entropy) or "exponential". As r → 0 the gap is
    a small difference of large numbers, hence float64, whatever the network was trained in.

    >>> import torch
    >>> net = torch.nn.Linear(2, 1, bias=False)
    >>> _ = torch.nn.init.constant_(net.weight, 1.0)
    >>> x, y = torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([1, 1])
    >>> readings = {key: value for key, value, _ in RiskBound(radii=(1.0,))(net, x, y)}
    >>> round(readings["risk"], 4), round(readings["energy"], 4)    # log(1 + 1/e) and √2/(1 + e)
    (0.3133, 0.3803)
    >>> round(readings["adversarial@1.0"], 4)                       # log(1 + e^(√2 − 1))
    0.9215
    """

    name: ClassVar[str] = "risk-bound"
    radii: tuple[float, ...] = (0.01, 0.03, 0.1, 0.2, 0.5)
    loss: Literal["cross-entropy", "exponential"] = "cross-entropy"
    unit: float = 1.0
    dtype: Precision = "float64"
    seed: int = 0

    @staticmethod
    def error_side(key: str) -> str | None:
        """A stronger attack makes the adversarial risk larger, and smaller what the bound has to spare."""
        sides = {"adversarial": "above", "upper": "below", "gap": "below", "holds_up_to": "below"}
        return sides.get(key.partition("@")[0])

    def __post_init__(self) -> None:
        object.__setattr__(self, "radii", _increasing(self, "radii", self.radii))
        object.__setattr__(self, "unit", _positive(self, "unit", self.unit))
        _one_of(self, "loss", self.loss, ("cross-entropy", "exponential"))
        _one_of(self, "dtype", self.dtype, ("float32", "float64"))

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        return iter(self.together([net], x, y)[0])

    def together(self, networks: Sequence[nn.Module], x: Tensor, y: Tensor | None) -> list[list[Reading]]:
        """All networks attacked along one member axis."""
        from undertow.adversary.risk import risk_bound

        classifier, points = _in_raw_units(networks, x, unit=self.unit, dtype=self.dtype)
        with _logits_for_sure():
            found = risk_bound(
                classifier,
                points,
                labels_for(self, y),
                radii=self.radii,
                loss=self.loss,
                resamples=1,  # records carry no interval over samples; studies have one over seeds
                seed=self.seed,
            )
        return [list(self._readings(found, member)) for member in range(len(networks))]

    def _readings(self, found: Found, member: int) -> Iterator[Reading]:
        yield "risk", float(found.risk[member]), None
        yield "energy", float(found.energy[member]), None
        for index, radius in enumerate(self.radii):
            for key in ("adversarial", "bound", "gap"):
                yield f"{key}@{radius!r}", float(getattr(found, key)[member, index]), None
            upper = float(found.adversarial_upper[member, index])
            if math.isfinite(upper):
                yield f"upper@{radius!r}", upper, None
        yield "holds_up_to", float(found.holds_up_to[member]), None


@dataclass(frozen=True)
class RobustAccuracy:
    """Share of the points that no attack within ε breaks, keyed by ε: an upper bound of the true one.

    ``norm`` is "2" or "inf"; ``attack`` as in ``undertow.adversary.robust_accuracy``, several names joined by
    "+"; "fast" costs a twentieth of "autoattack" and comes within a few per cent of its radii. ``box`` holds the
    smallest and the largest valid input as the network sees it, such as (-1, 1); without it inputs are free.

    With ``normalise="unit-norm"`` the points were divided by their norms before the network saw them. What is
    attacked then is the network *with* that division, on the raw inputs, whose norms come with the data
    (``details["raw_norm"]``), and ``box`` is the range of the raw inputs.

    >>> import torch
    >>> x, y = torch.tensor([[1.0], [3.0]]), torch.tensor([1, 1])
    >>> list(RobustAccuracy(eps=(0.5, 2.0), attack="pgd")(torch.nn.Identity(), x, y))
    [('0.5', 1.0, None), ('2.0', 0.5, None)]
    """

    name: ClassVar[str] = "robust-accuracy"
    error_side: ClassVar[str] = "below"
    eps: tuple[float, ...] = (0.5,)
    norm: Literal["2", "inf"] = "2"
    attack: str = "autoattack"
    box: tuple[float, ...] = ()
    unit: float = 1.0
    normalise: Literal["", "unit-norm"] = ""
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "eps", _increasing(self, "eps", self.eps))
        _one_of(self, "normalise", self.normalise, ("", "unit-norm"))
        object.__setattr__(self, "box", tuple(map(float, self.box)))
        if self.box and not (len(self.box) == 2 and self.box[0] < self.box[1]):
            raise ConfigError(f"box = {self.box} of {self.name} must be the smallest and the largest input.")
        object.__setattr__(self, "unit", _positive(self, "unit", self.unit))
        _one_of(self, "norm", self.norm, ("2", "inf"))

    def about(self, details: Mapping[str, Tensor]) -> RobustAccuracy | _OnRawInputs:
        """The measure for points whose raw norms are known; itself where it needs none."""
        if not self.normalise:
            return self
        if "raw_norm" not in details:
            raise InputError(
                f"normalise = {self.normalise!r} of {self.name} attacks raw inputs, and these points do not know "
                "theirs: load the data with the same normalisation, or leave the option out."
            )
        return _OnRawInputs(self, details["raw_norm"])

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        return iter(self.together([net], x, y)[0])

    def together(self, networks: Sequence[nn.Module], x: Tensor, y: Tensor | None) -> list[list[Reading]]:
        """All networks attacked along one member axis."""
        if self.normalise:
            raise InputError(f"{self.name} needs the norms of the raw inputs: see RobustAccuracy.about.")
        return self._attacked(networks, x / self.unit, y, std=1 / self.unit)

    def _attacked(
        self, networks: Sequence[nn.Module], raw: Tensor, y: Tensor | None, **seen: Any
    ) -> list[list[Reading]]:
        import torch

        from undertow.adversary.accuracy import robust_accuracy
        from undertow.adversary.classifier import Classifier

        classifier = Classifier(list(networks), **seen)
        if self.box:
            lowest, highest = (side / self.unit for side in self.box)
            # Going back to raw inputs may have rounded a pixel at the edge to beyond it.
            classifier, raw = replace(classifier, bounds=(lowest, highest)), raw.clamp(lowest, highest)
        with _logits_for_sure():
            found = robust_accuracy(
                classifier,
                raw,
                labels_for(self, y),
                eps=list(self.eps),
                norm=float(self.norm),
                attack=self.attack.split("+") if "+" in self.attack else self.attack,
                seed=self.seed,
                progress=False,
            )
        shares = torch.as_tensor(found.value).reshape(len(networks), len(self.eps))
        return [
            [(repr(radius), value, None) for radius, value in zip(self.eps, row, strict=True)]
            for row in shares.tolist()
        ]


@dataclass(frozen=True, eq=False)
class _OnRawInputs:
    """Robust accuracy of x ↦ net(x/‖x‖) on the raw inputs."""

    name: ClassVar[str] = RobustAccuracy.name
    options: RobustAccuracy
    norms: Tensor

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        return iter(self.together([net], x, y)[0])

    def together(self, networks: Sequence[nn.Module], x: Tensor, y: Tensor | None) -> list[list[Reading]]:
        norms = self.norms[: len(x)].to(x).reshape(-1, *(1,) * (x.ndim - 1))
        return self.options._attacked(networks, x * norms, y, unit_norm=True)


def _in_raw_units(
    networks: Sequence[nn.Module], x: Tensor, *, unit: float, dtype: Precision
) -> tuple[Classifier, Tensor]:
    """The networks as functions of x/unit, and x/unit."""
    import torch

    from undertow.adversary.classifier import Classifier

    wanted = torch.float64 if dtype == "float64" else torch.float32
    copies = [deepcopy(net).to(wanted) for net in networks]
    return Classifier(copies, std=1 / unit), x.to(wanted) / unit


@contextmanager
def _logits_for_sure() -> Iterator[None]:
    """A network near its start has all of its logits in [0, 1] and would be taken for a sigmoid."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the network seems to return probabilities")
        yield


def _increasing(of: RiskBound | RobustAccuracy, option: str, values: object) -> tuple[float, ...]:
    if not isinstance(values, list | tuple) or not values:
        raise ConfigError(f"the {option} of {of.name} are a list of numbers, such as [0.1, 0.5].")
    numbers = tuple(_positive(of, option, value) for value in values)
    if any(later <= earlier for earlier, later in pairwise(numbers)):
        raise ConfigError(f"the {option} of {of.name} must increase: sort them, each once.")
    return numbers


def _positive(of: RiskBound | RobustAccuracy, option: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ConfigError(f"{option} = {value!r} of {of.name} must be a positive, finite number.")
    return float(value)


def _one_of(of: RiskBound | RobustAccuracy, option: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{option} = {value!r} of {of.name} is unknown; {nearest(str(value), choices)}")
