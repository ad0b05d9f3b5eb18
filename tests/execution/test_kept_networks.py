"""Networks kept on the way: at the losses listed, whatever interrupts the run, verified with their trial."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.execution.sweeps import flip, tiny_study
from tests.execution.test_decades import RULES, after, study
from tests.execution.test_sweep import killed_sweep
from undertow.config.grid import StudyConfig
from undertow.core.errors import ConfigError, StoreError
from undertow.core.losses import labels_of_classes, log_mean_loss
from undertow.core.scoring import scores_of
from undertow.execution.build import build_data, build_network
from undertow.execution.engines.here import Here
from undertow.execution.sweep import sweep
from undertow.store.store import Store

LEVELS = (4.0, 21.5, 30.0)


def contents(store: Store) -> dict[str, dict[str, bytes]]:
    """All that must not depend on interruptions: without provenance, and without the manifest."""
    return {
        trial: {name: data for name, data in store.trial(trial).files.items() if name != "provenance.json"}
        for trial in store.finished()
    }


def keeping(rule: str, keep: Any = "at 4, 21.5, 30 decades", **changes: Any) -> StudyConfig:
    return study(rule, probe={"measures": ["margins"], "every": "10 decades", "keep": keep}, **changes)


@pytest.mark.parametrize("rule", list(RULES))
def test_networks_are_kept_where_the_loss_has_passed_the_levels(rule: str, tmp_path: Path) -> None:
    store, plan = Store(tmp_path), keeping(rule)
    assert sweep(store, plan, engine=Here()).complete
    for point in plan.points:
        stored = store.trial(point.trial.id)
        # An epoch may leap over several levels at once: one network is then that of all of them.
        passed = [sum(kept.log10_loss <= -level for level in LEVELS) for kept in stored.kept]
        assert passed == sorted(set(passed))
        assert passed[0] > 0
        assert passed[-1] == len(LEVELS)
        data = build_data(point.trial.data)
        for kept in stored.kept:
            net = build_network(point.trial, data)
            net.load_state_dict(kept.weights)
            labels = labels_of_classes(data.labels, loss="logistic")
            loss = float(log_mean_loss(scores_of(net.double(), data.x.double()), labels, "logistic"))
            assert loss / math.log(10) == pytest.approx(kept.log10_loss, rel=1e-4, abs=1e-3)
        steps = [kept.step for kept in stored.kept]
        assert steps == sorted(steps)
        assert [kept.epoch for kept in stored.kept] == [
            step // (3 if rule == "loss-based" else 1) for step in steps
        ]
        manifest = json.loads((store.folder(point.trial.id) / "manifest.json").read_bytes())
        assert sum(name.startswith("kept-") for name in manifest["files"]) == len(stored.kept)
    assert not list((tmp_path / "work").iterdir())


@pytest.mark.parametrize("rule", list(RULES))
def test_a_run_that_is_interrupted_keeps_the_very_same_networks(rule: str, tmp_path: Path) -> None:
    whole, pieces, plan = Store(tmp_path / "a"), Store(tmp_path / "b"), keeping(rule)
    assert sweep(whole, plan, engine=Here()).complete
    on_the_way = 0
    for _ in range(40):
        if sweep(pieces, plan, engine=Here(checkpoint_seconds=0.0), stop=after(17)).complete:
            break
        on_the_way = max(on_the_way, len(list(pieces.path.glob("work/*/*.kept-*"))))
    assert sweep(pieces, plan, engine=Here()).complete
    assert on_the_way > 0  # they are there before their trial is
    assert contents(pieces) == contents(whole)
    assert all(pieces.trial(point.trial.id).kept for point in plan.points)


def test_a_run_that_is_killed_keeps_the_very_same_networks(tmp_path: Path) -> None:
    plan = tiny_study(
        training={"optimizer": "sgd", "batch_size": 2, "learning_rate": 0.05, "epochs": 300},
        probe={"measures": ["loss"], "every": 300, "keep": "doublings"},
        grid={"seed": list(range(6)), "std": [0.01, 0.1]},
    )
    whole = Store(tmp_path / "whole")
    assert sweep(whole, plan, engine=Here()).complete
    assert killed_sweep(tmp_path / "killed", plan, kills=5, seconds=(0.1, 0.3)) == 5
    killed = Store(tmp_path / "killed")
    assert contents(killed) == contents(whole)
    steps = [kept.step for kept in killed.trial(plan.points[0].trial.id).kept]
    assert steps == [0, *(2**k for k in range(10))]


def test_a_file_that_no_checkpoint_knows_of_is_not_published(tmp_path: Path) -> None:
    """Such as one written before a kill, at a step to which the run does not come again."""
    plan, store = keeping("log-loss"), Store(tmp_path)
    sweep(store, plan, engine=Here(checkpoint_seconds=0.0), stop=after(8))
    (work,) = (tmp_path / "work").iterdir()
    stray = work / f"{plan.points[0].trial.id}.kept-step7-epoch7-log10loss-4.2000.safetensors"
    stray.write_bytes(b"of another life")
    assert sweep(store, plan, engine=Here()).complete
    assert 7 not in [kept.step for kept in store.trial(plan.points[0].trial.id).kept]


def test_damage_is_found_before_publishing_and_after(tmp_path: Path) -> None:
    plan, store = keeping("log-loss"), Store(tmp_path)
    for _ in range(60):
        sweep(store, plan, engine=Here(checkpoint_seconds=0.0), stop=after(6))
        if kept := sorted(tmp_path.glob("work/*/*.kept-*")):
            break
    flip(kept[0], 200)
    outcome = sweep(store, plan, engine=Here())
    assert not outcome.complete
    assert (
        "remove its folder" in " ".join(outcome.notes) + next((tmp_path / "failures").iterdir()).read_text()
    )
    for path in kept[0].parent.iterdir():
        path.unlink()
    assert sweep(store, plan, engine=Here()).complete
    trial = plan.points[0].trial.id
    flip(next(store.folder(trial).glob("kept-*")), 200)
    with pytest.raises(StoreError, match=r"kept-step.*damaged"):
        store.trial(trial)


def test_nothing_else_changes_and_without_it_no_identity(tmp_path: Path) -> None:
    plain, plan = (
        study("log-loss", probe={"measures": ["margins"], "every": "10 decades"}),
        keeping("log-loss", 5),
    )
    one, other = Store(tmp_path / "one"), Store(tmp_path / "other")
    sweep(one, plain, engine=Here())
    sweep(other, plan, engine=Here())
    for first, second in zip(plain.points, plan.points, strict=True):
        assert "keep" not in first.trial.model_dump(mode="json")["probe"]
        assert first.trial.id != second.trial.id
        before, after_it = one.trial(first.trial.id), other.trial(second.trial.id)
        assert [(r.step, r.key, r.value) for r in before.records] == [
            (r.step, r.key, r.value) for r in after_it.records
        ]
        assert before.kept == []
        for name, weight in before.weights.items():
            assert torch.equal(weight, after_it.weights[name])
        assert [kept.step for kept in after_it.kept[:3]] == [0, 5, 10]
    assert {"weights.safetensors", after_it.kept[0].path.name} <= set(other.files(second.trial.id))


def test_a_word_that_is_no_schedule_is_refused() -> None:
    with pytest.raises(ConfigError, match="keep"):
        keeping("log-loss", "at noon")


def test_without_weights_no_network_is_kept_on_the_way(tmp_path: Path) -> None:
    plan, store = keeping("log-loss"), Store(tmp_path)
    assert sweep(store, plan, engine=Here(keep_weights=False)).complete
    stored = store.trial(plan.points[0].trial.id)
    assert stored.kept == []
    assert not list(tmp_path.rglob("kept-*"))
    assert stored.files["records.jsonl"]
