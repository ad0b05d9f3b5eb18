"""Distances to the decision boundary for three attackers, L1, L2 and L∞, from both sides."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from undertow.adversary.robustness import robustness
from undertow.core.errors import ModelError
from undertow.core.sections import Seed, Switch
from undertow.measures.linear_optimum import linear_weight
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.raw_inputs import taken_for_logits
from undertow.measures.reading import Reading, labels_for

__all__ = ["ATTACKERS", "AttackerRadii", "linear_radii"]

ATTACKERS = {"1": 1.0, "2": 2.0, "inf": torch.inf}
_DUALS = {"1": torch.inf, "2": 2.0, "inf": 1.0}


class AttackerRadii(NamedMeasure):
    """Mean radii over the probe's points (0 where a point is misclassified), for each attacker p = 1, 2 and inf.

    Readings: ``p:certified`` ≤ ``p:attacked``, and ``proved``, the share of points with a proof. A linear network's
    radii are known: for it ``p:exact`` is all there is. (Those of two-layer networks: ``ExactRadii``.)
    """

    name: ClassVar[str] = "attacker-radii"
    shorten: Switch = False
    seed: Seed = 0

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        yield from self.batched([net], x, y)[0]

    def batched(self, networks: Sequence[nn.Module], x: Tensor, y: Tensor | None) -> list[list[Reading]]:
        """All networks attacked along one member axis, and their proofs as one batch."""
        labels = labels_for(self, y)
        try:
            weights = [linear_weight(net) for net in networks]
        except ModelError:
            return self._of_networks(networks, x, labels)
        return [
            [
                (f"{attacker}:exact", float(linear_radii(weight, x, labels, attacker=attacker).mean()), None)
                for attacker in ATTACKERS
            ]
            for weight in weights
        ]

    def _of_networks(self, networks: Sequence[nn.Module], x: Tensor, y: Tensor) -> list[list[Reading]]:
        readings: list[list[Reading]] = [[] for _ in networks]
        for attacker, norm in ATTACKERS.items():
            with taken_for_logits():
                found = robustness(
                    list(networks),
                    x,
                    y,
                    norm=norm,
                    exact=False,
                    seconds=math.inf,
                    shorten=self.shorten,
                    seed=self.seed,
                )
            for member, own in enumerate(readings):
                own.append((f"{attacker}:certified", float(found.certified[member].mean()), None))
                own.append((f"{attacker}:attacked", float(found.attacked[member].mean()), None))
                if attacker == "2":
                    own.append(("proved", float(found.proved[member].double().mean()), None))
        return readings


def linear_radii(weight: Tensor, x: Tensor, y: Tensor, *, attacker: str) -> Tensor:
    """min_j (s_y − s_j)₊/‖w_y − w_j‖_* for every point (N,), ‖·‖_* dual to the attacker's norm; one logit is (0, w).

    >>> radii = linear_radii(torch.tensor([[3.0, 4.0]]), torch.ones(1, 2), torch.tensor([1]), attacker="inf")
    >>> radii.tolist()
    [1.0]
    """
    rows = torch.cat([torch.zeros_like(weight), weight]) if len(weight) == 1 else weight
    points, labels = x.detach().flatten(1).to(rows), (y > 0).long() if len(weight) == 1 else y.long()
    apart = rows[labels][:, None, :] - rows  # (N, k, d)
    sizes = torch.linalg.vector_norm(apart, _DUALS[attacker], dim=2)
    gaps = torch.einsum("nkd,nd->nk", apart, points)
    distances = torch.where(sizes > 0, gaps / sizes.clamp(min=1e-300), torch.inf)
    return distances.amin(1).clamp(min=0)
