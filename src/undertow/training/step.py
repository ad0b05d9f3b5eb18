"""One update of every member, without a question to the host."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from undertow.losses import log_mean_loss, loss_gradient, mean_loss
from undertow.training.batches import Batches
from undertow.training.divergence import DivergenceWatch
from undertow.training.ensemble import Ensemble
from undertow.training.optimizers import make_optimizer, per_member
from undertow.training.recipe import Recipe

__all__ = ["Step"]

_LARGEST = {"cpu": 2**24, "cuda": 2**27}  # activations that one pass may hold; a larger batch is cut in parts


class Step:
    """An ensemble with its losses, its optimiser and the watch over both.

    Everything that one step leaves to the next is in ``tensors()``, on the device and changed in place: so a
    step can be captured as a CUDA graph, and these tensors are all that a checkpoint needs.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        recipes: Sequence[Recipe],
        batches: Batches,
        *,
        in_place: bool | None = None,
    ) -> None:
        recipe = recipes[0]
        self.ensemble = ensemble
        self.rates = torch.tensor(
            [r.learning_rate for r in recipes], dtype=ensemble.dtype, device=ensemble.device
        )
        self.count = torch.zeros((), dtype=torch.int64, device=ensemble.device)
        self._loss = recipe.loss
        self._x, self._y = batches.x, batches.y
        largest = _LARGEST.get(ensemble.device.type, _LARGEST["cpu"])
        self._part = max(1, largest // ensemble.floats_per_sample(self._x[:1]))
        trained = {name: ensemble.weights[name] for name in ensemble.trained}
        self.optimizer = make_optimizer(recipe, trained)
        self._gradients = {name: torch.zeros_like(weight) for name, weight in trained.items()}
        if in_place is None:
            # A GPU's product adds to its target once, at the end. A CPU's adds block by block and rounds each
            # time, which shows where steps are a few units in the last place: there the gradient comes first.
            in_place = ensemble.device.type == "cuda"
        if in_place and self.optimizer.plain and batches.size <= self._part:
            self._gradients = {}
        self.watch = DivergenceWatch(self.log_loss().exp(), dtype=ensemble.dtype)

    def take(self, x: Tensor, y: Tensor) -> None:
        """One update on a batch that all share, (B, …), or on each member's own, (M, B, …)."""
        if self._gradients:
            running = self._accumulate(x, y)
            rates = torch.where(running, self.rates, 0.0)
            self.optimizer.apply(self.ensemble.weights, self._gradients, rates)
        else:
            self._descend(x, y)
        self.count.add_(1)

    def check(self) -> None:
        """Look at the loss where no further step will meet it."""
        self.watch.look(self.log_loss().exp().to(self.rates), self.count)

    def log_loss(self) -> Tensor:
        """Natural log of each member's mean loss over the whole data set, (M,) float64."""
        log_sums = []
        for part in self._parts(len(self._x)):
            log_mean = log_mean_loss(self.ensemble.logits(self._x[part]), self._y[part], self._loss)
            log_sums.append(log_mean + math.log(part.stop - part.start))
        return torch.logsumexp(torch.stack(log_sums), dim=0) - math.log(len(self._x))

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor that tells one moment of training from another, by name."""
        return {
            "step": self.count,
            "watch.ceiling": self.watch.ceiling,
            "watch.step": self.watch.step,
            "watch.loss": self.watch.loss,
            **{f"weights.{name}": weight for name, weight in self.ensemble.weights.items()},
            **{f"buffers.{name}": buffer for name, buffer in self.ensemble.buffers.items()},
            **{f"moments.{name}": moment for name, moment in self.optimizer.moments.items()},
        }

    def _descend(self, x: Tensor, y: Tensor) -> None:
        """w ← w - η ∇L, added to the weights where it is computed: no gradient is written and read again."""
        logits, kept = self.ensemble.forward(x, own=y.dim() == 2)
        running = self.watch.look(mean_loss(logits, y, self._loss), self.count)
        slopes = loss_gradient(logits, y, self._loss) * -per_member(self.rates, logits)
        slopes.masked_fill_(~per_member(running, slopes), 0.0)
        self.ensemble.backward(kept, slopes, onto=self.ensemble.weights)

    def _accumulate(self, x: Tensor, y: Tensor) -> Tensor:
        """Put the gradients of the batch, part by part, into their buffers; which members run, (M,) bool."""
        own, samples = y.dim() == 2, y.shape[-1]
        loss = torch.zeros_like(self.rates)
        for gradient in self._gradients.values():
            gradient.zero_()
        for part in self._parts(samples):
            labels, share = y[..., part], (part.stop - part.start) / samples
            logits, kept = self.ensemble.forward(x[:, part] if own else x[part], own=own)
            loss += mean_loss(logits, labels, self._loss) * share
            self.ensemble.backward(
                kept, loss_gradient(logits, labels, self._loss) * share, onto=self._gradients
            )
        running = self.watch.look(loss, self.count)
        for gradient in self._gradients.values():  # NaN times a rate of 0 would still be NaN
            gradient.masked_fill_(~per_member(running, gradient), 0.0)
        return running

    def _parts(self, samples: int) -> Iterator[slice]:
        for start in range(0, samples, self._part):
            yield slice(start, min(start + self._part, samples))
