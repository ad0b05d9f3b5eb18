"""Training many networks of one architecture as one batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from undertow.errors import InputError, StoreError
from undertow.losses import prepare_labels
from undertow.precision import deterministic_convolutions, matmul_precision
from undertow.training.batches import Batches
from undertow.training.capture import capture
from undertow.training.divergence import MemberState
from undertow.training.ensemble import Ensemble
from undertow.training.mapped import MappedNetworks
from undertow.training.recipe import Recipe, shared_recipe
from undertow.training.stacked import StackedMLP, dense_layers
from undertow.training.step import Step

__all__ = ["Trainer"]

_LOOK_EVERY = 256  # steps between two questions to the device whether a member diverged


class Trainer:
    """Trains M networks together, with the results each would have alone up to rounding.

    ``networks`` share an architecture and ``recipes`` everything but learning rate and seed; x (N, …) and
    y (N,) are put on ``device`` (by default where x is) once. The networks given are not changed.

    Fully connected networks run on stacked weights with gradients written by hand, any other architecture
    through one module applied over them. Members that visit the samples in the same order share every batch. On a
    GPU the step is captured as a CUDA graph. A member whose loss becomes NaN, infinite or a million times
    what it was takes no further step and is reported by ``members()``; the others are not affected.

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
        x: Tensor,
        y: Tensor,
        recipes: Sequence[Recipe],
        *,
        device: torch.device | str | None = None,
    ) -> None:
        if len(networks) != len(recipes):
            raise InputError(
                f"There are {len(networks)} networks and {len(recipes)} recipes: pass one for each."
            )
        if x.dim() < 2 or x.shape[0] != y.shape[0]:
            raise InputError(
                f"x has shape {tuple(x.shape)}, y {tuple(y.shape)}: pass samples (N, …), labels (N,)."
            )
        recipe = self._recipe = shared_recipe(recipes)
        place = x.device if device is None else torch.device(device)
        ensemble = _stack(networks, recipe, place)
        with matmul_precision(recipe.matmul_precision):
            x = x.detach().to(device=place, dtype=recipe.torch_dtype)
            outputs = ensemble.logits(x[:1]).shape[-1]
            y = prepare_labels(y.detach(), loss=recipe.loss, outputs=outputs, dtype=recipe.torch_dtype).to(
                place
            )
            seeds = [r.seed for r in recipes] if recipe.shuffle else None
            self._batches = Batches(x, y, size=recipe.batch_size, seeds=seeds)
            self._step = Step(ensemble, recipes, self._batches)
        self._replay: Callable[[], None] | None = None
        self._replay_batch = (x, y)
        self._may_capture = place.type == "cuda"
        self._diverged = [False] * len(networks)
        self._looked_at = 0
        self.device = place
        self.step = 0

    # Where training stands

    @property
    def epoch(self) -> int:
        """Epochs completed."""
        return self.step // self._batches.per_epoch

    @property
    def steps_per_epoch(self) -> int:
        """Updates in one pass over the data."""
        return self._batches.per_epoch

    @property
    def total_steps(self) -> int:
        """Updates that the recipe asks for."""
        return self._recipe.epochs * self._batches.per_epoch

    @property
    def done(self) -> bool:
        """Whether every member has finished or diverged."""
        return self.step >= self.total_steps or all(self._diverged)

    def members(self) -> list[MemberState]:
        """Status, step and, where it diverged, the reason, for every member."""
        self._look()
        others = MemberState("finished" if self.step >= self.total_steps else "running", self.step)
        rates = self._step.rates.tolist()
        return [
            self._step.watch.state(index, learning_rate=rates[index]) if diverged else others
            for index, diverged in enumerate(self._diverged)
        ]

    def running(self) -> list[bool]:
        """Which members have not diverged (waits for the device)."""
        self._look()
        return [not diverged for diverged in self._diverged]

    @property
    def data(self) -> tuple[Tensor, Tensor]:
        """Samples and labels as they are trained on, on the device."""
        return self._batches.x, self._batches.y

    def network(self, index: int, *, shared: bool = False) -> nn.Module:
        """One member in eval mode, with its present weights or those it diverged with.

        A copy; with ``shared`` it is on the weights themselves and changes with every step: to be looked at only.
        """
        return self._step.ensemble.network(index, shared=shared)

    def log_loss(self) -> Tensor:
        """Natural log of each member's mean loss over the whole training set: (M,) float64 on the CPU.

        Exact far below the smallest float. For a member that diverged, with the weights that it stopped at.
        """
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
        last = min(self.step + steps, self.total_steps)
        precision = matmul_precision(self._recipe.matmul_precision)
        with torch.no_grad(), precision, deterministic_convolutions():
            while self.step < last and not self.done:
                self._update()
                self.step += 1
                if self.step - self._looked_at >= _LOOK_EVERY:
                    self._look()
            if self.step == self.total_steps:
                self._step.check()
                self._look()

    def wait(self) -> None:
        """Until the device has done what it was asked to."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def state(self) -> dict[str, Tensor]:
        """Everything needed to go on bit for bit, as CPU tensors of their own."""
        return {name: tensor.detach().cpu().clone() for name, tensor in self._step.tensors().items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from ``state``, which a trainer of the same networks, data and recipes gave."""
        tensors = self._step.tensors()
        ours = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()}
        theirs = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in state.items()}
        if ours != theirs:
            name = next(name for name in sorted({*ours, *theirs}) if ours.get(name) != theirs.get(name))
            raise StoreError(
                f"This state is of another training run: {name!r} is {theirs.get(name, 'missing')} in it and "
                f"{ours.get(name, 'missing')} here. Restore it with the networks and recipes that made it."
            )
        for name, tensor in tensors.items():
            tensor.copy_(state[name])
        self.step = int(self._step.count)
        self._look()

    def _update(self) -> None:
        full = self._batches.full(self.step)
        if self._may_capture and full:
            self._capture()
        if self._replay is None or not full:
            self._step.take(*self._batches.at(self.step))
            return
        if not self._batches.whole:
            for place, tensor in zip(self._replay_batch, self._batches.at(self.step), strict=True):
                place.copy_(tensor)
        self._replay()

    def _capture(self) -> None:
        """Capture the step on a full batch, which is copied to where the graph reads it."""
        self._may_capture = False
        if not self._batches.whole:
            x, y = self._batches.at(self.step)
            self._replay_batch = (x.clone(), y.clone())
        changed = list(self._step.tensors().values())
        self._replay = capture(lambda: self._step.take(*self._replay_batch), changed=changed)

    def _look(self) -> None:
        """Ask the device who diverged, which waits for it."""
        self._looked_at = self.step
        self._diverged = self._step.watch.diverged()


def _stack(networks: Sequence[nn.Module], recipe: Recipe, device: torch.device) -> Ensemble:
    layers = dense_layers(networks[0])
    if layers is None:
        return MappedNetworks(networks, frozen=recipe.frozen, dtype=recipe.torch_dtype, device=device)
    return StackedMLP(networks, layers, frozen=recipe.frozen, dtype=recipe.torch_dtype, device=device)
