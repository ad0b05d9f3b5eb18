"""Stores for the tests of reports: real trials published in the usual way, the larger ones with made-up records."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from undertow.config.grid import StudyConfig
from undertow.config.trial import TrialConfig, validate
from undertow.core.tensor_files import pack
from undertow.execution.engines.here import Here
from undertow.execution.sweep import sweep
from undertow.probe.records import Record
from undertow.store.provenance import environment
from undertow.store.record_files import encode_all
from undertow.store.store import Store
from undertow.store.stored_trial import FinishedTrial
from undertow.studies import find

_MOMENTS = range(0, 301, 20)


def falling(trial: TrialConfig) -> list[Record]:
    """The stable rank falls to a level that grows with the scale of the start, the loss to almost nothing.

    For leaky ReLU that level shrinks with it, so that the claims of the study do not all have the same verdict.
    """
    chance = random.Random(trial.id)
    model: Any = trial.model
    scale = getattr(model.init, "std", None) or model.init.variance
    order = -0.5 if model.activation == "leaky-relu" else 0.5
    level = 4 + order * (math.log10(scale) + 2) + chance.gauss(0, 0.02)
    records = []
    for step in _MOMENTS:
        decay = math.exp(-step / 30)
        for key, start, end in (("hidden.weight", 7.0, level), ("output.weight", 1.0, 1.0)):
            value = end + (start - end) * decay
            records.append(Record(trial.id, step, step, "stable-rank", key, value, 1e-9))
        records.append(Record(trial.id, step, step, "loss", "mean", 0.7 * decay + 1e-4))
        records.append(Record(trial.id, step, step, "loss", "log10", math.log10(0.7 * decay + 1e-4)))
    return records


def publish_stable_rank(
    path: Path, variant: str, *, without: int = 0, spoilt: float | None = None
) -> list[str]:
    """The stable-rank study at scale smoke, ``without`` some of its trials; returns the ids of those published.

    It has ten seeds, as many as verdicts ask for. ``spoilt`` takes the place of one value in the middle of the first
    trial's training.
    """
    (small,) = find("stable-rank").grids("smoke", variant, parts=["main"])
    document = small.model_dump(mode="json")
    grid = validate(StudyConfig, {**document, "grid": {**document["grid"], "seed": list(range(10))}})
    trials = [point.trial for point in grid.points][without:]
    records = {trial.id: falling(trial) for trial in trials}
    if spoilt is not None:
        first = records[trials[0].id]
        first[20] = dataclasses.replace(first[20], value=spoilt)
    publish(path, grid, records)
    return list(records)


def publish(path: Path, grid: StudyConfig, records: Mapping[str, Sequence[Record]]) -> None:
    """Those trials of a study that have made-up records, as if they had been trained."""
    store = Store(path)
    store.add_study(grid)
    provenance = {
        **environment(),
        "data": {"name": "kou-mixture", "checksum": "ab" * 32, "samples": 10},
        "group": {"id": "0" * 16, "size": 1},
        "cost": {"seconds": 1.0, "restarts": 0},
    }
    trials = [point.trial for point in grid.points if point.trial.id in records]
    store.publish(
        [
            FinishedTrial(
                config=trial,
                records=encode_all(records[trial.id]),
                weights=pack({"hidden.weight": torch.zeros(2, 2)}),
                status={"status": "finished", "step": 300, "reason": None},
                provenance={**provenance, "seeds": {"trial": trial.seed, "data": 0}},
            )
            for trial in trials
        ]
    )


def own_study(*, examples: int = 0) -> StudyConfig:
    """A study of one's own: two widths and two seeds on scikit-learn's digits."""
    document: dict[str, Any] = {
        "name": "mine",
        "data": {"name": "digits", "limit": 120, "normalise": "unit-norm"},
        "model": {"name": "two-layer", "width": 4},
        "training": {"optimizer": "sgd", "batch_size": 40, "learning_rate": 0.5, "epochs": 3},
        "probe": {
            "measures": ["loss", "accuracy", {"name": "spectrum", "count": 4}],
            "limit": 40,
            "examples": examples,
        },
        "grid": {"width": [4, 8], "seed": [0, 1]},
    }
    return validate(StudyConfig, document)


def run(path: Path, study: StudyConfig) -> None:
    """Really run a study, in this process."""
    assert sweep(Store(path), study, engine=Here()).complete
