"""Configurations: frozen sections for data, model, training and probe, and the trial made of them.

A ``TrialConfig`` is *resolved*: every default is written out, the data's seed included, so that the hash
of its canonical JSON is the trial's identity. Unknown keys and bad values raise one ``ConfigError``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar, Union, get_args

from pydantic import (
    BaseModel,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from undertow.config.axes import axis_path, put
from undertow.core.canonical import digest, dumps
from undertow.core.config_errors import config_error, shown
from undertow.core.errors import ConfigError
from undertow.core.sections import (
    Count,
    Fraction,
    NonNegative,
    Positive,
    Real,
    Section,
    Seed,
    Text,
)
from undertow.measures import MEASURES, measure
from undertow.probe import Every, Schedule
from undertow.training.directions import DIRECTIONS, Direction, GradientDescent
from undertow.training.rates import RATE_RULES, RateRule

__all__ = [
    "DataConfig",
    "InitConfig",
    "ModelConfig",
    "ProbeConfig",
    "Section",
    "TrainingConfig",
    "TrialConfig",
    "settings",
    "validate",
]


class MixtureData(Section):
    """x = yμ + z with μ ~ N(0, σ_p² I_d), z ~ N(0, σ_e² I_d), y = ±1 (Kou, Chen & Gu 2023)."""

    name: Literal["kou-mixture"]
    n: Count = 10
    d: Count = 784
    sigma_p: NonNegative = 0.01
    sigma_e: NonNegative = 1.0
    seed: Seed | None = None


class ClustersData(Section):
    """x = μ_j + ξ around k centres of norm √d (Li, Pan, Lyu & Li 2025); see ``undertow.data.d_binary``.

    ``labels`` are the two classes, or the clusters themselves. The probe's split "test" draws ``probe.limit`` new
    points around the same centres.
    """

    name: Literal["d-binary"]
    n: Count = 1000
    d: Count = 3072
    k: Annotated[int, Field(strict=True, ge=2, le=10**6)] = 10
    balance: Positive = 1.0
    sigma: NonNegative = 1.0
    noise: Literal["gaussian", "rademacher", "uniform", "sparse"] = "gaussian"
    cosine: Annotated[float, Field(strict=True, gt=-1, lt=1)] = 0.0
    labels: Literal["binary", "clusters"] = "binary"
    seed: Seed | None = None


class SampledData(Section):
    """Data drawn from a distribution that needs no more than a seed; the probe's split "test" draws new points."""

    n: Count = 1000
    seed: Seed | None = None


class AxisClustersData(SampledData):
    """Clusters around the first k coordinate axes; see ``undertow.data.axis_clusters``."""

    name: Literal["axis-clusters"]
    d: Count = 1000
    k: Annotated[int, Field(strict=True, ge=2, le=10**6)] = 10
    positive: Count | None = None
    sigma: NonNegative = 1.0
    norm: Positive | None = None
    ambient: Count | None = None


class SlabsData(SampledData):
    """One linear coordinate and d − 1 of several slabs (Shah et al. 2020); see ``undertow.data.slabs``."""

    name: Literal["slabs"]
    d: Count = 50
    pieces: Count = 5
    margin: Positive = 0.1


class LowerBoundData(SampledData):
    """Vertices with arbitrary labels and a short linear coordinate; see ``undertow.data.lower_bound``."""

    name: Literal["lower-bound"]
    d: Count = 20
    corners: Count = 500
    margin: Positive = 0.05


class FeaturesData(Section):
    """What a residual network trained on all classes of ``of`` makes of its images; see `execution.frozen_features`.

    ``task`` and ``limit`` are those of the data that come out; ``centred`` takes the mean over all classes away. The
    network's training set has ``train`` samples.
    """

    name: Literal["features"]
    of: Literal["digits", "mnist", "fashion-mnist", "cifar10"]
    split: Literal["train", "test", "all"] = "train"
    limit: Count | None = None
    task: Literal["parity", "halves", "low-high", "first-last"] | None = None
    centred: Annotated[bool, Field(strict=True)] = False
    channels: tuple[Count, ...] = (8, 16, 32)
    blocks: Count = 1
    train: Count | None = None
    epochs: Count = 10
    batch_size: Count = 128
    learning_rate: Positive = 0.1
    seed: Seed | None = None


class NamedData(Section):
    """A data set that ``undertow data list`` knows; see ``undertow.data.load``."""

    name: Literal["digits", "mnist", "fashion-mnist", "cifar10", "autism", "dlbcl", "neuroblastoma"]
    split: Literal["train", "test", "all"] = "train"
    limit: Count | None = None
    normalise: Literal["unit-norm", "centred", "mnist", "standardised"] | None = None
    task: Literal["parity", "halves", "low-high", "first-last"] | None = None


class TableData(Section):
    """A CSV, Parquet or NPZ file with a column of classes."""

    name: Literal["table"]
    path: Text
    label: Text
    features: tuple[Text, ...] | None = None
    split: Literal["train", "test", "all"] = "train"
    limit: Count | None = None
    normalise: Literal["unit-norm", "standardised"] | None = None


DataConfig = Annotated[
    MixtureData
    | ClustersData
    | AxisClustersData
    | SlabsData
    | LowerBoundData
    | FeaturesData
    | NamedData
    | TableData,
    Field(discriminator="name"),
]


class GaussianInit(Section):
    """W_ij ~ N(0, std²), b_i ~ N(0, bias²)."""

    name: Literal["gaussian"]
    std: NonNegative
    bias: NonNegative = 0.0


class VarianceInit(Section):
    """W_ij ~ N(0, variance): the same numbers read as the stable-rank report's code reads them."""

    name: Literal["gaussian-variance"]
    variance: NonNegative


class ScaledInit(Section):
    """W_ij ~ N(0, 1/m^(1+2q)) (Wang, Min & Ruan 2024)."""

    name: Literal["scaled"]
    q: Real


class HeInit(Section):
    """W_ij ~ N(0, 2/inputs)."""

    name: Literal["he"] = "he"


InitConfig = Annotated[GaussianInit | VarianceInit | ScaledInit | HeInit, Field(discriminator="name")]
Activation = Literal["relu", "leaky-relu", "linear", "tanh", "gelu"]


class TwoLayerModel(Section):
    """A σ(W x + b) + c; see ``undertow.models.two_layer``."""

    name: Literal["two-layer"]
    width: Count
    activation: Activation = "relu"
    init: InitConfig = HeInit()
    bias: Literal["none", "hidden", "both"] = "none"
    head: Literal["signs", "gaussian", "balanced-signs", "mean", "class-means"] = "signs"
    outputs: Count | None = None


class MlpModel(Section):
    """A fully connected network of any depth; see ``undertow.models.mlp``."""

    name: Literal["mlp"]
    widths: tuple[Count, ...]
    activation: Activation = "relu"
    init: InitConfig = HeInit()
    outputs: Count | None = None


class GroupedModel(Section):
    """One neuron for each group of clusters, constructed from their centres and not drawn; data "d-binary" only.

    Groups of one are f_robust; see ``undertow.theory.feature_averaging.grouped_network``.
    """

    name: Literal["grouped-centres"]
    group: Count = 1
    threshold: Annotated[float, Field(strict=True, ge=0, lt=1)] = 0.2928932188134524


class PreluModel(Section):
    """Min & Vidal's pReLU network, both layers from a balanced start; see ``undertow.models.prelu_network``."""

    name: Literal["prelu"]
    width: Count
    power: Annotated[float, Field(strict=True, ge=1, le=100)] = 1.0
    scale: Positive = 1e-7


class NearestModel(Section):
    """The nearest-neighbour classifier of the training data, constructed and not drawn; train it for 0 epochs."""

    name: Literal["nearest"]


class ResNetModel(Section):
    """A small residual network with BatchNorm's statistics fixed at their start; see ``undertow.models.resnet``."""

    name: Literal["resnet"]
    image: tuple[Count, Count, Count]
    channels: tuple[Count, ...] = (16, 32, 64)
    blocks: Count = 1
    outputs: Count | None = None


ModelConfig = Annotated[
    TwoLayerModel | MlpModel | GroupedModel | PreluModel | NearestModel | ResNetModel,
    Field(discriminator="name"),
]


if TYPE_CHECKING:
    from undertow.measures.reading import Measure

    DirectionConfig = Direction
    RateConfig = RateRule
else:
    DirectionConfig = Annotated[Union[DIRECTIONS], Field(discriminator="name")]  # noqa: UP007
    RateConfig = Annotated[Union[RATE_RULES], Field(discriminator="name")]  # noqa: UP007

_WORDS = ("gd", "sgd", "adam")
"""Optimisers that are written as one word, with none of their settings, where these are the usual ones."""


class TrainingConfig(Section):
    """How a network is trained; see ``undertow.training.Recipe``. No ``batch_size`` means all of the data.

    ``optimizer`` is a name, or a table with a name and settings of its own: ``{name = "adamw", weight_decay = 0.1}``.
    ``rate`` is such a table too, and without one the learning rate stays the same.
    """

    # Without which the first trials were stored: written only where they are not these, and so no identity changes.
    UNWRITTEN: ClassVar[dict[str, Any]] = {"rate": None, "objective": "loss", "log_below": None}

    optimizer: DirectionConfig = GradientDescent(name="gd")
    learning_rate: Positive = 0.01
    epochs: Annotated[int, Field(strict=True, ge=0, le=10**9)] = 100
    batch_size: Count | None = None
    shuffle: Annotated[bool, Field(strict=True)] = True
    loss: Literal["logistic", "exponential", "bce", "cross-entropy"] = "cross-entropy"
    dtype: Literal["float32", "float64"] = "float32"
    momentum: Fraction = 0.0
    frozen: tuple[Text, ...] = ()
    matmul_precision: Literal["float32", "tf32"] = "float32"
    rate: RateConfig | None = None
    objective: Literal["loss", "log-loss"] = "loss"
    log_below: Real | None = None

    @field_validator("optimizer", "rate", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        name = self.optimizer.name
        if name == "gd" and self.batch_size is not None:
            raise ValueError("gd takes all of the data: leave batch_size out, or choose the optimizer sgd")
        if self.momentum and name not in ("gd", "sgd"):
            raise ValueError(
                f"{name} has its own momentum, or none: leave momentum out, or choose the optimizer sgd"
            )
        if self.objective == "log-loss" and self.rate is not None and self.rate.revocable:
            raise ValueError(
                f"the rate {self.rate.name} divides the loss by its own frame: leave objective out"
            )
        if self.log_below is not None and self.objective != "log-loss":
            raise ValueError(
                "log_below says where steps follow the log-loss: write objective = 'log-loss' too"
            )
        if self.rate is not None and self.rate.name == "constant":
            # Frozen for everyone else; here the object is still being made. One training, one identity.
            object.__setattr__(self, "rate", None)
        return self

    @model_serializer(mode="wrap")
    def _as_before(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """As the first trials were written, where training is what it was then."""
        written: dict[str, Any] = handler(self)
        if "optimizer" in written:
            word = self.optimizer.name in _WORDS and self.optimizer == type(self.optimizer)(
                name=self.optimizer.name
            )
            written["optimizer"] = self.optimizer.name if word else self.optimizer.model_dump(mode="json")
        if self.rate is not None and "rate" in written:
            written["rate"] = self.rate.model_dump(mode="json")
        return {
            name: value
            for name, value in written.items()
            if name not in self.UNWRITTEN or getattr(self, name) != self.UNWRITTEN[name]
        }


class ProbeConfig(Section):
    """What is measured, how often, and on which points.

    ``every`` is "epoch", "log", a number of steps, "ends" (before training and after it) or "end"; a measure may
    have its own: ``{"name": "robust-accuracy", "every": "end"}``. At the end of training everything is measured.
    A costly measure may have its own ``limit`` too: it then takes the first of the points only. In a grid
    ``{"name": …, "only": {"activation": "relu"}}`` is taken of the trials with these settings alone, which are named
    like the axes of a grid.
    The points are the first ``limit`` of the points trained on, or of another ``split`` of the same data, with
    the same normalisation and task. ``examples`` is for how many of them the closest adversarial example of
    the trained network is kept.
    """

    measures: tuple[dict[str, Any], ...] = ({"name": "loss", "kind": "auto"},)
    every: Literal["epoch", "log", "ends", "end"] | Count = "epoch"
    limit: Count | None = None
    split: Literal["train", "test", "all"] | None = None
    examples: Annotated[int, Field(strict=True, ge=0, le=64)] = 0

    @field_validator("measures", mode="before")
    @classmethod
    def _written_out(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple) or not value:
            raise ValueError(f"{shown(value)} is no list of measures; write e.g. ['stable-rank', 'loss']")
        return tuple(_written_out(each) for each in value)

    def build(self) -> tuple[tuple[Measure, Every], ...]:
        """The measures themselves, each with when it is taken."""
        return tuple(
            (
                measure(**{key: value for key, value in each.items() if key not in _OWN}),
                each.get("every", self.every),
            )
            for each in self.measures
        )


_OWN = ("every", "limit", "only")
"""What the probe decides about a measure, not the measure itself."""


def _written_out(given: Any) -> dict[str, Any]:
    """A measure with every option, from its name alone or from a table with a name.

    A schedule is written only where it was given: without one, the probe's own decides.
    """
    table = {"name": given} if isinstance(given, str) else given
    if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
        raise ValueError(f"{shown(given)} is not a measure; write one of {', '.join(MEASURES)}")
    for key, value in table.items():
        if key != "only" and not _are_plain(value if isinstance(value, list | tuple) else (value,)):
            raise ValueError(
                f"the measure's {key} = {shown(value)} must be a word, a number or a list of them"
            )
    options = dict(table)
    own = {key: options.pop(key) for key in _OWN if key in options}
    if "every" in own:
        Schedule(own["every"])  # an error where it is none
    if "limit" in own and (type(own["limit"]) is not int or own["limit"] < 1):
        raise ValueError(f"the measure's limit = {shown(own['limit'])} must be a number of points, 1 or more")
    if "only" in own:
        own["only"] = _settings_named(own["only"])
    made: Any = measure(**options)
    return {"name": table["name"], **made.model_dump(), **own}


def _settings_named(only: Any) -> dict[str, Any]:
    names, values = (list(only), list(only.values())) if isinstance(only, Mapping) else ([], [])
    if not names or not all(isinstance(name, str) for name in names) or not _are_plain(values):
        raise ValueError(
            f"the measure's only = {shown(only)} must be a table of settings, such as {{activation = 'relu'}}"
        )
    return dict(only)


def _are_plain(values: Iterable[Any]) -> bool:
    """Whether all are words or numbers."""
    return all(isinstance(each, str | int | float) and each == each for each in values)


class TrialConfig(Section):
    """One network on one data set, trained and measured: the whole of what decides its records."""

    data: DataConfig
    model: ModelConfig
    training: TrainingConfig = TrainingConfig()
    probe: ProbeConfig = ProbeConfig()
    seed: Seed = 0

    @model_validator(mode="after")
    def _resolve(self) -> Self:
        if (
            isinstance(self.data, MixtureData | ClustersData | SampledData | FeaturesData)
            and self.data.seed is None
        ):
            # Frozen for everyone else; here the object is still being made.
            object.__setattr__(self, "data", self.data.model_copy(update={"seed": self.seed}))
        if self.probe.split is not None and isinstance(self.data, MixtureData):
            raise ValueError(f"{self.data.name} has no splits: leave probe.split out")
        if self.probe.split == "all" and isinstance(self.data, ClustersData | SampledData):
            raise ValueError(
                f"{self.data.name} has the points trained on and new ones: write probe.split = 'test'"
            )
        if isinstance(self.model, GroupedModel) and (
            not isinstance(self.data, ClustersData) or self.training.loss == "cross-entropy"
        ):
            raise ValueError("grouped-centres is one logit of the data d-binary: choose the loss logistic")
        if isinstance(self.model, PreluModel) and self.training.loss == "cross-entropy":
            raise ValueError("prelu gives one logit: choose the loss exponential, logistic or bce")
        if isinstance(self.model, NearestModel) and self.training.loss != "cross-entropy":
            raise ValueError("nearest gives one score for each class: choose the loss cross-entropy")
        return self

    @model_validator(mode="after")
    def _keep_its_measures(self) -> Self:
        """Without the measures that are only for other trials; the rest no longer say for which they are."""
        measures = self.probe.measures
        if not any("only" in each for each in measures):
            return self
        document = self.model_dump(mode="json")
        kept = tuple(
            {key: value for key, value in each.items() if key != "only"}
            for each in measures
            if _is_for(document, each)
        )
        if not kept:
            raise ValueError("every measure is only for other trials: give one without only, such as 'loss'")
        object.__setattr__(self, "probe", self.probe.model_copy(update={"measures": kept}))
        return self

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON of the resolved configuration."""
        return digest(dumps(self.model_dump(mode="json")))

    @property
    def id(self) -> str:
        """The trial's name on disk: the first 16 digits of its digest."""
        return self.digest[:16]


def _is_for(trial: dict[str, Any], measure: dict[str, Any]) -> bool:
    """Whether a trial has the settings that a measure is only for; settings no trial can have are an error."""
    wanted, table = trial, f"{measure['name']}'s only"
    for axis, value in measure.get("only", {}).items():
        wanted = put(wanted, axis_path(axis, trial, of=table), value)
    if wanted != trial:
        try:
            validate(TrialConfig, put(wanted, ("probe", "measures"), ["loss"]))
        except ConfigError as error:
            raise ValueError(f"{table}: {error}") from None
    return wanted == trial


Config = TypeVar("Config", bound=Section)


def validate(kind: type[Config], document: Any) -> Config:
    """A configuration from plain data, or one ``ConfigError``.

    >>> validate(TrainingConfig, {"epohcs": 5})
    Traceback (most recent call last):
        ...
    undertow.core.errors.ConfigError: epohcs is not a setting; did you mean 'epochs'?
    """
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        raise config_error(error, lambda path: settings(kind, path, document), tags=_TAGS) from None
    except RecursionError:
        raise ConfigError("the configuration is nested too deeply to be one.") from None


def settings(kind: type[BaseModel], path: tuple[str, ...], document: Any = None) -> list[str]:
    """The valid names under ``path``; of several kinds of a section, those of the kind in ``document``."""
    for part in path:
        document = document.get(part) if isinstance(document, Mapping) else None
        field = kind.model_fields.get(part)
        kinds = _sections(field.annotation) if field else []
        named = document.get("name") if isinstance(document, Mapping) else None
        chosen = [each for each in kinds if named in _names(each)] or kinds
        if not chosen:
            return []
        kind = chosen[0]
    return list(kind.model_fields)


def _sections(annotation: Any) -> list[type[Section]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [section for part in get_args(annotation) for section in _sections(part)]


def _names(kind: type[BaseModel]) -> tuple[str, ...]:
    field = kind.model_fields.get("name")
    return get_args(field.annotation) if field else ()


_TAGS = frozenset(
    name
    for union in (DataConfig, InitConfig, ModelConfig, DirectionConfig, RateConfig)
    for section in _sections(union)
    for name in _names(section)
)
