"""Robust accuracy at several radii: the share of points that no attack breaks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from pydantic import field_validator
from torch import Tensor, nn

from undertow.adversary.accuracy import robust_accuracy
from undertow.adversary.attacks.sequence import sequence_of
from undertow.adversary.classifier import Classifier
from undertow.core.errors import InputError
from undertow.core.sections import Positive, Seed, Text
from undertow.measures.named_measure import InputRange, NamedMeasure, Radii
from undertow.measures.raw_inputs import taken_for_logits
from undertow.measures.reading import Reading, labels_for

__all__ = ["RobustAccuracy"]


class RobustAccuracy(NamedMeasure):
    """Share of the points that no attack within ε breaks, keyed by ε: an upper bound of the true one.

    Radii are in *raw* input units, of which one is ``unit`` for the network; see ``undertow.measures.raw_inputs``.
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
    eps: Radii = (0.5,)
    norm: Literal["2", "inf"] = "2"
    attack: Text = "autoattack"
    box: InputRange = ()
    unit: Positive = 1.0
    normalise: Literal["", "unit-norm"] = ""
    seed: Seed = 0

    @field_validator("attack")
    @classmethod
    def _known(cls, attack: str) -> str:
        sequence_of(_names(attack))
        return attack

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
        return iter(self.batched([net], x, y)[0])

    def batched(self, networks: Sequence[nn.Module], x: Tensor, y: Tensor | None) -> list[list[Reading]]:
        """All networks attacked along one member axis."""
        if self.normalise:
            raise InputError(f"{self.name} needs the norms of the raw inputs: see RobustAccuracy.about.")
        return self._attacked(networks, x / self.unit, y, std=1 / self.unit)

    def _attacked(
        self, networks: Sequence[nn.Module], raw: Tensor, y: Tensor | None, **seen: Any
    ) -> list[list[Reading]]:
        classifier = Classifier(list(networks), **seen)
        if self.box:
            lowest, highest = (side / self.unit for side in self.box)
            # Going back to raw inputs may have rounded a pixel at the edge to beyond it.
            classifier, raw = replace(classifier, bounds=(lowest, highest)), raw.clamp(lowest, highest)
        with taken_for_logits():
            found = robust_accuracy(
                classifier,
                raw,
                labels_for(self, y),
                eps=list(self.eps),
                norm=float(self.norm),
                attack=_names(self.attack),
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
        return iter(self.batched([net], x, y)[0])

    def batched(self, networks: Sequence[nn.Module], x: Tensor, y: Tensor | None) -> list[list[Reading]]:
        norms = self.norms[: len(x)].to(x).reshape(-1, *(1,) * (x.ndim - 1))
        return self.options._attacked(networks, x * norms, y, unit_norm=True)


def _names(attack: str) -> str | list[str]:
    """One attack, or several joined by "+"."""
    return attack.split("+") if "+" in attack else attack
