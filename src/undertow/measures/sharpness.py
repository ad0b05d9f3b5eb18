"""Sharpness as a measure: the largest eigenvalues of the loss's Hessian in the parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal, cast

import torch
from torch import Tensor, nn

from undertow.core.enclosing import rows_of
from undertow.core.losses import Loss as LossName
from undertow.core.sections import Count, NonNegative, Positive, WithLaterOptions
from undertow.curvature.hessian_sharpness import sharpness_batched
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading, labels_for

__all__ = ["Sharpness", "loss_for"]


class Sharpness(WithLaterOptions, NamedMeasure):
    """λ_1 of the Hessian of the mean loss over the points, in the parameters that train (Cohen et al. 2021).

    The key of the largest eigenvalue is empty; with ``top`` the next ones are ``2``, ``3``, …. The truth lies above a
    reading by at most its error (see ``undertow.sharpness``). It is measured cold every time: a warm start would save
    less than a tenth, for errors of up to four times as much. ``loss`` is one of the training losses; ``"auto"`` is
    cross-entropy for several outputs, BCE for one logit. ``atol`` is an absolute error that is enough as well.

    >>> net, x, y = nn.Linear(2, 1, bias=False), torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.zeros(2)
    >>> [(key, round(value, 6)) for key, value, _ in Sharpness(loss="square", top=2)(net, x, y)]
    [('', 2.0), ('2', 0.5)]
    """

    LATER = ("atol",)

    name: ClassVar[str] = "sharpness"
    loss: Literal["auto", "cross-entropy", "bce", "logistic", "exponential", "square"] = "auto"
    matrix: Literal["hessian", "gauss-newton"] = "hessian"
    top: Count = 1
    rtol: Positive = 1e-2
    atol: NonNegative = 0.0

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        yield from self.batched([net], x, y)[0]

    def batched(self, networks: Sequence[nn.Module], x: Tensor, y: Tensor | None) -> list[list[Reading]]:
        """All networks' Hessian products as one batch."""
        found = sharpness_batched(
            networks,
            x,
            labels_for(self, y),
            loss=loss_for(self.loss, networks[0], x),
            matrix=self.matrix,
            top=self.top,
            rtol=self.rtol,
            atol=self.atol,
        )
        return [
            [
                (str(place) if place > 1 else "", value, error)
                for place, (value, error) in enumerate(
                    zip(each.values.tolist(), each.errors.tolist(), strict=True), start=1
                )
            ]
            for each in found
        ]


def loss_for(name: str, net: nn.Module, x: Tensor) -> LossName:
    """The loss of that name; of ``"auto"``, the one that suits as many outputs as the network has."""
    if name != "auto":
        return cast("LossName", name)
    with torch.no_grad():
        scores = rows_of(net, slice(1))(x[:1])
    return "bce" if scores.numel() == 1 else "cross-entropy"
