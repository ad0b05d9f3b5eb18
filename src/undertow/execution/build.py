"""From a configuration to the things it describes: data, networks, recipes."""

from __future__ import annotations

import functools
import math

import torch
from torch import nn

from undertow import models
from undertow.config.trial import (
    AxisClustersData,
    ClustersData,
    DataConfig,
    FeaturesData,
    GaussianInit,
    GroupedModel,
    HeInit,
    InitConfig,
    LowerBoundData,
    MixtureData,
    NamedData,
    NearestModel,
    PreluModel,
    ResNetModel,
    SampledData,
    ScaledInit,
    SlabsData,
    TrialConfig,
    TwoLayerModel,
)
from undertow.core.errors import ConfigError
from undertow.core.streams import Stream, stream
from undertow.data.axis_clusters import axis_clusters
from undertow.data.clusters import by_cluster, d_binary
from undertow.data.dataset import Dataset
from undertow.data.loading import load
from undertow.data.lower_bound import lower_bound
from undertow.data.mixture import kou_mixture
from undertow.data.slabs import slabs
from undertow.data.tasks import relabel
from undertow.execution.frozen_features import features
from undertow.models import Initialisation
from undertow.theory.feature_averaging import grouped_network
from undertow.training import Constant, Recipe

__all__ = ["build_data", "build_network", "build_points", "build_recipe"]

_PINNED = ("digits", "mnist", "fashion-mnist", "cifar10")
_ONE_LOGIT = ("logistic", "exponential", "bce")


def build_data(config: DataConfig) -> Dataset:
    """The training data, every input as one row."""
    if isinstance(config, MixtureData):
        assert config.seed is not None, "a trial's configuration is resolved"
        return kou_mixture(
            n=config.n,
            d=config.d,
            sigma_p=config.sigma_p,
            sigma_e=config.sigma_e,
            seed=stream(config.seed, "data"),
        )
    if isinstance(config, ClustersData):
        return _clusters(config)
    if isinstance(config, AxisClustersData | SlabsData | LowerBoundData):
        return _sampled(config, n=config.n, named="data")
    if isinstance(config, FeaturesData):
        return features(config)
    if isinstance(config, NamedData):
        return _pinned(config) if config.name in _PINNED else _named(config)
    return load(
        config.path,
        label=config.label,
        features=config.features,
        split=config.split,
        limit=config.limit,
        normalise=config.normalise,
        flatten=True,
    )


def _named(config: NamedData) -> Dataset:
    loaded = load(
        config.name, split=config.split, limit=config.limit, normalise=config.normalise, flatten=True
    )
    return relabel(loaded, config.task)


# The groups of a sweep share their data. Only sets whose content is fixed by checksums are kept: a file of the
# user's may change between two calls.
_pinned = functools.lru_cache(maxsize=2)(_named)


def build_points(trial: TrialConfig, dataset: Dataset) -> Dataset:
    """What the trial is measured on: the points trained on, or another split of the same data."""
    probe, data = trial.probe, trial.data
    if isinstance(data, ClustersData) and probe.split == "test":
        return _clusters(data, around=dataset, n=probe.limit)
    if isinstance(data, AxisClustersData | SlabsData | LowerBoundData) and probe.split == "test":
        return _sampled(data, n=probe.limit or data.n, named="test")
    if probe.split is None or isinstance(data, MixtureData | ClustersData | SampledData):
        return dataset if probe.limit is None else dataset.take(torch.arange(min(probe.limit, len(dataset))))
    return build_data(data.model_copy(update={"split": probe.split, "limit": probe.limit}))


def build_network(trial: TrialConfig, dataset: Dataset) -> nn.Module:
    """The network before training, drawn from the trial's seed; one output for losses on one logit."""
    model = trial.model
    if isinstance(model, GroupedModel):
        return _grouped(model, trial, dataset)
    if isinstance(model, NearestModel):
        return _nearest(trial, dataset)
    dtype, generator = _dtype(trial), torch.Generator().manual_seed(stream(trial.seed, "weights"))
    if isinstance(model, PreluModel):
        return models.prelu_network(
            inputs=dataset.x[0].numel(),
            width=model.width,
            power=model.power,
            scale=model.scale,
            dtype=dtype,
            generator=generator,
        )
    classes = 1 if trial.training.loss in _ONE_LOGIT else dataset.classes
    outputs = classes if model.outputs is None else model.outputs
    if isinstance(model, ResNetModel):
        size = dataset.x[0].numel()
        if math.prod(model.image) != size:
            shape = "×".join(map(str, model.image))
            raise ConfigError(
                f"model.image is {shape}, but each input has {size} numbers: give the images' shape."
            )
        return models.resnet(
            image=model.image,
            channels=model.channels,
            blocks=model.blocks,
            outputs=outputs,
            dtype=dtype,
            generator=generator,
        ).eval()
    inputs, init = dataset.x[0].numel(), _initialisation(model.init)
    if isinstance(model, TwoLayerModel):
        return models.two_layer(
            inputs=inputs,
            width=model.width,
            outputs=outputs,
            activation=model.activation,
            init=init,
            bias=model.bias,
            head=model.head,
            dtype=dtype,
            generator=generator,
        )
    return models.mlp(
        inputs=inputs,
        widths=model.widths,
        outputs=outputs,
        activation=model.activation,
        init=init,
        dtype=dtype,
        generator=generator,
    )


def _clusters(config: ClustersData, *, around: Dataset | None = None, n: int | None = None) -> Dataset:
    """D_binary: the points trained on, or ``n`` new ones around the same centres."""
    assert config.seed is not None, "a trial's configuration is resolved"
    drawn = d_binary(
        n=config.n if n is None else n,
        d=config.d,
        k=config.k,
        balance=config.balance,
        sigma=config.sigma,
        noise=config.noise,
        cosine=config.cosine,
        centres=None if around is None else around.details["centres"],
        seed=stream(config.seed, "data" if around is None else "test"),
    )
    return by_cluster(drawn) if config.labels == "clusters" else drawn


def _sampled(config: AxisClustersData | SlabsData | LowerBoundData, *, n: int, named: Stream) -> Dataset:
    """n points of a distribution: those trained on, or with the stream "test" others."""
    assert config.seed is not None, "a trial's configuration is resolved"
    seed = stream(config.seed, named)
    if isinstance(config, SlabsData):
        return slabs(n=n, d=config.d, pieces=config.pieces, margin=config.margin, seed=seed)
    if isinstance(config, LowerBoundData):
        return lower_bound(
            n=n,
            corners=config.corners,
            d=config.d,
            margin=config.margin,
            seed=seed,
            corner_seed=stream(config.seed, "data"),
        )
    return axis_clusters(
        n=n,
        d=config.d,
        k=config.k,
        positive=config.positive,
        sigma=config.sigma,
        norm=config.norm,
        ambient=config.ambient,
        seed=seed,
    )


def _nearest(trial: TrialConfig, dataset: Dataset) -> nn.Module:
    """Anchors are the points trained on, each once."""
    rows = torch.unique(torch.cat([dataset.x.flatten(1), dataset.y[:, None].to(dataset.x)], dim=1), dim=0)
    return models.NearestNeighbour(rows[:, :-1].to(_dtype(trial)), rows[:, -1].long())


def _grouped(model: GroupedModel, trial: TrialConfig, dataset: Dataset) -> nn.Module:
    return grouped_network(
        dataset.details["centres"],
        dataset.details["cluster_sign"],
        group=model.group,
        threshold=model.threshold,
        dtype=_dtype(trial),
    )


def _dtype(trial: TrialConfig) -> torch.dtype:
    return build_recipe(trial).torch_dtype


def _initialisation(config: InitConfig) -> Initialisation:
    if isinstance(config, GaussianInit):
        return models.Gaussian(config.std, bias=config.bias)
    if isinstance(config, ScaledInit):
        return models.Scaled(config.q)
    if isinstance(config, HeInit):
        return models.He()
    return models.Gaussian.of_variance(config.variance)


def build_recipe(trial: TrialConfig) -> Recipe:
    """How the trial's network is trained; the order of the data follows from the trial's seed."""
    training = trial.training
    settings = {name: getattr(training, name) for name in type(training).model_fields if name != "rate"}
    return Recipe(seed=stream(trial.seed, "order"), rate=training.rate or Constant(), **settings)
