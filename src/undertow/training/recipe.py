"""How one network is trained."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import torch

from undertow.errors import ConfigError, nearest
from undertow.losses import Loss
from undertow.precision import MatmulPrecision

__all__ = ["MatmulPrecision", "Optimizer", "Precision", "Recipe", "shared_recipe"]

Optimizer = Literal["gd", "sgd", "adam"]
Precision = Literal["float32", "float64"]

_OWN = ("learning_rate", "seed")  # what may differ between networks that train together


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Optimiser, step, loss and order of the data; everything a training run takes from its configuration.

    ``gd`` uses the whole data set in every step, so ``batch_size`` stays None. ``sgd`` and ``adam`` take
    batches in an order drawn from ``(seed, epoch)``, or in the order of the data with ``shuffle=False``; the
    last batch of an epoch may be smaller. Adam has β = (0.9, 0.999) and ε = 1e-8. ``frozen`` names the
    parameters that keep their initial values. ``matmul_precision="tf32"`` lets a GPU round the factors of
    float32 products and convolutions to 10 bits; it changes results and is therefore part of the recipe.

    >>> Recipe(optimizer="gd", learning_rate=0.1, epochs=3, loss="logistics")
    Traceback (most recent call last):
    undertow.errors.ConfigError: loss = 'logistics' is unknown: did you mean 'logistic'?
    """

    optimizer: Optimizer
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

    def __post_init__(self) -> None:
        for name, kind in {
            "optimizer": Optimizer,
            "loss": Loss,
            "dtype": Precision,
            "matmul_precision": MatmulPrecision,
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
        if self.optimizer == "gd" and self.batch_size is not None:
            raise ConfigError(
                f"optimizer 'gd' takes the whole data set, and batch_size = {self.batch_size} is set: "
                "leave batch_size out, or use optimizer 'sgd'."
            )
        if self.optimizer == "adam" and self.momentum:
            raise ConfigError(
                f"Adam has its own momentum (β₁ = 0.9): leave momentum = {self.momentum:g} out."
            )

    def _require(self, holds: bool, name: str, wanted: str) -> None:
        if not holds:
            raise ConfigError(f"{name} = {getattr(self, name)!r} is not {wanted}.")

    @property
    def torch_dtype(self) -> torch.dtype:
        return torch.float64 if self.dtype == "float64" else torch.float32


def shared_recipe(recipes: Sequence[Recipe]) -> Recipe:
    """The first recipe, once all agree on everything but learning rate and seed.

    >>> one = Recipe(optimizer="gd", learning_rate=0.1, epochs=3, loss="bce")
    >>> two = Recipe(optimizer="gd", learning_rate=0.2, epochs=4, loss="bce")
    >>> shared_recipe([one, two])
    Traceback (most recent call last):
    undertow.errors.ConfigError: Networks that train together share epochs; member 0 has 3, member 1 has 4.
    """
    if not recipes:
        raise ConfigError("There is nothing to train: pass at least one network with its recipe.")
    first = recipes[0]
    for index, recipe in enumerate(recipes):
        for name in (field.name for field in fields(Recipe) if field.name not in _OWN):
            ours: Any = getattr(first, name)
            theirs: Any = getattr(recipe, name)
            if ours != theirs:
                raise ConfigError(
                    f"Networks that train together share {name}; "
                    f"member 0 has {ours!r}, member {index} has {theirs!r}."
                )
    return first
