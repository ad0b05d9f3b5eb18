"""One step of every member, without a question to the host: gradients, direction, rate, and whether it is kept."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from undertow.core.compiling import compiled
from undertow.core.losses import log_loss_of_ignorance
from undertow.training.attempts import Attempts
from undertow.training.batches import Batches
from undertow.training.directions import per_member
from undertow.training.displaced import displaced
from undertow.training.divergence import DivergenceWatch
from undertow.training.ensemble import Ensemble
from undertow.training.gradients import BatchGradients
from undertow.training.loss_of_try import loss_of_try
from undertow.training.loss_units import LossUnits
from undertow.training.penalised import PenaltyGradients
from undertow.training.rates import Constant, Horizon
from undertow.training.recipe import Recipe
from undertow.training.states import put_back

__all__ = ["NEVER", "Step"]

NEVER = 2**62
_LARGEST = {"cpu": 2**24, "cuda": 2**27}  # activations that one pass may hold; a larger batch is cut in parts


class Step:
    """An ensemble with its gradients, its direction, its rates and the watch over all of them.

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
        self._stop = None if recipe.stop_below is None else recipe.stop_below * math.log(10)
        self._loss, self._rule, self._direction = recipe.loss, recipe.rate, recipe.direction
        self._x, self._y, self._label_axes = batches.x, batches.y, batches.label_axes
        self._samples = batches.of(0)[0]
        lasting = recipe.batch_statistics_epochs
        self._statistics_until = NEVER if lasting is None else lasting * batches.per_epoch
        self._statistics = ensemble.batch_statistics
        ignorance = log_loss_of_ignorance(recipe.loss, ensemble.logits(self._samples[:1]).shape[-1])
        self._horizon = Horizon(recipe.epochs, batches.per_epoch, ignorance)
        rates = [each.learning_rate for each in recipes]
        self._base = torch.tensor(rates, dtype=torch.float64, device=ensemble.device)
        self._rates = self._base.to(ensemble.dtype)
        self._stretch = torch.ones_like(self._base)  # what the direction made of the last step's rates
        self.count = torch.zeros((), dtype=torch.int64, device=ensemble.device)
        self.ended = torch.full((ensemble.size,), NEVER, dtype=torch.int64, device=ensemble.device)
        self._log_time = torch.full_like(self._base, -math.inf)
        activations = _LARGEST.get(ensemble.device.type, _LARGEST["cpu"])
        largest = max(1, activations // ensemble.floats_per_sample(self._samples[:1]))
        self.samples_at_once = largest
        trained = {name: ensemble.weights[name] for name in ensemble.trained}
        self._memory = self._direction.start(trained)
        self._gradients = {name: torch.zeros_like(weight) for name, weight in trained.items()}
        self.attempts = self._attempts()
        self._penalty = self._penalty_gradients(recipes)
        self._units = self._loss_units(recipe)
        self._source = self._gradient_source(recipe, largest)
        self._loss_of_try = loss_of_try(
            self._source, *batches.of(0), members=ensemble.size, rounding=recipe.rounding
        )
        self._enlarged = self._source.in_logs and self._units is None  # steps are −η/e^r ∇L
        self._direct = self._may_descend_directly(recipe, in_place) and batches.size <= largest
        if self._direct:
            self._gradients = {}
        self._steps_by_logits = compiled(self._downhill) if recipe.compiled else self._downhill
        log_loss = self.log_loss()
        self._reference = self._source.reference(log_loss).clone()  # what the last gradient was divided by
        varies = not isinstance(self._rule, Constant) or self._enlarged or self._direction.varies
        self._sums_time = self.attempts is None and varies
        begin = log_loss.exp()
        self.watch = DivergenceWatch(begin, dtype=ensemble.dtype)
        if self.attempts is not None:  # later, what is out of bounds is taken back
            self.watch.look(begin.to(self._rates), self.count)
            self.attempts.log_loss.copy_(log_loss)
            self.attempts.begin_try(self.watch.out)

    def take(self, x: Tensor, y: Tensor, rows: Tensor | None = None) -> None:
        """One update on a batch that all share, (B, …), or on each member's own, (M, B, …); ``rows``: which samples."""
        if self._direct:
            self._descend(x, y)
        else:
            running = self._look(*self._source.add(x, y, rows, onto=self._gradients))
            self._silence(running)
            if self._units is not None:
                self._units.convert(self._reference, running)
            self._look_ahead(x, y, rows, running)
            rates = torch.where(running, self._present_rates(), 0.0)
            stretch = self._direction.stretch(self.ensemble.weights, self._gradients, rates)
            if stretch is not None:
                self._stretch.copy_(stretch.where(running, self._stretch))
                rates = rates * stretch
            self._sum_time(running)
            self._direction.step(self.ensemble.weights, self._gradients, self._memory, rates)
        self.count.add_(1)

    def check(self) -> None:
        """Look at the loss where no further step will meet it."""
        self.watch.look(self.log_loss().exp().to(self._rates), self.count)

    def settle(self) -> Tensor:
        """At the end of a try: keep the epoch or take it back; which members kept it, (M,) bool."""
        assert self.attempts is not None, "only where epochs may be taken back"
        allowed = self._rule.allowed(self.attempts.state)
        if self._loss_of_try is None or allowed is None:
            return self.attempts.settle(self.log_loss(), self.watch.out, self.log_rates())
        log_loss = self._loss_of_try(allowed, self.attempts.lost)
        kept = self.attempts.settle(log_loss, self.watch.out, self.log_rates())
        self._loss_of_try.note(kept)
        return kept

    def use_statistics_of(self, step: int) -> bool:
        """Normalise by the batch, or by the running statistics, as this step is to; whether that is news."""
        before = self.ensemble.batch_statistics
        self.ensemble.batch_statistics = self._statistics and step < self._statistics_until
        return self.ensemble.batch_statistics != before

    def look_for_end(self) -> None:
        """Note which members have come to the loss that training is to end at; they take no further step."""
        if self._stop is not None and self.attempts is None:
            there = (self.log_loss() <= self._stop) & (self.ended == NEVER) & ~self.watch.out
            self.ended.copy_(torch.where(there, self.count, self.ended))

    def log_time(self) -> Tensor:
        """log t, t = Σ η over the effective rates of the steps that each member has kept, (M,) float64."""
        if self.attempts is not None:
            return self.attempts.log_time
        if self._sums_time:
            return self._log_time
        return self._base.log() + torch.minimum(self.count, self.ended).double().log()

    def log_loss(self) -> Tensor:
        """Natural log of each member's mean loss over the whole data set, (M,) float64."""
        return self._source.log_loss(self._x, self._y)

    def effective_rates(self) -> list[float]:
        """η of each member's last step, as if it had been −η ∇L (waits for the device)."""
        rates = self._rates_of((self.count - 1).clamp(min=0)) * self._stretch
        if self._enlarged:
            rates = torch.exp(rates.log() - self._reference)
        return rates.tolist()

    def log_rates(self) -> Tensor:
        """Log of the effective rate of each member's next step, (M,) float64; with ∇log L, of a loss like the last."""
        rates = self._rates_of(self.count) * self._stretch
        if self._units is not None:
            return rates.log()
        frame = self._rule.frame(self._rate_state)
        return rates.log() - (self._reference if frame is None else frame)

    def tensors(self, *, between_tries: bool = False) -> dict[str, Tensor]:
        """Every tensor that tells one moment of training from another, by name.

        ``between_tries`` what is kept to go back to is what there is, and left out.
        """
        return {
            "step": self.count,
            "watch.ceiling": self.watch.ceiling,
            "watch.step": self.watch.step,
            "watch.loss": self.watch.loss,
            **({"log_time": self._log_time} if self._sums_time else {}),
            **({"stretch": self._stretch} if self._direction.varies else {}),
            **({"ended": self.ended} if self._stop is not None and self.attempts is None else {}),
            **self._changing(),
            **({} if self._penalty is None else self._penalty.told()),
            **({} if self.attempts is None else self.attempts.tensors(between_tries=between_tries)),
        }

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what ``tensors`` gave, of a step of the same networks, data and recipes."""
        tensors = self.tensors()
        if self.attempts is not None:
            state = self.attempts.completed(state)
        put_back(state, tensors)
        if self.attempts is not None:
            self.attempts.begin_try(self.watch.out)

    def _changing(self) -> dict[str, Tensor]:
        """What a step changes of the members themselves."""
        return {
            **{f"weights.{name}": weight for name, weight in self.ensemble.weights.items()},
            **{f"buffers.{name}": buffer for name, buffer in self.ensemble.buffers.items()},
            **{f"moments.{name}": moment for name, moment in self._memory.items()},
        }

    @property
    def _rate_state(self) -> Mapping[str, Tensor]:
        return {} if self.attempts is None else self.attempts.state

    def _rates_of(self, count: Tensor) -> Tensor:
        return self._rule.rates(self._base, count, self._rate_state, self._horizon)

    def _may_descend_directly(self, recipe: Recipe, in_place: bool | None) -> bool:
        """Whether −η ∇L may be added to the weights where it is computed; ``in_place`` says so of the device."""
        if in_place is None:
            # A GPU's product adds to its target once, at the end. A CPU's adds block by block and rounds each
            # time, which shows where steps are a few units in the last place: there the gradient comes first.
            in_place = self.ensemble.device.type == "cuda"
        nothing_else = all(each is None for each in (self._units, recipe.penalty, recipe.adversary))
        return self._direction.plain and nothing_else and (in_place or not self.ensemble.trained)

    def _attempts(self) -> Attempts | None:
        if not self._rule.revocable:
            return None
        return Attempts(self._rule, self._base, self._horizon, self._changing(), stop=self._stop)

    def _loss_units(self, recipe: Recipe) -> LossUnits | None:
        if recipe.objective != "framed-loss":
            return None
        none_yet = torch.full_like(self._base, -math.inf)  # whatever the loss is, the first unit is above it
        return LossUnits(self._memory, none_yet, forgetting=self._direction.forgetting or 0.0)

    def _gradient_source(self, recipe: Recipe, largest: int) -> BatchGradients:
        log_below = math.inf if recipe.log_below is None else recipe.log_below
        return BatchGradients(
            self.ensemble,
            recipe.loss,
            largest=largest,
            frame=lambda: None if self.attempts is None else self._rule.frame(self.attempts.state),
            log_below=log_below if recipe.objective == "log-loss" else None,
            unit=None if self._units is None else self._units.following,
            label_axes=self._label_axes,
            penalty=self._penalty,
            adversary=recipe.adversary,
        )

    def _penalty_gradients(self, recipes: Sequence[Recipe]) -> PenaltyGradients | None:
        penalty = recipes[0].penalty
        if penalty is None:
            return None
        seeds = [recipe.seed for recipe in recipes]
        return PenaltyGradients(self.ensemble, penalty, seeds=seeds, count=self.count, x=self._samples)

    def _descend(self, x: Tensor, y: Tensor) -> None:
        """w ← w - η ∇L, added to the weights where it is computed: no gradient is written and read again."""
        logits, kept = self.ensemble.forward(x, own=y.dim() > self._label_axes)
        self.ensemble.backward(kept, self._steps_by_logits(logits, y), onto=self.ensemble.weights)

    def _downhill(self, logits: Tensor, y: Tensor) -> Tensor:
        """−η ∂L/∂logits of the members that take the step, 0 of others; who does is noted."""
        loss, slopes, reference = self._source.slopes(logits, y)
        running = self._look(loss, reference)
        self._sum_time(running)
        slopes = (slopes * -per_member(self._present_rates(), slopes)).to(logits)
        return slopes.where(per_member(running, slopes), 0.0)

    def _present_rates(self) -> Tensor:
        """The rates of this step, in the weights' precision."""
        if isinstance(self._rule, Constant):
            return self._rates
        return self._rates_of(self.count).to(self._rates)

    def _look(self, loss: Tensor, reference: Tensor | None) -> Tensor:
        """Which members take the step, (M,) bool, given their loss on the batch or its logarithm."""
        if reference is not None:
            self._reference.copy_(reference)
        if self.attempts is not None:
            return self.attempts.look(loss)
        loss = loss if reference is None else loss.exp().to(self._rates)
        running = self.watch.look(loss, self.count)
        return running if self._stop is None else running & (self.ended == NEVER)

    def _sum_time(self, running: Tensor) -> None:
        """Add this step's effective rate to t, in logs, where it is not the same in every step."""
        if self._sums_time:
            rates = (self._rates_of(self.count) * self._stretch).log()
            rates = rates - self._reference if self._enlarged else rates
            self._log_time.copy_(torch.logaddexp(self._log_time, rates).where(running, self._log_time))

    def _look_ahead(self, x: Tensor, y: Tensor, rows: Tensor | None, running: Tensor) -> None:
        """Where the direction wants the gradient of another place, take it there."""
        displacement = self._direction.ahead(self._gradients)
        if displacement is None:
            return
        with displaced(self.ensemble.weights, by=displacement):
            self._source.add(x, y, rows, onto=self._gradients)
        self._silence(running)

    def _silence(self, running: Tensor) -> None:
        """No gradient for members that do not run: NaN times a rate of 0 would still be NaN."""
        stopped = ~running
        for gradient in self._gradients.values():
            gradient.masked_fill_(per_member(stopped, gradient), 0.0)
