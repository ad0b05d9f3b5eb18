"""Somebody's own loop in a store: its records are read like those of any study, and it is never run again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import undertow as ut
from tests.execution.sweeps import tiny_study
from undertow.cli.overview import print_store
from undertow.core.errors import InputError, StoreError
from undertow.probe import Accuracy, Energy
from undertow.probe.adapters import follow
from undertow.report.page import write_report
from undertow.store.folder import Folder
from undertow.store.following import Follower


def _trained(sinks: list[Any], *, seed: int = 0) -> ut.Probe:
    torch.manual_seed(seed)
    x = torch.randn(24, 3)
    y = (x[:, 0] > 0).long()
    net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    probe = ut.Probe(net, x, y, measures=[Accuracy(), Energy()], every=2, sinks=sinks)
    with follow(optimizer, probe):
        for _ in range(4):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
    return probe


def test_a_loop_of_ones_own_is_shown_reported_and_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ut.Store(tmp_path / "runs")
    for seed in (0, 1):
        config = {
            "seed": seed,
            "optimizer": {"lr": 0.1},
            "step": 5,
            "dtype": torch.float32,
            "layers": [3, 8, 2],
        }
        sink = store.sink("my-loop", config=config)
        probe = _trained([sink], seed=seed)
    assert len(store.finished()) == 2
    frame = store.frame()
    last = frame.filter((frame["measure"] == "energy") & (frame["step"] == 4) & (frame["seed"] == 1))
    assert last["value"].to_list() == [probe.records[-1].value]
    assert last.select("study", "status", "optimizer.lr", "config.step", "dtype").row(0) == (
        "my-loop", "finished", 0.1, 5, "torch.float32",
    )  # fmt: skip
    stored = store.trial(store.finished()[0])
    assert stored.settings["kind"] == "own loop"
    assert stored.settings["config"]["layers"] == [3, 8, 2]
    assert stored.provenance["packages"]["torch"] == torch.__version__

    assert print_store(store.path, as_json=False) == 0
    shown = capsys.readouterr().out
    assert "my-loop" in shown
    assert "energy" in shown
    assert print_store(store.path, as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["studies"][0]["finished"] == 2
    page = write_report(store, tmp_path / "report.html").read_text()
    assert "energy over training" in page
    assert "cannot run again" in page
    assert "undertow run my-loop" not in page
    follower = Follower(Folder(store.path))
    follower.look()
    assert set(follower.states(follower.parts["my-loop.own.own"]).values()) == {"finished"}


def test_the_same_settings_twice_and_a_second_end_are_trials_of_their_own(tmp_path: Path) -> None:
    store = ut.Store(tmp_path)
    sink = store.sink("again")
    probe = _trained([sink])
    assert store.finished()
    probe(step=9)
    assert probe.training_end() == []
    _trained([store.sink("again")])
    frame = store.frame()
    assert sorted(frame.group_by("trial").len()["len"].to_list()) == [2, 6, 6]


def test_a_loop_that_dies_leaves_nothing(tmp_path: Path) -> None:
    store = ut.Store(tmp_path)
    probe = ut.Probe(nn.Linear(1, 1), torch.ones(1, 1), measures=[Energy()], sinks=[store.sink("dies")])
    assert probe.records
    assert store.finished() == []
    assert not (tmp_path / "studies").exists()


def test_what_a_store_cannot_keep_is_refused(tmp_path: Path) -> None:
    store = ut.Store(tmp_path)
    with pytest.raises(InputError, match="no name for a loop"):
        store.sink("My Loop")
    with pytest.raises(InputError, match="must be a dictionary"):
        store.sink("mine", config=[1])  # type: ignore[arg-type]
    study = tiny_study(name="taken", variant="own", scale="own")
    store.add_study(study)
    with pytest.raises(StoreError, match="holds a study taken that undertow ran itself"):
        store.sink("taken")


@pytest.mark.parametrize(
    ("sinks", "says"),
    [
        ([ut.Store("runs")], r"sinks=\[store.sink\('my-loop'"),
        ([ut.probe.adapters.Csv], "is the class of a sink"),
        ([3], "3 is no sink: it has to be called"),
        (print, "sinks must be a list"),
    ],
)
def test_what_is_no_sink_is_refused_before_anything_is_measured(sinks: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        ut.Probe(nn.Linear(1, 1), torch.ones(1, 1), measures=[Energy()], sinks=sinks)
