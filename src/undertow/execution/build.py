"""What a trial's configuration describes: its sections build it, each with a stream of the trial's seed."""

from __future__ import annotations

import torch
from torch import nn

from undertow.config.trial import TrialConfig
from undertow.core.streams import stream
from undertow.data.data_section import DataSection, Split
from undertow.data.dataset import Dataset
from undertow.training import Recipe

__all__ = ["build_data", "build_network", "build_points", "build_recipe", "seed_of_data"]


def build_data(data: DataSection) -> Dataset:
    """The training data, every input as one row."""
    return data.build()


def seed_of_data(trial: TrialConfig) -> int | None:
    """The seed that the trial's data are drawn with; None where none are drawn."""
    return getattr(trial.data, "seed", None)


def build_points(trial: TrialConfig, dataset: Dataset, split: Split | None = None) -> Dataset:
    """What the trial is measured on: the points trained on, or another split of the same data."""
    return trial.data.points(dataset, split=split or trial.probe.split, limit=trial.probe.limit)


def build_network(trial: TrialConfig, dataset: Dataset) -> nn.Module:
    """The network before training, drawn from the trial's seed; one output for losses on one logit."""
    generator = torch.Generator().manual_seed(stream(trial.seed, "weights"))
    training = trial.training
    return trial.model.build(dataset, loss=training.loss, dtype=training.torch_dtype, generator=generator)


def build_recipe(trial: TrialConfig) -> Recipe:
    """How the trial's network is trained; the order of the data follows from the trial's seed."""
    return trial.training.recipe(seed=stream(trial.seed, "order"))
