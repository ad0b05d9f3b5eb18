"""Fitting and generalising apart: accuracy on the points seen and on the others, and what the weights do meanwhile."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from undertow.core.errors import InputError
from undertow.core.losses import log_mean_loss
from undertow.measures.margins import layer_norms
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading, labels_for

__all__ = ["LateGeneralisation", "frequency_share"]


def frequency_share(rows: Tensor) -> float:
    """How much of its power a neuron has at one frequency: Σ over rows of max_k |ŵ_k|² over Σ of Σ_(k>0) |ŵ_k|².

    1 is a pure cosine in every row, 2/(p−1) is even over all frequencies (Morwani et al. 2024 find cosines).

    >>> angles = 2 * math.pi * torch.arange(7) / 7
    >>> round(frequency_share(torch.stack([torch.cos(2 * angles), torch.sin(3 * angles + 1)])), 6)
    1.0
    """
    power = torch.fft.rfft(rows.double(), dim=1).abs().square()[:, 1:]
    return float(power.amax(1).sum() / power.sum().clamp(min=1e-300))


class LateGeneralisation(NamedMeasure):
    """Of data that know which points were ``seen`` in training, read on all of them (``split = "all"``).

    Keys: accuracies ``seen`` and ``unseen``, ``log10_loss`` on the points seen, ``margin`` = their smallest margin over
    ∏‖W_k‖_F, and ``frequency``, the share of power at one frequency of the first linear layer's rows, which are read as
    periodic functions of the numbers added: two in each row, or one of an embedding's. Where
    inputs are no such functions of the classes it is left out.
    """

    name: ClassVar[str] = "late-generalisation"

    def about(self, details: Mapping[str, Tensor]) -> _KnowsSeen:
        """The measure for points of which it is known whether they were seen."""
        if "seen" not in details:
            raise InputError(f"{self.name} needs to know which points were seen: write split = 'all'.")
        return _KnowsSeen(details["seen"])

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        raise InputError(f"{self.name} needs to know which points were seen: see LateGeneralisation.about.")


@dataclass(frozen=True, eq=False)
class _KnowsSeen:
    name: ClassVar[str] = LateGeneralisation.name
    seen: Tensor

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        labels, seen = labels_for(self, y), self.seen[: len(x)].to(x.device)
        if bool(seen.all()):
            raise InputError(f"{self.name} is read on all pairs: write probe.split = 'all'.")
        with torch.no_grad():
            scores = net(x).double()
        own = scores.gather(1, labels[:, None])
        margins = own[:, 0] - scores.scatter(1, labels[:, None], -math.inf).amax(1)
        yield "seen", float((margins[seen] > 0).double().mean()), None
        yield "unseen", float((margins[~seen] > 0).double().mean()), None
        yield (
            "log10_loss",
            float(log_mean_loss(scores[seen], labels[seen], "cross-entropy")) / math.log(10),
            None,
        )
        yield "margin", float(margins[seen].min()) / math.prod(layer_norms(net).values()), None
        first = next(module.weight for module in net.modules() if isinstance(module, nn.Linear))
        if first.shape[1] % scores.shape[1] == 0:
            yield "frequency", frequency_share(first.detach().reshape(-1, scores.shape[1])), None
