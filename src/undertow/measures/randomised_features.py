"""Which coordinates a network uses: its accuracy after some of them are exchanged (Shah et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from undertow.core.errors import InputError
from undertow.core.sections import Count, Seed
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading, labels_for
from undertow.measures.scores import check_one_logit

__all__ = ["RandomisedFeatures", "randomised"]


def randomised(x: Tensor, columns: Sequence[int] | slice, *, generator: torch.Generator) -> Tensor:
    """x with the given columns taken from other rows, all from the same one: they say nothing about the label any more.

    What a network then loses of its accuracy is what it had from these features; their own distribution, and
    what they have in common with each other, stays.

    >>> x = torch.tensor([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])
    >>> mixed = randomised(x, [1], generator=torch.Generator().manual_seed(0))
    >>> mixed[:, 0].tolist(), sorted(mixed[:, 1].tolist())
    ([1.0, 2.0, 3.0], [10.0, 20.0, 30.0])
    """
    order = torch.randperm(len(x), generator=generator).to(x.device)
    mixed = x.clone()
    mixed[:, columns] = x[order][:, columns]
    return mixed


class RandomisedFeatures(NamedMeasure):
    """Accuracy after the first ``simple`` coordinates, or all the others, are taken from other points.

    Keys: ``none`` (nothing is exchanged), ``simple`` and ``complex``. A network that uses the simple ones alone
    keeps its accuracy under ``complex`` and falls to chance under ``simple``.

    >>> import torch
    >>> net = torch.nn.Linear(2, 1, bias=False)
    >>> _ = net.weight.data.copy_(torch.tensor([[1.0, 0.0]]))
    >>> x, y = torch.tensor([[1.0, 5.0], [-1.0, 6.0]]), torch.tensor([1, 0])
    >>> [(key, value) for key, value, _ in RandomisedFeatures()(net, x, y) if key != "simple"]
    [('none', 1.0), ('complex', 1.0)]
    """

    name: ClassVar[str] = "randomised-features"
    simple: Count = 1
    seed: Seed = 0

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        if not 0 < self.simple < x.shape[1]:
            raise InputError(f"simple = {self.simple} of {x.shape[1]} coordinates leaves none of one kind.")
        signs = 2.0 * labels_for(self, y).double() - 1
        generator = torch.Generator().manual_seed(self.seed)
        inputs = {
            "none": x,
            "simple": randomised(x, slice(0, self.simple), generator=generator),
            "complex": randomised(x, slice(self.simple, None), generator=generator),
        }
        for key, points in inputs.items():
            with torch.no_grad():
                scores = net(points)
            check_one_logit(self, scores, len(x))
            right = scores.double().flatten() * signs > 0
            yield key, float(right.double().mean()), None
