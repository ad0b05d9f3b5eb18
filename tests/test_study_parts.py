"""``benchmarks/study_parts.py``: parts in turn within a budget, on machines that have little and forget everything."""

from __future__ import annotations

import importlib.util
import itertools
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.execution.sweeps import fingerprint
from undertow.core.errors import ConfigError, StoreError
from undertow.execution.sweep import SweepOutcome, sweep
from undertow.store.carried import take_up
from undertow.store.store import Store

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "study_parts.py"
# What a machine lacks that has torch, numpy, scipy, scikit-learn, safetensors, pydantic and rich.
MISSING = (
    *(
        "polars",
        "altair",
        "vl_convert",
        "jinja2",
        "cyclopts",
        "starlette",
        "uvicorn",
        "tomli_w",
        "platformdirs",
    ),
    *("dask", "distributed", "pyautoattack"),
)
BARE = f"""
import runpy, sys
class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {MISSING!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Lacking())
runpy.run_path({str(SCRIPT)!r}, run_name="__main__")
"""


def _benchmark() -> Any:
    spec = importlib.util.spec_from_file_location("study_parts", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["study_parts"] = module  # dataclasses look for it
    spec.loader.exec_module(module)
    return module


BENCHMARK = _benchmark()


def jobs(*words: str) -> list[Any]:
    found: list[Any] = BENCHMARK.jobs_of(BENCHMARK.read_options(words))
    return found


def test_parts_are_named_in_their_order_with_their_shares() -> None:
    found = jobs("--study", "margin", "--parts", "table=30", "optimisers:paper:long-adam", "paper:starts=7.5")
    assert [[each.label for each in job.studies] for job in found] == [
        ["margin.paper.smoke.table"],
        ["optimisers.paper.smoke.long-adam"],
        ["margin.paper.smoke.starts"],
    ]
    assert [job.seconds for job in found] == [30, math.inf, 7.5]
    (together,) = jobs("--study", "margin", "--parts", "table", "starts")
    assert len(together.studies) == 2
    (whole,) = jobs("--study", "margin")
    assert len(whole.studies) > 10
    for wrong in ("table=soon", "tabel", "marginal:paper:table", "authors:table"):
        with pytest.raises(ConfigError):
            jobs("--study", "margin", "--parts", wrong)


def turns(
    monkeypatch: pytest.MonkeyPatch, budget: float, *parts: tuple[str, float, float]
) -> list[tuple[str, float]]:
    """Who worked how long; parts are names, shares, and the seconds that each takes in all."""
    now, worked = [100.0], []
    left = {name: takes for name, _, takes in parts}
    monkeypatch.setattr(BENCHMARK.time, "monotonic", lambda: now[0])

    def work(studies: tuple[str, ...], seconds: float) -> float:
        (name,) = studies
        took = min(left[name], seconds + 1)  # a stop is a second late
        left[name] -= took
        now[0] += took
        worked.append((name, took))
        return took

    waiting = [BENCHMARK.Job((name,), share) for name, share, _ in parts]
    BENCHMARK.in_turn(waiting, work, ends=100.0 + budget, stop=lambda: False)
    return worked


def test_each_part_has_its_share_and_what_others_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    assert turns(monkeypatch, 100, ("a", 30, 1000), ("b", 20, 5), ("c", 30, 1000)) == [
        *(("a", 31), ("b", 5), ("c", 31)),
        ("a", 34),  # what b left and nobody had asked for: a goes on until the time is over
    ]
    # Without a share: what the others leave.
    assert turns(monkeypatch, 100, ("a", math.inf, 1000), ("b", 20, 1000)) == [("a", 81), ("b", 20)]
    assert turns(monkeypatch, 10, ("a", 30, 1000), ("b", 30, 1000)) == [("a", 11)]
    assert turns(monkeypatch, 0, ("a", 30, 1000)) == []
    assert turns(monkeypatch, math.inf, ("a", 30, 100), ("b", math.inf, 7)) == [
        ("a", 31),
        ("b", 7),
        ("a", 69),
    ]


def bare(*words: str) -> str:
    """What the command prints in a process that has none of the packages for people who read."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SCRIPT.parents[1] / "src")}
    command = [sys.executable, "-c", BARE, *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def call(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["study_parts.py", *words])
        BENCHMARK.main()
        return capsys.readouterr().out

    return call


def after(looks: int) -> Callable[..., SweepOutcome]:
    """A sweep that is stopped when somebody has looked so often whether it should be."""
    seen = itertools.count(1)
    return lambda *studies, **options: sweep(*studies, **{**options, "stop": lambda: next(seen) >= looks})


def test_one_command_on_machines_that_forget_everything(
    here: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("--study", "margin", "--parts", "rule-loss-based=60", "rule-constant")
    places = ("--unpack", str(tmp_path / "carried"), "--pack", str(tmp_path / "new"))
    (tmp_path / "carried").mkdir()
    said = []
    for machine in range(3):
        monkeypatch.setattr(BENCHMARK, "sweep", after(looks=6))
        words = (*asked, "--runs", str(tmp_path / f"machine{machine}"), *places)
        # The last machine has all the time that it needs, and none of the packages for people who read.
        said.append(bare(*words) if machine == 2 else here(*words))
        for path in (tmp_path / "new").iterdir():
            path.rename(tmp_path / "carried" / path.name)
    assert "brought in" in said[0]
    assert "0 trials and 0 checkpoints" in said[0]
    assert "the same command goes on from its" in said[0]
    assert "log10 L" in said[0]
    folder = str(tmp_path / "carried")
    home = here(
        *("--runs", str(tmp_path / "home"), "--unpack", folder, "--pack", folder, "--seconds-budget", "0")
    )
    assert home.count("20 trials and 0 checkpoints") == 1  # packed; brought with them were old checkpoints
    assert "trials finished" not in home
    monkeypatch.setattr(BENCHMARK, "sweep", sweep)
    here(*asked, "--runs", str(tmp_path / "undisturbed"))
    names = ("records", "status", "config")
    expected = fingerprint(Store(tmp_path / "undisturbed"), names=names)
    assert len(expected) == 20
    assert fingerprint(Store(tmp_path / "home"), names=names) == expected


def test_what_is_packed_on_the_way_is_there_where_the_end_is_never_reached(
    here: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BENCHMARK, "_PACKS", 0.0)
    monkeypatch.setattr(BENCHMARK.Carrier, "conclude", lambda _: None)
    part, new = ("--study", "margin", "--parts", "rule-constant"), tmp_path / "new"
    here(*part, "--runs", str(tmp_path / "one"), "--pack", str(new))
    assert len(take_up(Store(tmp_path / "home"), new).trials) == 10
    monkeypatch.setattr("undertow.store.carried.write_pieces", full_disk)
    assert "the disk is full" in here(*part, "--runs", str(tmp_path / "two"), "--pack", str(new))
    assert len(Store(tmp_path / "two").finished()) == 10  # training goes on


def full_disk(*_: object) -> None:
    raise StoreError("the disk is full")


def test_what_is_wrong_is_said_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["study_parts.py", "--study", "margin", "--parts", "tabel"])
    with pytest.raises(ConfigError, match="table"):
        BENCHMARK.main()
