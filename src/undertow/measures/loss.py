"""The mean loss over points, in the ordinary and the log domain."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor

from undertow.core.losses import Loss as LossName
from undertow.core.losses import labels_of_classes, log_mean_loss, prepare_labels
from undertow.measures.reading import Reading, labels_for
from undertow.measures.scores import MeasureOfScores

__all__ = ["Loss"]


class Loss(MeasureOfScores):
    """Mean loss over the points (key ``mean``), and its decimal logarithm (``log10``), which never underflows.

    ``kind`` is one of the training losses; ``"auto"`` is cross-entropy for several outputs, BCE for one logit.

    >>> net, x, y = torch.nn.Identity(), torch.tensor([[0.0], [0.0]]), torch.tensor([0, 1])
    >>> [(key, round(value, 4)) for key, value, _ in Loss()(net, x, y)]       # log 2
    [('mean', 0.6931), ('log10', -0.1592)]
    """

    name: ClassVar[str] = "loss"
    kind: Literal["auto", "cross-entropy", "bce", "logistic", "exponential", "square"] = "auto"

    def of_scores(self, scores: Tensor, y: Tensor | None) -> list[list[Reading]]:
        scores = scores[:, :, None] if scores.dim() == 2 else scores.flatten(2)
        outputs = scores.shape[2]
        kind: LossName = "bce" if outputs == 1 else "cross-entropy"
        kind = kind if self.kind == "auto" else self.kind
        labels = labels_of_classes(labels_for(self, y), loss=kind)
        labels = prepare_labels(labels, loss=kind, outputs=outputs, dtype=torch.float64)
        return [
            [
                ("mean", math.exp(log_mean) if log_mean < 709 else math.inf, None),
                ("log10", log_mean / math.log(10), None),
            ]
            for log_mean in log_mean_loss(scores, labels, kind).tolist()
        ]
