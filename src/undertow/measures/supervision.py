"""Robustness of one binary decision under two kinds of supervision: two classes, or the ten behind them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from undertow.adversary.accuracy import robust_accuracy
from undertow.adversary.attacks.loss_ascent import ascend_loss
from undertow.adversary.classifier import Classifier
from undertow.adversary.readout import Groups
from undertow.core.sections import Positive, Seed
from undertow.measures.named_measure import InputRange, NamedMeasure
from undertow.measures.reading import Reading, labels_for

__all__ = ["SupervisionRobustness"]

_GRADIENT = ("apgd-ce", "apgd-t", "fab-t")


class SupervisionRobustness(NamedMeasure):
    """Robust accuracy of the binary task, for one logit trained on it or k logits trained on the k classes behind it.

    A k-class network decides by its read-out Σ_{J+} s_j − Σ_{J−} s_j (``sum``, as on the slides) or by the side
    of its largest class, max_{J+} s_j − max_{J−} s_j (``max``). ``task`` says which classes are J+: the odd ones
    ("parity") or the second half ("halves"). Radii are L2, in units of the inputs; ``box`` is their range.

    Keys: ``sum:pgd@ε`` is plain PGD on that decision (``plain``: from ten starts, "pgd", or from one, "pgd-once"),
    ``sum:gradient@ε`` and ``max:gradient@ε`` the three gradient attacks of AutoAttack, ``sum:autoattack@ε`` all
    four, at the radii of ``square`` (the fourth takes most of the time); ``native@ε`` is the decision by ``sum``
    after plain PGD on the loss that the network was trained on. ε = 0 is the clean accuracy. A one-logit network
    decides one way.
    """

    name: ClassVar[str] = "supervision"
    eps: tuple[Positive, ...] = (0.1, 0.2, 0.4)
    square: tuple[Positive, ...] = ()
    task: Literal["parity", "halves"] = "parity"
    plain: Literal["pgd", "pgd-once"] = "pgd"
    box: InputRange = (0.0, 1.0)
    seed: Seed = 0

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        yield from self.batched([net], x, y)[0]

    def batched(
        self, networks: Sequence[nn.Module], x: Tensor, y: Tensor | None
    ) -> Sequence[Sequence[Reading]]:
        """All networks attacked along one member axis."""
        labels = labels_for(self, y)
        with torch.no_grad():
            outputs = networks[0](x[:1]).shape[-1]
        binary = labels if outputs == 1 else self._side(labels, outputs)
        sums = self._decision(networks, "sum", outputs)
        found = [
            *self._attacked("sum:pgd", sums, x, binary, self.plain, (0.0, *self.eps)),
            *self._attacked("sum:gradient", sums, x, binary, _GRADIENT, (0.0, *self.eps)),
            *self._attacked("sum:autoattack", sums, x, binary, "autoattack", self.square),
        ]
        if outputs > 1:
            largest = self._decision(networks, "max", outputs)
            found += self._attacked("max:gradient", largest, x, binary, _GRADIENT, (0.0, *self.eps))
        found += self._through_own_loss(networks, x, labels, binary, outputs)
        return [[(key, values[member], None) for key, values in found] for member in range(len(networks))]

    def _attacked(
        self,
        name: str,
        decision: Classifier,
        x: Tensor,
        truth: Tensor,
        attack: str | Sequence[str],
        radii: tuple[float, ...],
    ) -> Iterator[tuple[str, list[float]]]:
        if not radii:
            return
        found = robust_accuracy(
            decision, x, truth, eps=list(radii), attack=attack, seed=self.seed, progress=False
        )
        for index, radius in enumerate(radii):
            yield f"{name}@{radius!r}", torch.as_tensor(found.value)[:, index].tolist()

    def _through_own_loss(
        self, networks: Sequence[nn.Module], x: Tensor, labels: Tensor, binary: Tensor, outputs: int
    ) -> Iterator[tuple[str, list[float]]]:
        for radius in self.eps:
            values = []
            for net in networks:
                moved = ascend_loss(
                    net,
                    x,
                    binary.to(x) if outputs == 1 else labels,
                    loss="bce" if outputs == 1 else "cross-entropy",
                    eps=radius,
                    bounds=self._bounds,
                    seed=self.seed,
                )
                right = self._decision([net], "sum", outputs).margins(moved, binary) > 0
                values.append(float(right.double().mean()))
            yield f"native@{radius!r}", values

    @property
    def _bounds(self) -> tuple[float, float] | None:
        return (self.box[0], self.box[1]) if self.box else None

    def _side(self, classes: Tensor, outputs: int) -> Tensor:
        return classes % 2 if self.task == "parity" else (classes >= outputs // 2).long()

    def _decision(self, networks: Sequence[nn.Module], key: str, outputs: int) -> Classifier:
        if outputs == 1:
            return Classifier(list(networks), bounds=self._bounds)
        sides = self._side(torch.arange(outputs), outputs)
        groups = [torch.nonzero(sides == side).flatten().tolist() for side in (0, 1)]
        if key == "sum":
            return Classifier(
                list(networks), bounds=self._bounds, readout=Groups(tuple(groups[1]), tuple(groups[0]))
            )
        return Classifier(_largest_of_groups(networks, groups), bounds=self._bounds)


def _largest_of_groups(networks: Sequence[nn.Module], groups: list[list[int]]) -> list[nn.Module]:
    """Networks with the largest score of each group as their outputs."""
    return [_LargestOfGroups(net, groups).eval() for net in networks]


class _LargestOfGroups(nn.Module):
    def __init__(self, net: nn.Module, groups: list[list[int]]) -> None:
        super().__init__()
        self.net, self.groups = net, groups

    def forward(self, x: Tensor) -> Tensor:
        scores = self.net(x)
        return torch.stack([scores[..., group].amax(-1) for group in self.groups], dim=-1)
