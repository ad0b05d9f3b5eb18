"""Whether a margin is the largest around: perturb the weights, train on, and see where the margin goes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import torch
from torch import Tensor, nn

from undertow.core.losses import log_mean_loss
from undertow.core.scoring import double_copy, margins_of
from undertow.core.sections import Count, Positive, Seed
from undertow.measures.margins import margins
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading, labels_for

__all__ = ["MarginBasin", "trained_on"]


def trained_on(net: nn.Module, x: Tensor, y: Tensor, *, steps: int, length: float) -> nn.Module:
    """A copy in float64 after ``steps`` steps of ``length``·‖θ‖ along −∇log 𝓛, ‖θ‖ as it is at the beginning.

    >>> net = nn.Linear(1, 1, bias=False)
    >>> _ = nn.init.ones_(net.weight)
    >>> trained_on(net, torch.ones(1, 1), torch.tensor([1]), steps=3, length=1.0).weight.tolist()
    [[4.0]]
    """
    copied = double_copy(net).requires_grad_(True)
    weights = list(copied.parameters())
    stride = length * float(torch.cat([weight.detach().flatten() for weight in weights]).norm())
    with torch.enable_grad():
        for _ in range(steps):
            scores = copied(x.double())
            scores = scores.unsqueeze(-1) if scores.dim() == 1 else scores
            _, labels, loss = margins_of(scores.detach(), y, "auto")
            gradients = torch.autograd.grad(log_mean_loss(scores, labels, loss), weights)
            size = torch.cat([each.flatten() for each in gradients]).norm()
            with torch.no_grad():
                for weight, gradient in zip(weights, gradients, strict=True):
                    weight.sub_(stride * gradient / size)
    return copied.requires_grad_(False)


class MarginBasin(NamedMeasure):
    """Normalised margins of the network trained on, and of perturbed copies of it trained on as long.

    Readings: ``undisturbed``, q_min/ρ^L after ``steps`` steps of ``length``·‖θ‖ along −∇log 𝓛; ``perturbed``, that of
    the network moved by ``size``·‖θ‖ in a direction drawn from ``seed``, before it is trained; ``returned``, after the
    same steps; and ``back``, (returned − perturbed)/(undisturbed − perturbed): 1 where the margin returns.
    """

    name: ClassVar[str] = "margin-basin"
    size: Positive = 0.1
    steps: Count = 200
    length: Positive = 0.01
    seed: Seed = 0

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        labels = labels_for(self, y)
        copied = double_copy(net)
        draw = torch.Generator().manual_seed(self.seed)
        noise = [
            torch.randn(each.shape, generator=draw, dtype=torch.float64).to(each)
            for each in copied.parameters()
        ]
        total = torch.cat([each.flatten() for each in noise]).norm()
        norm = torch.cat([each.detach().flatten() for each in copied.parameters()]).norm()
        with torch.no_grad():
            for weight, each in zip(copied.parameters(), noise, strict=True):
                weight.add_(self.size * norm * each / total)
        options = {"steps": self.steps, "length": self.length}
        found = {
            "undisturbed": trained_on(net, x, labels, **options),  # type: ignore[arg-type]
            "perturbed": copied,
            "returned": trained_on(copied, x, labels, **options),  # type: ignore[arg-type]
        }
        value = {key: margins(each, x, labels).normalised for key, each in found.items()}
        yield from ((key, each, None) for key, each in value.items())
        lost = value["undisturbed"] - value["perturbed"]
        if lost != 0:
            yield "back", (value["returned"] - value["perturbed"]) / lost, None
