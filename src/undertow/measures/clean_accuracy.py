"""Accuracy without an attack: the share of points that are classified correctly."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from undertow.core.losses import prepare_labels
from undertow.measures.reading import Reading, labels_for
from undertow.measures.scores import MeasureOfScores

__all__ = ["Accuracy"]


class Accuracy(MeasureOfScores):
    """Share of the points that are classified correctly; a tie is an error.

    >>> x, y = torch.tensor([[2.0, 1.0], [1.0, 1.0]]), torch.tensor([0, 0])
    >>> list(Accuracy()(torch.nn.Identity(), x, y))
    [('', 0.5, None)]
    """

    name: ClassVar[str] = "accuracy"

    def of_scores(self, scores: Tensor, y: Tensor | None) -> list[list[Reading]]:
        labels = labels_for(self, y)
        if scores.ndim == 2 or scores.shape[2] == 1:
            correct = scores.flatten(1) * torch.where(labels > 0, 1, -1) > 0
        else:
            labels = prepare_labels(labels, loss="cross-entropy", outputs=scores.shape[2], dtype=scores.dtype)
            index = labels.expand(len(scores), -1)[:, :, None]
            others = scores.scatter(2, index, -math.inf).amax(2)
            correct = scores.gather(2, index)[:, :, 0] > others
        return [[("", share, None)] for share in correct.double().mean(1).tolist()]
