"""What the stable-rank report's proof wants of a network: equal margins, positive multipliers, one inequality."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from undertow.core.losses import log_loss_gradient, log_mean_loss
from undertow.core.pulled_back import pulled_back
from undertow.core.scoring import chosen_parameters, double_copy, margins_of
from undertow.core.sections import Text
from undertow.jacobian.largest_singular import largest_singular
from undertow.measures.kkt import kkt
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading, labels_for

__all__ = ["RankProof"]

_LARGEST = 300.0  # decimal logarithm


class RankProof(NamedMeasure):
    """The KKT properties that Sun & Tran (2023) want to prove, on the points trained on; one logit, W = ``weight``.

    ``log10_loss`` of the mean loss; ``spread`` = q_max − q_min of the margins q_i = y_i f(x_i); ``smallest`` = q_min;
    ``ratio`` = (‖W‖_F² − 2‖W‖₂²)/‖∇_W L‖_F², which their inequality ‖W‖_F² ≤ 2‖W‖₂² + ‖∇_W L‖_F² wants at most 1, and
    ``excess`` = (‖W‖_F² − 2‖W‖₂²)/‖W‖_F². Beyond ±10³⁰⁰ the ratio is cut off: its denominator is far below any float.
    Where all points are classified: ``least``, the smallest KKT multiplier λ_i of W scaled to q_min = 1, in units of
    the bound 1/(2 max‖x_i‖²) that near-orthogonality implies (Vardi, Yehudai & Shamir 2022; for a fixed head with
    Σ_j a_j² = 1 Frei et al. 2023), and the ``residual`` beside it.
    """

    name: ClassVar[str] = "rank-proof"
    weight: Text = "hidden.weight"
    loss: Literal["logistic", "exponential"] = "logistic"

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        labels = labels_for(self, y)
        copied, points = double_copy(net), x.double()
        chosen_parameters(copied, [self.weight])  # a sentence where there is no such weight
        matrix = dict(copied.named_parameters())[self.weight].requires_grad_()
        with torch.enable_grad():
            scores = copied(points).reshape(len(points), -1)
            value, prepared, named = margins_of(scores.detach(), labels, self.loss)
            slopes = log_loss_gradient(scores.detach(), prepared, named)
            (gradient,) = pulled_back([scores], [matrix], [slopes])
        assert gradient is not None
        log_loss = float(log_mean_loss(scores.detach(), prepared, named)) / math.log(10)
        yield "log10_loss", log_loss, None
        yield "smallest", float(value.min()), None
        yield "spread", float(value.max() - value.min()), None
        squares = float(matrix.detach().square().sum())
        top = float(largest_singular(matrix[None])[0]) ** 2
        yield "excess", (squares - 2 * top) / squares, None
        yield "ratio", _ratio(squares - 2 * top, float(gradient.norm()), log_loss), None
        if float(value.min()) > 0:
            found = kkt(net, x, labels, loss=self.loss, parameters=[self.weight])
            bound = 1 / (2 * float(points.flatten(1).square().sum(1).max()))
            yield "least", float(found.multipliers.min()) / bound, None
            yield "residual", found.residual, None


def _ratio(excess: float, log_gradient: float, log10_loss: float) -> float:
    """excess/‖∇L‖², where ‖∇L‖ = L ‖∇log L‖ may be smaller than any float."""
    if excess == 0:
        return 0.0
    if log_gradient == 0:
        return math.copysign(10**_LARGEST, excess)
    size = math.log10(abs(excess)) - 2 * (math.log10(log_gradient) + log10_loss)
    return math.copysign(10.0 ** min(size, _LARGEST), excess) if size > -_LARGEST else 0.0
