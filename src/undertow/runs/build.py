"""From a configuration to the things it describes: data, networks, recipes."""

from __future__ import annotations

import torch
from torch import nn

from undertow import models
from undertow.data.dataset import Dataset
from undertow.data.loading import load
from undertow.data.mixture import kou_mixture
from undertow.data.tasks import relabel
from undertow.models import Initialisation
from undertow.runs.config import (
    DataConfig,
    GaussianInit,
    HeInit,
    InitConfig,
    MixtureData,
    NamedData,
    ScaledInit,
    TrialConfig,
    TwoLayerModel,
)
from undertow.runs.seeds import stream
from undertow.training import Recipe

__all__ = ["build_data", "build_network", "build_points", "build_recipe"]

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
    if isinstance(config, NamedData):
        loaded = load(
            config.name, split=config.split, limit=config.limit, normalise=config.normalise, flatten=True
        )
        return relabel(loaded, config.task)
    return load(
        config.path,
        label=config.label,
        features=config.features,
        split=config.split,
        limit=config.limit,
        normalise=config.normalise,
        flatten=True,
    )


def build_points(trial: TrialConfig, dataset: Dataset) -> Dataset:
    """What the trial is measured on: the points trained on, or another split of the same data."""
    probe, data = trial.probe, trial.data
    if probe.split is None or isinstance(data, MixtureData):
        return dataset if probe.limit is None else dataset.take(torch.arange(min(probe.limit, len(dataset))))
    return build_data(data.model_copy(update={"split": probe.split, "limit": probe.limit}))


def build_network(trial: TrialConfig, dataset: Dataset) -> nn.Module:
    """The network before training, drawn from the trial's seed; one output for losses on one logit."""
    model = trial.model
    classes = 1 if trial.training.loss in _ONE_LOGIT else dataset.classes
    outputs = classes if model.outputs is None else model.outputs
    dtype = torch.float64 if trial.training.dtype == "float64" else torch.float32
    generator = torch.Generator().manual_seed(stream(trial.seed, "weights"))
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
    return Recipe(seed=stream(trial.seed, "order"), **trial.training.model_dump())
