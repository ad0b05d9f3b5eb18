"""How one network is trained."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

import torch

from undertow.core.errors import ConfigError, nearest
from undertow.core.losses import Loss
from undertow.core.precision import MatmulPrecision
from undertow.training.directions import Direction, HeavyBall, find_direction
from undertow.training.rates import Constant, RateRule

__all__ = ["MatmulPrecision", "Objective", "Precision", "Recipe", "shared_recipe"]

Precision = Literal["float32", "float64"]
Objective = Literal["loss", "log-loss"]

_OWN = ("learning_rate", "seed")  # what may differ between networks that train together


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything a training run takes from its configuration.

    A step is: gradients of the loss (or its logarithm) on a batch → direction → rate → kept or taken back.

    Args:
        optimizer: A direction with its settings (``undertow.training.directions``), or its name: ``gd`` uses the
            whole data set in every step, so ``batch_size`` stays None; all others take batches, or all of the
            data without ``batch_size``.
        learning_rate: η, or α where the rate is loss-based.
        epochs: Passes over the data; with a rule that takes epochs back, those that are kept.
        loss: What is minimised, a mean over the samples.
        batch_size: Samples in a step; the last batch of an epoch may be smaller.
        shuffle: Whether the order is drawn from ``(seed, epoch)`` (and the number of the try, where an epoch is
            done again), or is that of the data.
        momentum: μ of ``gd`` and ``sgd``; the same as ``optimizer=HeavyBall(momentum=μ)``.
        seed: Of the order.
        dtype: Precision of weights and activations; log-losses are in float64.
        frozen: Names of the parameters that keep their initial values.
        matmul_precision: ``"tf32"`` lets a GPU round the factors of float32 products and convolutions to 10 bits.
        rate: How the length of a step is decided (``undertow.training.rates``).
        objective: Whether a step follows ∇L or ∇log L of its batch.
        log_below: Steps follow ∇log L only where log L of the batch is below this, and ∇L elsewhere.

    >>> Recipe(optimizer="gd", learning_rate=0.1, epochs=3, loss="logistics")
    Traceback (most recent call last):
    undertow.core.errors.ConfigError: loss = 'logistics' is unknown: did you mean 'logistic'?
    """

    optimizer: str | Direction
    learning_rate: float
    epochs: int
    loss: Loss
    batch_size: int | None = None
    shuffle: bool = True
    momentum: float = 0.0
    seed: int = 0
    dtype: Precision = "float32"
    frozen: tuple[str, ...] = ()
    matmul_precision: MatmulPrecision = "float32"
    rate: RateRule = field(default_factory=Constant)
    objective: Objective = "loss"
    log_below: float | None = None

    def __post_init__(self) -> None:
        named = self._chosen.name
        for name, kind in {
            "loss": Loss,
            "dtype": Precision,
            "matmul_precision": MatmulPrecision,
            "objective": Objective,
        }.items():
            value = getattr(self, name)
            if value not in get_args(kind):
                raise ConfigError(f"{name} = {value!r} is unknown: {nearest(str(value), get_args(kind))}")
        self._require(0 < self.learning_rate < math.inf, "learning_rate", "a positive, finite step size")
        self._require(self.epochs >= 0, "epochs", "a number of epochs, 0 or more")
        self._require(
            self.batch_size is None or self.batch_size >= 1, "batch_size", "a positive number of samples"
        )
        self._require(0 <= self.momentum < 1, "momentum", "in [0, 1)")
        self._require(0 <= self.seed < 2**63, "seed", "a whole number from 0 to 2^63 - 1")
        self._require(
            isinstance(self.frozen, tuple), "frozen", "a tuple of names, such as ('output.weight',)"
        )
        if named == "gd" and self.batch_size is not None:
            raise ConfigError(
                f"optimizer 'gd' takes the whole data set, and batch_size = {self.batch_size} is set: "
                "leave batch_size out, or use optimizer 'sgd'."
            )
        if self.momentum and named not in ("gd", "sgd"):
            raise ConfigError(
                f"momentum = {self.momentum:g} belongs to gd and sgd: {named} has its own momentum, or none, "
                "among its settings."
            )
        if self.objective == "log-loss" and self.rate.revocable:
            raise ConfigError(
                f"The rate {self.rate.name!r} divides the loss by its own frame: leave objective = 'log-loss' out."
            )
        if self.log_below is not None and self.objective != "log-loss":
            raise ConfigError("log_below says where steps follow ∇log L: give objective = 'log-loss' too.")

    def _require(self, holds: bool, name: str, wanted: str) -> None:
        if not holds:
            raise ConfigError(f"{name} = {getattr(self, name)!r} is not {wanted}.")

    @property
    def direction(self) -> Direction:
        """Which way a step goes."""
        return HeavyBall(momentum=self.momentum) if self.momentum else self._chosen

    @property
    def _chosen(self) -> Direction:
        return find_direction(self.optimizer) if isinstance(self.optimizer, str) else self.optimizer

    @property
    def torch_dtype(self) -> torch.dtype:
        return torch.float64 if self.dtype == "float64" else torch.float32


def shared_recipe(recipes: Sequence[Recipe]) -> Recipe:
    """The first recipe, once all agree on everything but learning rate and seed.

    >>> one = Recipe(optimizer="gd", learning_rate=0.1, epochs=3, loss="bce")
    >>> two = Recipe(optimizer="gd", learning_rate=0.2, epochs=4, loss="bce")
    >>> shared_recipe([one, two])
    Traceback (most recent call last):
    undertow.core.errors.ConfigError: Networks that train together share epochs; member 0 has 3, member 1 has 4.
    """
    if not recipes:
        raise ConfigError("There is nothing to train: pass at least one network with its recipe.")
    first = recipes[0]
    for index, recipe in enumerate(recipes):
        for name in (each.name for each in fields(Recipe) if each.name not in _OWN):
            ours: Any = getattr(first, name)
            theirs: Any = getattr(recipe, name)
            if ours != theirs:
                raise ConfigError(
                    f"Networks that train together share {name}; "
                    f"member 0 has {ours!r}, member {index} has {theirs!r}."
                )
    return first
