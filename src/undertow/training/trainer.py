"""Training many networks of one architecture as one batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from undertow.core.errors import InputError
from undertow.core.precision import deterministic_convolutions, matmul_precision
from undertow.core.stacked_members import StackedMembers
from undertow.training.batches_of_a_recipe import batches_for
from undertow.training.divergence import MemberState
from undertow.training.recipe import Recipe, shared_recipe
from undertow.training.span import SpanOfSamples
from undertow.training.stacking import stack_networks
from undertow.training.standing import Standing
from undertow.training.states import taken_out
from undertow.training.step import Step
from undertow.training.taken import StepTaken
from undertow.training.updates import Updates

__all__ = ["Trainer"]

_LOOK_EVERY = 256  # steps between two questions to the device whether a member diverged
_HOPE_EVERY = {"cpu": 1, "cuda": 32}  # and whether a try has become hopeless for all


class Trainer:
    """Trains M networks together, with the results each would have alone up to rounding.

    ``networks`` share an architecture and ``recipes`` everything but learning rate and seed; x (N, …) and
    y (N,) are put on ``device`` (by default where x is) once. The networks given are not changed. Where x and y are
    sequences, each network has the data set of its place; all are of one shape.

    Fully connected networks run on stacked weights with gradients written by hand, any other architecture
    through one module applied over them. Members that visit the samples in the same order share every batch. On a
    GPU the step is captured as a CUDA graph. A member whose loss becomes NaN, infinite or a million times
    what it was takes no further step and is reported by ``members()``; the others are not affected.

    With a rate rule that takes epochs back, every pass over the data is a try. ``step`` then counts all updates,
    also of tries that failed; each member has its own number of epochs and steps kept, and one that has finished
    waits for the others.

    >>> from undertow.models import Gaussian, mlp
    >>> x, y = torch.tensor([[1.0], [-1.0]]), torch.tensor([1.0, -1.0])
    >>> start = mlp(inputs=1, widths=[], outputs=1, init=Gaussian(0.0), generator=torch.Generator())
    >>> recipes = [Recipe(optimizer="gd", learning_rate=rate, epochs=1, loss="logistic") for rate in (1, 2)]
    >>> trainer = Trainer([start, start], x, y, recipes)
    >>> trainer.run_epoch()  # the gradient at 0 is -1/2
    >>> [trainer.network(i).output.weight.item() for i in range(2)], trainer.done
    ([0.5, 1.0], True)
    """

    def __init__(
        self,
        networks: Sequence[nn.Module],
        x: Tensor | Sequence[Tensor],
        y: Tensor | Sequence[Tensor],
        recipes: Sequence[Recipe],
        *,
        device: torch.device | str | None = None,
    ) -> None:
        if len(networks) != len(recipes):
            raise InputError(
                f"There are {len(networks)} networks and {len(recipes)} recipes: pass one for each."
            )
        recipe = self._recipe = shared_recipe(recipes)
        place = (x if isinstance(x, Tensor) else x[0]).device if device is None else torch.device(device)
        ensemble = self._whole = stack_networks(
            networks,
            frozen=recipe.frozen,
            dtype=recipe.torch_dtype,
            device=place,
            faster=recipe.compiled,
        )
        self._given, self._shown_at, self._span = x, 0, None
        if recipe.coordinates == "span":
            self._span = SpanOfSamples(ensemble, x)
            ensemble, x = self._span.inside, self._span.x
        with matmul_precision(recipe.matmul_precision):
            self._batches = batches_for(ensemble, x, y, recipes)
            self._step = Step(ensemble, recipes, self._batches)
        self.revocable = recipe.rate.revocable
        self._updates = Updates(self._step, self._batches, compile_picking=recipe.compiled)
        self._standing = Standing(self._step, recipes, steps_per_epoch=self._batches.per_epoch)
        self._looked_at = 0
        self.device = place
        self.step = 0
        self.spared = 0  # of these, steps of hopeless tries that were not made
        self.apart = self.revocable or recipe.stop_below is not None
        self._first_rates = self._step.effective_rates()
        self._settled: list[StepTaken | None] | None = None  # what became of a try that has just ended

    # Where training stands

    @property
    def epoch(self) -> int:
        """Epochs completed; where each member has its own count, by the slowest that goes on."""
        if self.revocable:
            return min(self._standing.unfinished(self.step), default=self._recipe.epochs)
        return self.step // self._batches.per_epoch

    def epochs(self) -> list[int]:
        """Epochs that each member has completed and kept."""
        return self._standing.epochs(self.step)

    def steps(self) -> list[int]:
        """Updates that each member has kept: those of a try under way do not count."""
        return self._standing.steps(self.step)

    def tries(self) -> list[int]:
        """How often each member has passed over the data, kept or not."""
        return self._standing.tries(self.step)

    @property
    def steps_per_epoch(self) -> int:
        """Updates in one pass over the data."""
        return self._batches.per_epoch

    @property
    def total_steps(self) -> int:
        """Updates that the recipe asks for, each of them kept."""
        return self._recipe.epochs * self._batches.per_epoch

    @property
    def done(self) -> bool:
        """Whether every member has finished or diverged."""
        if self.revocable:
            return not self._standing.unfinished(self.step)
        return self.step >= self.total_steps or self._standing.all_stopped  # asked in every step

    def finished(self) -> list[bool]:
        """Which members have made all their epochs, or come to the loss that training was to end at."""
        return self._standing.finished(self.step)

    @property
    def look_every(self) -> int:
        """Steps between two looks at the whole training set's loss: an epoch, or several where they are short."""
        return self._batches.per_epoch * -(-self._recipe.look_every // self._batches.per_epoch)

    def members(self) -> list[MemberState]:
        """Status, step and, where it diverged, the reason, for every member."""
        self._look()
        return [self._standing.member(index, self.step) for index in range(self._step.ensemble.size)]

    def running(self) -> list[bool]:
        """Which members have not diverged (waits for the device)."""
        self._look()
        return self._standing.running()

    def first_rates(self) -> list[float]:
        """The effective rate of each member's first step."""
        return self._first_rates

    def told(self) -> list[dict[str, float]]:
        """What each member's records say of its steps: see ``Standing.told``."""
        return self._standing.told(self.step, self.log_loss().tolist())

    def log_time(self) -> list[float]:
        """log t of each member, t = Σ η over the effective rates of the steps that it has kept."""
        return self._step.log_time().tolist()

    def taken(self) -> list[StepTaken | None]:
        """What became of each member's last update; None where it made none (waits for the device).

        Where epochs may be taken back, the last update of a try is told once that is decided: with
        ``accepted=False`` where the member is back at the beginning of it.
        """
        if self._settled is not None:
            return self._settled
        moved, rates = self.running(), self._step.effective_rates()
        if self._step.attempts is not None:
            still = (~self._step.attempts.lost & ~self._step.attempts.waiting).tolist()
            moved = [runs and goes_on for runs, goes_on in zip(moved, still, strict=True)]
        else:
            both = zip(moved, self.steps(), strict=True)
            moved = [runs and steps == self.step for runs, steps in both]
        return [StepTaken(rate) if goes else None for rate, goes in zip(rates, moved, strict=True)]

    def data(self, index: int) -> tuple[Tensor, Tensor]:
        """Samples and labels that a member is trained on, on the device, in the coordinates that they were given in."""
        x, y = self._batches.of(index)
        if self._span is None:
            return x, y
        return (self._given if isinstance(self._given, Tensor) else self._given[index]).to(x), y

    def network(self, index: int, *, shared: bool = False) -> nn.Module:
        """One member in eval mode, with its present weights or those it diverged with.

        A copy; with ``shared`` it is on the weights themselves and changes with every step, or where steps are taken in
        other coordinates with every ``show``: to be looked at only.
        """
        self.show()
        return self._whole.network(index, shared=shared)

    def state_of(self, index: int) -> dict[str, Tensor]:
        """A copy of one member's weights by name, as ``network(index).state_dict()`` has them."""
        self.show()
        return self._whole.state(index)

    def together(self, one: Callable[[int], nn.Module] | None = None) -> StackedMembers:
        """All members as they were last shown, for measures that read them at once; ``one`` of them, shared."""
        whole, room = self._whole, self._step.samples_at_once
        one = partial(self.network, shared=True) if one is None else one
        logits = partial(whole.logits_in_parts, largest=room)
        return StackedMembers(whole.size, one, whole.weights, logits, self.log_loss)

    def show(self) -> None:
        """Bring networks that were given out as ``shared`` to where their members are."""
        if self._span is not None and self._shown_at != self.step:
            self._span.show()
            self._shown_at = self.step

    def log_loss(self) -> Tensor:
        """Natural log of each member's mean loss over the whole training set: (M,) float64 on the CPU.

        Exact far below the smallest float. For a member that diverged, with the weights that it stopped at.
        """
        attempts = self._step.attempts
        if attempts is not None and self.step % self._batches.per_epoch == 0:
            return attempts.log_loss.cpu().clone()  # of the last epoch kept, where every member stands
        with matmul_precision(self._recipe.matmul_precision):
            return self._step.log_loss().cpu()

    # Going on

    def run_epoch(self) -> None:
        """Every running member to the end of the present epoch."""
        self.advance(self._batches.per_epoch - self.step % self._batches.per_epoch)

    def advance(self, steps: int) -> None:
        """Every running member ``steps`` updates further, or to the end of training."""
        if steps < 0:
            raise InputError(f"steps = {steps} would go back: restore(state) does that.")
        if self.done:
            return
        last = self.step + steps if self.revocable else min(self.step + steps, self.total_steps)
        precision = matmul_precision(self._recipe.matmul_precision)
        with torch.no_grad(), precision, deterministic_convolutions():
            while self.step < last and not self.done:
                self._updates.make(self.step, self._standing.turns())
                self.step += 1
                if self.revocable:
                    self._end_of_try()
                elif self.apart and self.step % self.look_every == 0:
                    self._step.look_for_end()
                    self._look()
                elif self.step - self._looked_at >= _LOOK_EVERY:
                    self._look()
            if self.step == self.total_steps and not self.revocable:
                self._step.check()
                self._look()

    def _end_of_try(self) -> None:
        """Where a pass over the data is complete, or hopeless for every member, decide who keeps it."""
        attempts = self._step.attempts
        assert attempts is not None, "only where epochs may be taken back"
        self._settled = None
        every = _HOPE_EVERY.get(self.device.type, 1)
        if self.step % self._batches.per_epoch:
            if self.step % every or not bool(attempts.over.all()):
                return
            left = -self.step % self._batches.per_epoch
            self.step, self.spared = self.step + left, self.spared + left
            self._step.count.fill_(self.step)
        rates = self._step.effective_rates()
        trying = (~self._step.watch.out & ~attempts.waiting).tolist()
        kept = self._step.settle().tolist()
        self._settled = [
            StepTaken(rate, accepted) if tried else None
            for rate, accepted, tried in zip(rates, kept, trying, strict=True)
        ]
        self._look()

    def wait(self) -> None:
        """Until the device has done what it was asked to."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def state(self) -> dict[str, Tensor]:
        """Everything needed to go on bit for bit, as CPU tensors of their own."""
        return taken_out(self._step.tensors(between_tries=self.step % self._batches.per_epoch == 0))

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from ``state``, which a trainer of the same networks, data and recipes gave."""
        self._step.restore(state)
        self.step = int(self._step.count)
        self._settled, self._shown_at = None, -1
        self._look()

    def _look(self) -> None:
        """Ask the device who diverged and who has kept how much, which waits for it."""
        self._looked_at = self.step
        self._standing.look()
