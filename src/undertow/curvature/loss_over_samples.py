"""The loss whose curvature is measured: a name or a function, labels, and how samples are put together."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor
from torch.nn import functional

from undertow.core.errors import InputError, nearest
from undertow.core.losses import Loss, each_loss, gaps, labels_of_classes, prepare_labels
from undertow.curvature.plain_derivatives import PlainDerivatives

__all__ = ["CurvatureLoss", "LossOverSamples", "Reduction"]

Reduction = Literal["mean", "sum"]
CurvatureLoss: TypeAlias = Loss | Callable[[Tensor, Tensor], Tensor]
"""A name of ``core/losses.py``, or a function of outputs (n, …) and labels (n, …) to one loss per sample, (n,)."""


@dataclass(frozen=True)
class LossOverSamples:
    """L(w) = Σ_i ℓ(f_w(x_i), y_i) · weight, with weight 1/N for the mean over all N samples, and 1 for the sum.

    >>> rows = LossOverSamples.of(torch.tensor([0.0, 2.0]), loss="square", reduction="mean", outputs=(2, 1))
    >>> rows.total(torch.tensor([[[1.0], [1.0]]]), rows.labels)   # (½·1² + ½·1²) / 2
    tensor([0.5000])
    """

    loss: CurvatureLoss
    labels: Tensor
    weight: float

    @classmethod
    def of(
        cls, y: Tensor, *, loss: CurvatureLoss, reduction: Reduction, outputs: tuple[int, ...]
    ) -> LossOverSamples:
        """From labels as a user has them, for a network that gives ``outputs`` for its samples."""
        if reduction not in get_args(Reduction):
            raise InputError(f"reduction = {reduction!r}: {nearest(str(reduction), get_args(Reduction))}")
        if not isinstance(y, Tensor) or y.dim() == 0 or len(y) == 0:
            raise InputError("y must be a tensor with one label per sample, shape (N,) or (N, …), N ≥ 1.")
        weight = 1 / len(y) if reduction == "mean" else 1.0
        if callable(loss):
            return cls(loss, y, weight)
        if len(outputs) > 2:
            raise InputError(
                f"the network gives shape {outputs}, and the loss {loss!r} reads one row of scores per sample: pass "
                "a function of outputs and labels that gives one loss per sample."
            )
        size = outputs[1] if len(outputs) == 2 else 1
        if loss == "cross-entropy" and y.is_floating_point() and y.dim() == 2:
            if y.shape[1] != size or bool((y < 0).any()):
                raise InputError(
                    f"y has shape {tuple(y.shape)} where the network gives {size} scores: soft labels are rows of "
                    f"probabilities, (N, {size}), none below 0."
                )
            return cls(_soft_cross_entropy, y, weight)
        y = labels_of_classes(y, loss=loss)
        labels = prepare_labels(y, loss=loss, outputs=size, dtype=torch.float64)
        return cls(loss, labels, weight)

    def total(self, outputs: Tensor, labels: Tensor, times: Tensor | None = None) -> Tensor:
        """The part of L that some of the samples make up, (M,), from the outputs (M, n, …) of M networks.

        ``times`` (n,) is how often each of them counts.
        """
        losses = self._each(outputs, labels)
        return (losses if times is None else losses * times).sum(1) * self.weight

    def _each(self, outputs: Tensor, labels: Tensor) -> Tensor:
        if callable(self.loss):
            return torch.stack([self._own(each, labels) for each in outputs])
        scores = outputs if outputs.dim() == 3 else outputs[:, :, None]
        labels = labels.to(scores.dtype) if labels.is_floating_point() else labels
        if self.loss in ("square", "exponential"):
            return each_loss(scores, labels, self.loss)
        return _logistic(gaps(scores, labels, self.loss))

    def _own(self, outputs: Tensor, labels: Tensor) -> Tensor:
        assert callable(self.loss)
        with PlainDerivatives():
            losses = self.loss(outputs, labels)
        if losses.shape != (len(outputs),):
            raise InputError(
                f"for {len(outputs)} samples the loss gives shape {tuple(losses.shape)}: it must give one number per "
                "sample, for example torch.nn.CrossEntropyLoss(reduction='none')."
            )
        return losses


def _logistic(gap: Tensor) -> Tensor:
    """log(1 + e^−Q): the curvature of PyTorch's logsigmoid is a difference, 1 − σ(Q), where Q is large.

    >>> _logistic(torch.tensor([0.0]))
    tensor([0.6931])
    """
    return torch.where(gap > 0, functional.softplus(-gap), -functional.logsigmoid(gap))


def _soft_cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    """−Σ_j p_j log softmax_j of every sample, (n,), from what the largest score leads by.

    Nothing cancels in its derivatives, where those of PyTorch's are differences of numbers near one: relative to a
    share of 1 − 10⁻¹⁰ all but six digits are rounding.

    >>> _soft_cross_entropy(torch.tensor([[0.0, 0.0]]), torch.tensor([[0.5, 0.5]]))   # log 2
    tensor([0.6931])
    """
    labels = labels.to(outputs.dtype)
    first = outputs.argmax(1, keepdim=True)
    leads = outputs - outputs.gather(1, first)
    others = leads.scatter(1, first, -math.inf).exp().sum(1)
    return labels.sum(1) * torch.log1p(others) - (labels * leads.scatter(1, first, 0.0)).sum(1)
