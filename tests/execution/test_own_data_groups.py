"""Trials with data of their own as one group: the same records as group by group, also after an interruption."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.execution.sweeps import fingerprint, tiny_study
from tests.execution.test_measuring import after
from undertow.config.grid import StudyConfig
from undertow.execution.engines.here import Here
from undertow.execution.group import run_group
from undertow.execution.sweep import sweep
from undertow.measures import MEASURES, Listed
from undertow.store.store import Store

SETTINGS: dict[str, dict[str, Any]] = {
    "batches": {},
    "a measure that is told of the data": {
        "data": {"name": "d-binary", "n": 12, "d": 20, "k": 4},
        "model": {
            "name": "two-layer",
            "width": 8,
            "init": {"name": "gaussian", "std": 0.1},
            "head": "balanced-signs",
        },
        "training": {"optimizer": "gd", "learning_rate": 0.05, "epochs": 12, "loss": "logistic"},
        "probe": {"measures": ["feature-cosines", "loss"], "every": 4},
    },
    "a tracker": {"probe": {"measures": ["loss", "path"], "every": 5}},
    "an end of its own": {
        "training": {"optimizer": "gd", "learning_rate": 0.5, "epochs": 60, "stop_below": -1.0},
        "probe": {"measures": ["loss"], "every": "1 decades"},
    },
}


def both(name: str) -> tuple[StudyConfig, StudyConfig]:
    return tiny_study(**SETTINGS[name]), tiny_study(**SETTINGS[name], own_data=True)


@pytest.fixture(autouse=True)
def _a_tracker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEASURES.lines, "path", Listed("path", "tests.probe.test_probe:Path"))


@pytest.mark.parametrize("name", SETTINGS)
def test_a_group_with_many_data_sets_gives_the_same_records(name: str, tmp_path: Path) -> None:
    apart, together = both(name)
    assert [point.trial.id for point in apart.points] == [point.trial.id for point in together.points]
    assert (len(apart.groups), len(together.groups)) == (4, 1)
    stores = [Store(tmp_path / part) for part in ("apart", "together")]
    for store, study in zip(stores, (apart, together), strict=True):
        assert sweep(store, study, engine=Here()).complete
    for point in apart.points:
        one, other = (store.trial(point.trial.id) for store in stores)
        assert [(r.step, r.measure, r.key) for r in one.records] == [
            (r.step, r.measure, r.key) for r in other.records
        ]
        # Trained in float32: a batch of other shapes rounds otherwise.
        for mine, theirs in zip(one.records, other.records, strict=True):
            assert mine.value == pytest.approx(theirs.value, rel=1e-3, abs=1e-4)
        assert one.provenance["data"] == other.provenance["data"]
        assert one.provenance["seeds"] == other.provenance["seeds"]


@pytest.mark.parametrize("name", ["a tracker", "an end of its own"])
def test_an_interrupted_group_ends_with_the_same_records(name: str, tmp_path: Path) -> None:
    _, study = both(name)
    undisturbed, resumed = Store(tmp_path / "one"), Store(tmp_path / "other")
    (group,) = study.groups
    assert run_group(undisturbed, group).status == "finished"
    looks = 3
    while run_group(resumed, group, stop=after(looks), checkpoint_seconds=0.0).status != "finished":
        looks += 2
    assert looks > 3
    assert fingerprint(undisturbed) == fingerprint(resumed)
