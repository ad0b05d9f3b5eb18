"""Exact distances to the decision boundary of two-layer networks, for three attackers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from torch import Tensor, nn

from undertow.adversary.robustness import robustness
from undertow.core.sections import Positive, Seed
from undertow.measures.attacker_radii import ATTACKERS
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.raw_inputs import taken_for_logits
from undertow.measures.reading import Reading, labels_for

__all__ = ["ExactRadii"]


class ExactRadii(NamedMeasure):
    """Mean exact radii of a two-layer network for each attacker p = 1, 2 and inf, between what is proved and attacked.

    Readings: ``p:exact``, ``p:certified``, ``p:attacked``, means over the probe's points; left out for an attacker for
    which they take longer than ``seconds``, and for networks of more than 64 neurons. What is certified is what linear
    bounds prove: with more effort proofs of such networks would be as long as the exact radii, and say nothing beside.
    """

    name: ClassVar[str] = "exact-radii"
    seconds: Positive = 60.0
    seed: Seed = 0

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        yield from self.batched([net], x, y)[0]

    def batched(self, networks: Sequence[nn.Module], x: Tensor, y: Tensor | None) -> list[list[Reading]]:
        """All networks attacked along one member axis, their proofs as one batch, and solved one after the other."""
        labels = labels_for(self, y)
        readings: list[list[Reading]] = [[] for _ in networks]
        for attacker, norm in ATTACKERS.items():
            with taken_for_logits():
                found = robustness(
                    list(networks),
                    x,
                    labels,
                    norm=norm,
                    exact="auto",
                    seconds=self.seconds,
                    shorten=False,
                    seed=self.seed,
                )
            sides = {"exact": found.exact, "certified": found.certified, "attacked": found.attacked}
            for member, own in enumerate(readings):
                if bool(found.exact[member].isfinite().all()):
                    own += [
                        (f"{attacker}:{side}", float(radii[member].mean()), None)
                        for side, radii in sides.items()
                    ]
        return readings
