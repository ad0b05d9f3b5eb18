"""``undertow show``: what is in a folder, on wide and narrow terminals, whole or not."""

from __future__ import annotations

import importlib
import io
import itertools
import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import polars
import pytest
from rich.console import Console

from tests.execution.sweeps import flip, tiny_study
from tests.report.stores import publish_stable_rank
from tests.test_cli import call
from undertow.cli.sparklines import main_curves, sparkline
from undertow.execution.engines.here import Here
from undertow.execution.sweep import sweep
from undertow.store.failures import write_failure
from undertow.store.lock import Lock
from undertow.store.progress import Beacon
from undertow.store.store import Store
from undertow.store.unfinished import begun_groups
from undertow.studies import find
from undertow.studies.kit.ledger import judge
from undertow.studies.kit.reproduction import reproductions

Show = Callable[..., tuple[int, str]]


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Show:
    def run(runs: Path, *options: str, width: int = 100) -> tuple[int, str]:
        monkeypatch.setenv("COLUMNS", str(width))
        capsys.readouterr()
        code = call("show", runs, *options)
        return code, capsys.readouterr().out

    return run


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "runs")
    sweep(store, tiny_study(), engine=Here())
    return store


def test_a_whole_folder_is_shown_with_its_curves(store: Store, show: Show) -> None:
    code, out = show(store.path)
    assert code == 0
    assert "\x1b" not in out
    assert "tiny (own, own)" in out
    line = next(line for line in out.splitlines() if "loss mean, std 1 " in line)
    assert set(line.split()[-4]) <= set("▁▂▃▄▅▆▇█")
    frame = store.frame().filter((polars.col("std") == 1.0) & (polars.col("measure") == "loss"))
    means = (
        frame.filter(polars.col("key") == "mean")
        .group_by("step")
        .agg(polars.col("value").mean())
        .sort("step")
    )
    assert line.endswith(f"{means['value'][0]:.4g} → {means['value'][-1]:.4g}")
    assert "resume" not in out


def test_a_training_that_was_stopped_says_how_far_it_is(tmp_path: Path, show: Show) -> None:
    store, seen = Store(tmp_path / "runs"), itertools.count(1)
    study = tiny_study(
        training={"optimizer": "gd", "learning_rate": 0.05, "epochs": 4000, "stop_below": -40.0},
        probe={"measures": ["loss"], "every": "2 decades"},
        grid={"seed": [0]},
    )
    sweep(store, study, engine=Here(), stop=lambda: next(seen) >= 5)
    code, out = show(store.path)
    assert code == 1
    (begun,) = begun_groups(store.path)
    assert f"Begun: 1 trial of main, stopped at step {begun.step:,} after {begun.readings} reading" in out
    assert f"the last at log10 L {begun.log10_loss:.2f}." in out
    assert json.loads(show(store.path, "--json")[1])["begun"][begun.group]["readings"] == begun.readings
    with Lock(store.path / "locks" / f"{begun.group}.lock"):
        Beacon(store.path / "work" / begun.group, begun.group, list(begun.trials)).tell(
            3, 9, b"", "log10 L -7"
        )
        out = show(store.path)[1]
    assert f"group {begun.group}, step 3 of 9, log10 L -7." in out
    assert "Begun" not in out


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_tables_and_curves_fit_the_terminal(width: int, store: Store, show: Show) -> None:
    _, out = show(store.path, width=width)
    assert max(map(len, out.splitlines())) <= width
    assert any(block in out for block in "▁█")


def test_json_has_everything_it_had_and_more(store: Store, show: Show) -> None:
    code, out = show(store.path, "--json")
    assert code == 0
    found = json.loads(out)
    assert {"path", "studies", "damaged"} <= found.keys()
    assert {"study", "variant", "scale", "part", "trials", "finished", "diverged", "missing"} <= found[
        "studies"
    ][0].keys()
    assert (found["damaged"], found["running"], found["failed"], found["verdicts"]) == ({}, {}, {}, {})


def test_damage_failures_and_what_runs_are_told(store: Store, show: Show) -> None:
    victim, lost = store.finished()[:2]
    flip(store.folder(victim) / "records.jsonl", 30)
    store.folder(lost).rename(store.path / "gone")
    write_failure(store.path, "feed", [lost], sentence="[red]the data[/] are gone.")
    code, out = show(store.path)
    assert code == 1
    assert f"{victim}/records.jsonl is damaged" in out
    assert "Group feed (1 trial) failed: [red]the data[/] are gone." in out
    assert f"Go on with:  undertow resume {store.path}" in out
    assert "10         0        2" in out
    with Lock(store.path / "locks" / "feed.lock"):
        Beacon(store.path / "work" / "feed", "feed", [lost]).tell(3, 9, b"")
        _, out = show(store.path)
        assert "Running: 1 trial of group feed, step 3 of 9." in out
        assert f"Follow it with:  undertow live {store.path}" in out
        _, out = show(store.path, "--json")
        assert json.loads(out)["running"] == {"feed": [3, 9]}


def test_showing_changes_nothing(store: Store, show: Show) -> None:
    label = store.labels()[0]
    (store.path / "studies" / f"{label}.copy").unlink()  # a reader could mend this; it must not
    before = sorted(str(path) for path in store.path.rglob("*"))
    assert show(store.path)[0] == 0
    assert sorted(str(path) for path in store.path.rglob("*")) == before


def test_names_of_parts_are_whole_on_an_ordinary_terminal(tmp_path: Path, show: Show) -> None:
    runs, grids = tmp_path / "runs", find("feature-averaging").grids("smoke", "paper")
    for grid in grids:
        Store(runs).add_study(grid)
    _, out = show(runs, width=80)
    assert all(f"  {grid.part} " in out for grid in grids)


def test_claims_in_short(tmp_path: Path, show: Show) -> None:
    runs = tmp_path / "runs"
    for study in find("stable-rank").grids("smoke", "paper", parts=["main"]):
        sweep(Store(runs), study, engine=Here())
    _, out = show(runs)
    assert "stable-rank claims (paper, smoke): " in out
    assert any(line.startswith("  ✓ R-a.order") for line in out.splitlines())
    found = json.loads(show(runs, "--json")[1])
    assert sum(found["verdicts"].values()) == 6


def test_a_sparkline_shows_change_not_rounding() -> None:
    assert sparkline([]) == ""
    assert sparkline([1.0, 1.0 + 1e-9]) == "▁▁"
    assert sparkline([math.inf, math.nan]) == "  "
    assert sparkline(range(100), width=8) == "▁▂▃▄▅▆▇█"
    assert sparkline([3, 2, 1]) == "█▄▁" or sparkline([3, 2, 1]) == "█▅▁"


def test_many_kinds_are_averaged_together_and_diverged_trials_left_out() -> None:
    rows = [
        {"trial": f"{q}{seed}", "step": step, "measure": "loss", "key": "mean", "value": float(q + step),
         "error": None, "status": "diverged" if q == 9 else "finished", "q": q, "seed": seed}
        for q in range(10) for seed in range(2) for step in range(3)
    ]  # fmt: skip
    (line,) = main_curves(polars.DataFrame(rows), ["q", "seed"])
    assert (line.kind, line.trials, line.values) == ("", 18, (4.0, 5.0, 6.0))
    few = polars.DataFrame([row for row in rows if row["q"] in (1, 2)])
    assert [each.kind for each in main_curves(few, ["q", "seed"])] == ["q 1", "q 2"]


def test_accuracies_under_attack_are_shown_as_upper_bounds(tmp_path: Path, show: Show) -> None:
    probe = {
        "measures": [{"name": "robust-accuracy", "eps": [0.1], "attack": "pgd-once"}, "accuracy"],
        "every": 3,
    }
    store = Store(tmp_path / "runs")
    sweep(store, tiny_study(probe=probe, grid={"seed": [0]}), engine=Here())
    for width in (100, 50):
        lines = show(store.path, width=width)[1].splitlines()
        ends = [line for line in lines if " → " in line]
        assert [re.sub(r"[\d.]+", "…", line.split("  ")[-1]) for line in ends] == ["≤ … → ≤ …", "… → …"]


@pytest.mark.parametrize("width", [60, 100])
def test_the_tour_shows_a_screen_of_verdicts_and_counts_the_others(
    width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tour = importlib.import_module("undertow.cli.tour")
    publish_stable_rank(tmp_path, "paper")
    store, study = Store(tmp_path), find("stable-rank")
    entries = [entry for each in reproductions(store) for entry in judge(each)]
    decided = [entry for entry in entries if str(entry.verdict) in ("holds", "fails")]
    assert len(decided) > 2

    def told() -> list[str]:
        page = io.StringIO()
        tour._verdicts(Console(width=width, file=page, highlight=False), store, study)
        return page.getvalue().splitlines()

    whole = told()
    assert all(any(entry.claim.id in line.split() for line in whole) for entry in decided)
    assert max(map(len, whole)) <= width
    monkeypatch.setattr(tour, "_MOST", 2)
    one, more, *_ = told()
    assert one.split()[:2] == whole[0].split()[:2]
    assert f"and {len(decided) - 1} more verdicts" in more
