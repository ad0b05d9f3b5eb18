"""Records of networks that are still being trained: what a checkpoint vouches for, and who gets to see it."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import altair
import polars
import pytest

from tests.execution.sweeps import tiny_study
from undertow.config.grid import StudyConfig
from undertow.execution.engines.here import Here
from undertow.execution.sweep import sweep
from undertow.report.figures import draw
from undertow.report.printed_numbers import printed_numbers
from undertow.store.store import Store
from undertow.store.tolerant import ReadableStore
from undertow.store.unfinished import begun_groups, records_so_far
from undertow.studies.kit.reproduction import Reproduction
from undertow.studies.kit.statements import Figures, PublishedNumbers
from undertow.studies.margin import STUDY


def study() -> StudyConfig:
    return tiny_study(
        data={"name": "separable", "n": 30, "d": 4, "seed": 3},
        model={"name": "mlp", "widths": [6]},
        training={
            "optimizer": "gd",
            "learning_rate": 0.05,
            "objective": "log-loss",
            "epochs": 4000,
            "loss": "logistic",
            "stop_below": -45.0,
        },
        probe={"measures": ["margins"], "every": "2 decades"},
        grid={"seed": [0, 1, 2]},
    )


@pytest.fixture
def begun(tmp_path: Path) -> Store:
    """Three networks, stopped on their way with a few readings each."""
    store, seen = Store(tmp_path / "runs"), itertools.count(1)
    outcome = sweep(store, study(), engine=Here(), stop=lambda: next(seen) >= 12)
    assert outcome.interrupted
    assert outcome.finished == 0
    return store


def test_what_is_shown_of_a_network_in_training_is_what_it_ends_with(begun: Store) -> None:
    assert begun.frame().is_empty()
    some = begun.frame(so_far=True)
    assert set(some["status"]) == {"unfinished"}
    assert some["trial"].n_unique() == 3
    assert sweep(begun, study(), engine=Here()).complete
    whole = begun.frame(so_far=True)
    assert set(whole["status"]) == {"finished"}
    assert whole.equals(begun.frame())
    columns = ["trial", "step", "measure", "key", "value"]
    ended = set(whole.select(columns).rows())
    assert set(some.select(columns).rows()) < ended


def test_a_stopped_group_is_told_with_what_was_last_read_of_it(begun: Store) -> None:
    (group,) = begun_groups(begun.path)
    some = begun.frame(so_far=True)
    assert set(group.trials) == set(some["trial"])
    (checkpoint,) = (begun.path / "work" / group.group).glob("checkpoint-*.json")
    assert checkpoint.name == f"checkpoint-{group.step}.json"
    losses: dict[str, float] = {}
    moments: dict[str, set[int]] = {}
    for trial, step, measure, key, value in some.select("trial", "step", "measure", "key", "value").rows():
        moments.setdefault(trial, set()).add(step)
        if (measure, key) == ("steps", "log10_loss"):
            losses[trial] = value
    assert group.log10_loss == max(losses.values()) < 1
    assert group.readings == min(map(len, moments.values()))
    assert sweep(begun, study(), engine=Here()).complete
    assert begun_groups(begun.path) == []


def test_only_what_a_checkpoint_vouches_for_is_read(begun: Store) -> None:
    (folder,) = (begun.path / "work").iterdir()
    before, path = records_so_far(begun.path), folder / "records.jsonl"
    assert len(before) == 3
    data = path.read_bytes()
    path.write_bytes(data + data[:40])  # a torn line after it
    for step in ("²", "9" * 200, "", "-3"):
        (folder / f"checkpoint-{step}.json").write_bytes(b"{}")
    assert records_so_far(begun.path) == before
    for tensors in folder.glob("*.safetensors"):  # of no use where it is only looked at
        tensors.unlink()
    assert records_so_far(begun.path) == before
    path.write_bytes(data.replace(b"1", b"2", 1))
    assert records_so_far(begun.path) == {}
    path.write_bytes(data)
    for checkpoint in folder.glob("checkpoint-*.json"):
        checkpoint.write_bytes(checkpoint.read_bytes()[:-9])
    assert records_so_far(begun.path) == {}


def test_figures_and_numbers_that_ask_for_it_see_it_and_others_do_not(begun: Store) -> None:
    figures, numbers = Figures(), PublishedNumbers("A paper", so_far=True)
    seen: list[polars.DataFrame] = []

    @figures.add("ends", "Where they end")
    @figures.add("way", "Their way", so_far=True)
    def drawing(frame: polars.DataFrame) -> altair.TopLevelMixin:
        seen.append(frame)
        return altair.Chart(frame.head(3)).mark_point().encode(x="step:Q", y="value:Q")

    @numbers.add("a number", "3", "Table 1")
    def ours(frame: polars.DataFrame) -> list[float]:
        return [float(frame["trial"].n_unique())]

    store = ReadableStore(begun.path)
    known = replace(STUDY)
    known.__dict__.update(figures=tuple(figures), published=tuple(numbers))
    reproduction = Reproduction(store, known, "own", "own", tuple(store.studies()))
    pictures = draw(reproduction)
    assert [path.stem for path in pictures] == ["way"]
    assert {frame["trial"].n_unique() for frame in seen} == {3}
    assert [number.ours for number in printed_numbers(reproduction)] == ["3"]
