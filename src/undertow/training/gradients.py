"""Gradients of a batch's loss, of its logarithm, or of the loss divided by a frame."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from undertow.core.losses import (
    Loss,
    each_log_loss,
    log_loss_with_gradient,
    log_mean_loss,
    loss_with_gradient,
)
from undertow.training.adversarial import AdversarialTraining, worst_nearby
from undertow.training.ensemble import Ensemble
from undertow.training.penalised import PenaltyGradients

__all__ = ["BatchGradients", "parts"]

_GRAPHS = 4  # a gradient of a gradient keeps about this many times what a forward pass does
Frame = Callable[[], "Tensor | None"]
Unit = Callable[[Tensor], Tensor]


class BatchGradients:
    """∇L of a batch, or in the log domain e^(log L − r) ∇log L = ∇L/e^r, which no small loss makes vanish.

    r is the log of the frame (M,) where ``frame`` gives one, or what ``unit`` makes of log L; with ``log_below`` it is
    log L itself wherever that is below this bound, and 0 elsewhere. Batches larger than ``largest`` are taken in
    parts, unless networks normalise by them. Labels that all members share have ``label_axes`` axes, 1 for a number
    per sample and 2 for several targets; with one more, each member has its own samples. A penalty's gradient comes on
    top, and is no part of the losses that are returned; with an adversary these are of the samples that it found.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        loss: Loss,
        *,
        largest: int,
        frame: Frame,
        log_below: float | None,
        unit: Unit | None = None,
        label_axes: int = 1,
        penalty: PenaltyGradients | None = None,
        adversary: AdversarialTraining | None = None,
    ) -> None:
        self._ensemble, self._loss, self._largest = ensemble, loss, largest
        self._frame, self._log_below, self._label_axes = frame, log_below, label_axes
        self._unit = unit
        self._penalty, self._adversary = penalty, adversary
        self._in_a_step = sys.maxsize if ensemble.batch_statistics else largest
        self.in_logs = log_below is not None or unit is not None or frame() is not None

    def add(
        self, x: Tensor, y: Tensor, rows: Tensor | None = None, *, onto: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor | None]:
        """Put the gradients of a batch, (B, …) or each member's own (M, B, …), into ``onto``.

        The loss of each member, (M,), is returned as it is known: in the weights' precision, or in the log domain
        its logarithm in float64, with r beside it. ``rows``, (B,) or (M, B), say which samples these are, for a
        penalty that remembers them.
        """
        if onto:
            torch._foreach_zero_(list(onto.values()))
        if self._penalty is not None:
            self._add_penalty(self._penalty, x, rows, *self._own(y), onto=onto)
        return self._add_in_logs(x, y, onto) if self.in_logs else (self._add(x, y, onto), None)

    def slopes(self, logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Of a whole batch: its loss as ``add`` gives it, the gradient by its logits, and r in the log domain."""
        if not self.in_logs:
            return *loss_with_gradient(logits, y, self._loss), None
        log_loss, slopes = log_loss_with_gradient(logits, y, self._loss)
        reference = self.reference(log_loss)
        return log_loss, slopes * torch.exp(log_loss - reference)[:, None, None], reference

    def _add(self, x: Tensor, y: Tensor, onto: Mapping[str, Tensor]) -> Tensor:
        own, samples = self._own(y)
        loss = torch.zeros(self._ensemble.size, dtype=self._ensemble.dtype, device=self._ensemble.device)
        for part in parts(samples, self._in_a_step):
            labels, share = _rows(y, part, own), (part.stop - part.start) / samples
            chosen, each = _rows(x, part, own), own
            if self._adversary is not None:
                chosen = worst_nearby(self._adversary, self._ensemble, chosen, labels, self._loss, own=own)
                each = True
            logits, kept = self._ensemble.forward(chosen, own=each)
            own_loss, slopes = loss_with_gradient(logits, labels, self._loss)
            loss += own_loss * share
            self._ensemble.backward(kept, slopes if share == 1 else slopes * share, onto=onto)
        return loss

    def _add_penalty(
        self,
        penalty: PenaltyGradients,
        x: Tensor,
        rows: Tensor | None,
        own: bool,
        samples: int,
        *,
        onto: Mapping[str, Tensor],
    ) -> None:
        for part in parts(samples, max(1, self._largest // _GRAPHS)):
            share = (part.stop - part.start) / samples
            which = None if rows is None else rows[..., part]
            penalty.add(_rows(x, part, own), which, own=own, first=part.start, share=share, onto=onto)

    def _add_in_logs(self, x: Tensor, y: Tensor, onto: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        own, samples = self._own(y)
        reference = self._frame()
        whole = samples <= self._in_a_step
        if reference is None and not whole:  # log L of the whole batch comes first
            reference = self.reference(self.log_loss(x, y))
        log_losses = []
        for part in parts(samples, self._in_a_step):
            labels = _rows(y, part, own)
            logits, kept = self._ensemble.forward(_rows(x, part, own), own=own)
            log_loss, slopes = log_loss_with_gradient(logits, labels, self._loss)
            if not whole:
                log_loss = log_loss + math.log((part.stop - part.start) / samples)
            log_losses.append(log_loss)
            if reference is None:
                reference = self.reference(log_loss)
            slopes = slopes * torch.exp(log_loss - reference)[:, None, None]
            self._ensemble.backward(kept, slopes.to(logits), onto=onto)
        assert reference is not None, "a batch has at least one part"
        return log_losses[0] if whole else torch.logsumexp(torch.stack(log_losses), dim=0), reference

    def reference(self, log_loss: Tensor) -> Tensor:
        """r, (M,), for a batch with this log of its loss."""
        if (frame := self._frame()) is not None:
            return frame
        if self._unit is not None:
            return self._unit(log_loss)
        below = -math.inf if self._log_below is None else self._log_below
        return log_loss.where(log_loss < below, torch.zeros_like(log_loss))

    def log_loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Natural log of each member's mean loss, (M,) float64, of samples (N, …) or (M, N, …)."""
        own, samples = self._own(y)
        log_sums = []
        room = 1 if own else self._ensemble.room_without_gradients
        for part in parts(samples, room * self._largest):
            chosen, labels = _rows(x, part, own), _rows(y, part, own)
            logits = self._ensemble.forward(chosen, own=True)[0] if own else self._ensemble.logits(chosen)
            log_mean = log_mean_loss(logits, labels, self._loss)
            log_sums.append(log_mean + math.log(part.stop - part.start))
        return torch.logsumexp(torch.stack(log_sums), dim=0) - math.log(samples)

    def each_log_loss(self, x: Tensor, y: Tensor, rows: Tensor | None = None) -> Tensor:
        """Natural log of every loss, (M, N) float64, of samples (N, …) that all members share, or of these ``rows``."""
        if rows is not None:
            x, y = x[rows], y[rows]
        most = self._ensemble.room_without_gradients * self._largest
        found = [
            each_log_loss(self._ensemble.logits(x[part]), y[part], self._loss) for part in parts(len(x), most)
        ]
        return torch.cat(found, dim=1)

    def _own(self, y: Tensor) -> tuple[bool, int]:
        """Whether each member has its own samples, and how many there are."""
        own = y.dim() > self._label_axes
        return own, y.shape[1 if own else 0]


def _rows(values: Tensor, part: slice, own: bool) -> Tensor:
    return values[:, part] if own else values[part]


def parts(samples: int, largest: int) -> Iterator[slice]:
    """The samples in slices of at most ``largest``.

    >>> list(parts(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    for start in range(0, samples, largest):
        yield slice(start, min(start + largest, samples))
