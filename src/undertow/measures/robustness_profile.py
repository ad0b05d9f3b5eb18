"""What is asked of a network beside the bias under study: margin, energy, co-correlation, radii from both sides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from undertow.adversary.certificates.member_proofs import radii_of
from undertow.adversary.certificates.network_graph import graphs_of
from undertow.adversary.classifier import Classifier
from undertow.adversary.closest import closest_examples
from undertow.core.sections import Count, Seed, Switch, Text
from undertow.measures.collaboration import Collaboration
from undertow.measures.energy import Energy
from undertow.measures.margins import margins
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.point_radii import half_distances
from undertow.measures.raw_inputs import taken_for_logits
from undertow.measures.reading import Reading, labels_for

__all__ = ["RobustnessProfile"]


class RobustnessProfile(NamedMeasure):
    """Of the first ``count`` points, so that it costs the same however many are looked at otherwise.

    Readings: ``margin`` = their smallest margin over ∏‖W_k‖_F, ``energy`` S(net), ``co-correlation`` ϱ at ``seam``, and
    for each attacker p in ``norms`` the mean radii ``certified:p`` ≤ ``attacked:p`` (0 for a point that is
    misclassified), and ``relative:p``, the attacked one in units of half the distance to the nearest point of another
    label: 1 is what a nearest-neighbour classifier has. Points where nothing nearer was found count with the distance
    to that other point. ``certify=False`` leaves the proofs out, which take as long as the attack, or longer.

    >>> net = nn.Sequential(nn.Linear(1, 1, bias=False), nn.ReLU(), nn.Linear(1, 1, bias=False))
    >>> for each in net.parameters(): _ = nn.init.constant_(each, 1.0)
    >>> x, y = torch.tensor([[1.0], [-1.0]]), torch.tensor([1, 0])
    >>> read = dict((key, round(value, 3)) for key, value, _ in RobustnessProfile(seam="1", count=1)(net, x, y))
    >>> read["margin"], read["energy"], read["certified:2"], read["relative:2"]
    (1.0, 1.0, 1.0, 1.0)
    """

    name: ClassVar[str] = "robustness-profile"
    seam: Text
    count: Count = 4
    norms: tuple[Literal["2", "inf"], ...] = ("2",)
    certify: Switch = True
    seed: Seed = 0

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        yield from self.batched([net], x, y)[0]

    def batched(self, networks: Sequence[nn.Module], x: Tensor, y: Tensor | None) -> list[list[Reading]]:
        """All networks' Jacobians as one batch, and all attacked along one member axis."""
        labels = labels_for(self, y)
        points, own = x[: self.count], labels[: self.count]
        energies = Energy().batched(networks, points, own)
        factors = Collaboration(seam=self.seam).batched(networks, points, own)
        readings: list[list[Reading]] = []
        for net, energy, factor in zip(networks, energies, factors, strict=True):
            rho = next(reading for reading in factor if reading[0].endswith(":co_correlation"))
            margin: Reading = ("margin", margins(net, points, own).by_layers, None)
            readings.append([margin, ("energy", *energy[0][1:]), ("co-correlation", *rho[1:])])
        for norm in self.norms:
            gaps = half_distances(points, own, x, labels, norm=float(norm))
            for net_readings, radii in zip(readings, self._radii(networks, points, own, norm), strict=True):
                certified, attacked = radii
                nearest = torch.minimum(attacked, 2 * gaps.to(attacked))
                relative = nearest / gaps.to(attacked)
                found = {"certified": certified} if self.certify else {}
                found |= {"attacked": nearest, "relative": relative}
                net_readings += [(f"{key}:{norm}", float(value.mean()), None) for key, value in found.items()]
        return readings

    def _radii(
        self, networks: Sequence[nn.Module], x: Tensor, y: Tensor, norm: str
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Certified (N,) and attacked (N,) of each network: linear bounds as they are, the fast attack refined once.

        In the mean that comes as close as a round of DeepFool and targeted FAB, in a fifth of the time.
        """
        found, _ = closest_examples(
            list(networks), x, y, norm=float(norm), fast=True, rounds=1, restarts=1, seed=self.seed
        )
        attacked = found.double().reshape(len(networks), -1)
        with taken_for_logits():
            graphs, _ = graphs_of(Classifier(list(networks)), x) if self.certify else ([], "")
        classes = (y > 0).long() if bool((y < 0).any()) else y
        certified = torch.zeros_like(attacked)
        if graphs:
            certified = radii_of(graphs, x, classes, float(norm)).to(attacked)
        yield from zip(certified, attacked, strict=True)
