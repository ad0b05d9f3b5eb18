"""Certified accuracy at several radii: the share of points whose decision is proved not to change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from undertow.adversary.certified_accuracy import certified_accuracy
from undertow.measures.named_measure import InputRange, NamedMeasure, Radii
from undertow.measures.raw_inputs import taken_for_logits
from undertow.measures.reading import Reading, labels_for

__all__ = ["CertifiedShare"]


class CertifiedShare(NamedMeasure):
    """Share of the points classified correctly at every point within ε, keyed by ε: a lower bound of the true one.

    ``norm``, ``box`` as in ``undertow.measures.robust_accuracy``, whose share is an upper bound; ``steps`` of the
    ascent on slopes, where plain linear bounds leave a point open. Networks are proved as one batch.

    >>> x, y = torch.tensor([[1.0], [3.0]]), torch.tensor([1, 1])
    >>> list(CertifiedShare(eps=(0.5, 2.0))(nn.Linear(1, 1).requires_grad_(False).apply(_identity), x, y))
    [('0.5', 1.0, None), ('2.0', 0.5, None)]
    """

    name: ClassVar[str] = "certified-accuracy"
    eps: Radii = (0.5,)
    norm: Literal["1", "2", "inf"] = "2"
    box: InputRange = ()
    steps: Annotated[int, Field(strict=True, ge=0, le=1000)] = 20

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        yield from self.batched([net], x, y)[0]

    def batched(self, networks: Sequence[nn.Module], x: Tensor, y: Tensor | None) -> list[list[Reading]]:
        """All networks' proofs as one batch."""
        labels = labels_for(self, y)
        low_high = (self.box[0], self.box[1]) if self.box else None
        with taken_for_logits():
            found = certified_accuracy(
                list(networks),
                x,
                labels,
                eps=list(self.eps),
                norm=self.norm,
                bounds=low_high,
                steps=self.steps,
            )
        shares = torch.as_tensor(found.value).tolist()
        return [
            [(repr(radius), share, None) for radius, share in zip(self.eps, own, strict=True)]
            for own in shares
        ]


def _identity(module: nn.Module) -> None:
    """x ↦ x, for the example above."""
    assert isinstance(module, nn.Linear)
    module.weight.fill_(1.0)
    module.bias.fill_(0.0)
