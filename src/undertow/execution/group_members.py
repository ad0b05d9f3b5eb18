"""What the members of a group begin with: each trial's data, the points that it is measured on, and its network."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import nn

from undertow.config.trial import TrialConfig
from undertow.core.errors import ConfigError
from undertow.data.data_section import Split
from undertow.data.dataset import Dataset
from undertow.execution.build import build_data, build_network, build_points, seed_of_data
from undertow.execution.footprint import MEMORY_USED_UP, is_out_of_memory

__all__ = ["draw_networks", "load_members", "origin"]


def load_members(trials: Sequence[TrialConfig]) -> tuple[list[Dataset], dict[Split | None, list[Dataset]]]:
    """What each trial is trained on, and by split measured on: one object where trials share it."""
    splits = dict.fromkeys((trials[0].probe.split, *trials[0].probe.splits))
    found: dict[int | None, tuple[Dataset, dict[Split | None, Dataset]]] = {}
    for trial in trials:  # of one group, whose data differ in nothing but their seed
        if (seed := seed_of_data(trial)) not in found:
            dataset = _load(trial)
            found[seed] = dataset, {each: build_points(trial, dataset, each) for each in splits}
    both = [found[seed_of_data(trial)] for trial in trials]
    return [each for each, _ in both], {split: [each[split] for _, each in both] for split in splits}


def draw_networks(trials: Sequence[TrialConfig], datasets: Sequence[Dataset]) -> list[nn.Module]:
    """The networks before training. One generator takes a thread, and a hundred large networks most of a minute."""
    if torch.get_num_threads() == 1:
        return [build_network(*each) for each in zip(trials, datasets, strict=True)]
    with ThreadPoolExecutor(torch.get_num_threads()) as threads:
        return list(threads.map(build_network, trials, datasets))


def origin(dataset: Dataset) -> dict[str, Any]:
    """What a trial's provenance says of its data."""
    return {"name": dataset.name, "checksum": dataset.checksum, "samples": len(dataset)}


def _load(trial: TrialConfig) -> Dataset:
    """The data; where they alone are too much for the memory, fewer networks would not help."""
    try:
        return build_data(trial.data)
    except Exception as error:
        if is_out_of_memory(error):
            raise ConfigError(MEMORY_USED_UP) from error
        raise
