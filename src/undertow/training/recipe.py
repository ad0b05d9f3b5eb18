"""How one network is trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, Union

import torch
from pydantic import (
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_serializer,
    field_validator,
    model_validator,
)

from undertow.core.errors import ConfigError
from undertow.core.losses import Loss
from undertow.core.precision import MatmulPrecision
from undertow.core.sections import (
    Count,
    Fraction,
    NonNegative,
    Positive,
    Real,
    Seed,
    Switch,
    Text,
    WithLaterOptions,
)
from undertow.core.validation import refusal
from undertow.training.adversarial import AdversarialTraining
from undertow.training.directions import DIRECTIONS, Direction, GradientDescent, HeavyBall
from undertow.training.penalties import PENALTIES, Penalty
from undertow.training.rates import RATE_RULES, Constant, RateRule

__all__ = ["MatmulPrecision", "Objective", "Precision", "Recipe", "TrainingSection", "shared_recipe"]

Precision = Literal["float32", "float64"]
Objective = Literal["loss", "log-loss", "framed-loss"]

if TYPE_CHECKING:
    DirectionSection = Direction
    RateSection = RateRule
    PenaltySection = Penalty
else:
    DirectionSection = Annotated[Union[DIRECTIONS], Field(discriminator="name")]  # noqa: UP007
    RateSection = Annotated[Union[RATE_RULES], Field(discriminator="name")]  # noqa: UP007
    PenaltySection = Annotated[Union[PENALTIES], Field(discriminator="name")]  # noqa: UP007

_OWN = ("learning_rate", "seed")  # what may differ between networks that train together
_WORDS = (
    "gd",
    "sgd",
    "adam",
    "constant",
)  # written as one word where all of their settings are the usual ones


class TrainingSection(WithLaterOptions):
    """The settings of training, as a configuration has them.

    A step is: gradients of the loss (or its logarithm) on a batch → direction → rate → kept or taken back.

    Args:
        optimizer: A direction with its settings (``undertow.training.directions``), or its name: ``gd`` uses the
            whole data set in every step, so ``batch_size`` stays None; all others take batches, or all of the
            data without ``batch_size``. In TOML a name, or a table: ``{name = "adamw", weight_decay = 0.1}``.
        learning_rate: η, or α where the rate is loss-based.
        epochs: Passes over the data; with a rule that takes epochs back, those that are kept.
        batch_size: Samples in a step; the last batch of an epoch may be smaller.
        shuffle: Whether the order is drawn from ``(seed, epoch)`` (and the number of the try, where an epoch is
            done again), or is that of the data.
        loss: What is minimised, a mean over the samples.
        dtype: Precision of weights and activations; log-losses are in float64.
        momentum: μ of ``gd`` and ``sgd``; the same as ``optimizer=HeavyBall(momentum=μ)``.
        frozen: Names of the parameters that keep their initial values.
        matmul_precision: ``"tf32"`` lets a GPU round the factors of float32 products and convolutions to 10 bits.
        rate: How the length of a step is decided (``undertow.training.rates``), or the rule's name.
        objective: Whether a step follows ∇L or ∇log L of its batch. ``"framed-loss"`` is ∇L, for optimisers that do not
            ask in which unit gradients are (Adam, Signum, Muon and others): these, and what is remembered of them, are
            kept in units of the loss, and nothing underflows (``undertow.training.loss_units``).
        log_below: Steps follow ∇log L only where log L of the batch is below this, and ∇L elsewhere.
        label_noise: Standard deviation σ of Gaussian noise on every label, drawn anew in every epoch; for the square
            loss. Losses that are recorded, and ``stop_below``, are those of the labels without it.
        stop_below: Training ends, for each network by itself, once log₁₀ of the mean loss over all of the training set
            is at most this: -20 is a loss of 10^-20. It is looked at after every epoch that is kept, and where steps
            are few in an epoch, after every ``look_every`` steps or so. ``epochs`` stays the most that are made.
        look_every: Steps, at least, between two such looks, each of which passes over the training set. Where a step
            lowers the loss by much, eight of them go past ``stop_below`` by much: 1 stops at the first that is there.
        batch_statistics_epochs: Of a network given in train mode, the first epochs whose steps normalise by their batch
            and move BatchNorm's running statistics; later steps take those as they then are. That is what a loop does
            which calls ``eval()`` to measure after an epoch and never ``train()`` again. None: all epochs.
        compiled: Whether steps go through ``torch.compile``: faster for small convolutional networks on a GPU, after
            half a minute of compiling, and equal up to rounding. Where there is no compiler it changes nothing.
        coordinates: In ``"span"`` the first of fully connected layers is trained in the span of the samples, which
            gradient descent never leaves: with n samples of d > n numbers in d/n of the time, equal up to rounding
            (``undertow.training.span``).
        penalty: What is added to the loss (``undertow.training.penalties``); losses are told without it. In TOML a
            table: ``[training.penalty]`` with ``name = "jacobian"`` and ``weight = 0.1``.
        adversary: Steps are taken on the worst samples nearby (``undertow.training.adversarial``); losses over the
            whole set, where training is to end and records tell, are of the samples as they are.
    """

    LATER = (
        "rate",
        "objective",
        "log_below",
        "label_noise",
        "stop_below",
        "look_every",
        "batch_statistics_epochs",
        "compiled",
        "coordinates",
        "penalty",
        "adversary",
    )

    optimizer: DirectionSection = GradientDescent(name="gd")
    learning_rate: Positive = 0.01
    epochs: Annotated[int, Field(strict=True, ge=0, le=10**9)] = 100
    batch_size: Count | None = None
    shuffle: Switch = True
    loss: Loss = "cross-entropy"
    dtype: Precision = "float32"
    momentum: Fraction = 0.0
    frozen: tuple[Text, ...] = ()
    matmul_precision: MatmulPrecision = "float32"
    rate: RateSection = Constant()
    objective: Objective = "loss"
    log_below: Real | None = None
    label_noise: NonNegative = 0.0
    stop_below: Annotated[float, Field(strict=True, ge=-1e6, le=1e3)] | None = None
    look_every: Count = 8
    batch_statistics_epochs: Count | None = None
    compiled: Switch = False
    coordinates: Literal["inputs", "span"] = "inputs"
    penalty: PenaltySection | None = None
    adversary: AdversarialTraining | None = None

    @field_validator("optimizer", "rate", mode="wrap")
    @classmethod
    def _named(cls, value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        """By a name alone, by a table; a direction or a rule as it is, also one of the caller's own."""
        if isinstance(value, Direction | RateRule):
            return value
        return handler({"name": value} if isinstance(value, str) else value)

    @field_validator("rate", mode="before")
    @classmethod
    def _without_a_rule(cls, value: Any) -> Any:
        return "constant" if value is None else value

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        name = self.optimizer.name
        if name == "gd" and self.batch_size is not None:
            raise ValueError("gd takes all of the data: leave batch_size out, or choose the optimizer sgd")
        if self.momentum and name not in ("gd", "sgd"):
            raise ValueError(
                f"{name} has its own momentum, or none: leave momentum out, or choose the optimizer sgd"
            )
        if self.objective == "framed-loss" and self.direction.forgetting is None:
            raise ValueError(
                f"steps of {self.direction.name} are as long as the gradient, whatever its unit: leave objective out, "
                "or write objective = 'log-loss'"
            )
        if self.objective != "loss" and self.rate.revocable:
            raise ValueError(
                f"the rate {self.rate.name} divides the loss by its own frame: leave objective out"
            )
        if self.direction.varies and self.rate.revocable:
            raise ValueError(
                f"{name} and the rate {self.rate.name} both decide how long steps are: choose one"
            )
        if self.batch_statistics_epochs is not None and self.rate.revocable:
            raise ValueError(
                f"the rate {self.rate.name} counts epochs for each network: leave batch_statistics_epochs out"
            )
        if self.log_below is not None and self.objective != "log-loss":
            raise ValueError(
                "log_below says where steps follow the log-loss: write objective = 'log-loss' too"
            )
        if self.label_noise and (self.loss != "square" or not self.shuffle):
            raise ValueError(
                "label_noise is drawn with the order, for the square loss: choose it, and shuffle"
            )
        if (self.penalty or self.adversary) and (self.objective != "loss" or self.rate.revocable):
            raise ValueError(
                "a penalty is added to the loss itself, and an adversary raises it: leave out objective "
                "and the loss-based rate"
            )
        if self.coordinates == "span" and not (
            self.direction.plain and not self.penalty and not self.adversary
        ):
            raise ValueError(
                "coordinates = 'span' is for steps along gradients of the loss alone, gd and sgd without momentum: "
                "leave it out"
            )
        return self

    @field_serializer("optimizer", "rate")
    def _as_written(self, section: Direction | RateRule) -> str | dict[str, Any]:
        """As a word where all settings are the usual ones, which is how the first trials were written."""
        plain = section.name in _WORDS and section == type(section)(name=section.name)
        return section.name if plain else section.model_dump(mode="json")

    @property
    def direction(self) -> Direction:
        """Which way a step goes."""
        return HeavyBall(momentum=self.momentum) if self.momentum else self.optimizer

    @property
    def torch_dtype(self) -> torch.dtype:
        return torch.float64 if self.dtype == "float64" else torch.float32

    @property
    def rounding(self) -> float:
        """The relative rounding of factors in products, of those that a GPU makes where it may be the larger one."""
        coarse = self.matmul_precision == "tf32" and self.dtype == "float32"
        return 2.0**-10 if coarse else torch.finfo(self.torch_dtype).eps

    def recipe(self, *, seed: int) -> Recipe:
        """The same settings with the seed of the order."""
        own = {name: getattr(self, name) for name in TrainingSection.model_fields}
        return Recipe.model_construct(**own, seed=seed)  # validated already


class Recipe(TrainingSection):
    """All that one training run takes: the settings of ``TrainingSection``, and the ``seed`` of the samples' order.

    >>> Recipe(optimizer="gd", learning_rate=0.1, epochs=3, loss="logistics")
    Traceback (most recent call last):
    undertow.core.errors.ConfigError: loss = 'logistics' is not known; did you mean 'logistic'?
    """

    seed: Seed = 0

    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except ValidationError as error:
            raise refusal(type(self), error, settings) from None


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
        for name in (each for each in Recipe.model_fields if each not in _OWN):
            ours: Any = getattr(first, name)
            theirs: Any = getattr(recipe, name)
            if ours != theirs:
                raise ConfigError(
                    f"Networks that train together share {name}; "
                    f"member 0 has {ours!r}, member {index} has {theirs!r}."
                )
    return first
