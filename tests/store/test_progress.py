"""What a running group lets others see: true, cheap, and without any influence on the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.execution.sweeps import fingerprint, tiny_study
from undertow.config.grid import Group, StudyConfig
from undertow.execution import group as group_module
from undertow.execution import group_members
from undertow.execution.engines import engine
from undertow.execution.engines.here import Here
from undertow.execution.engines.processes import Processes
from undertow.execution.group import run_group
from undertow.execution.sweep import sweep
from undertow.execution.watch import Watch
from undertow.store.failures import parse_failure
from undertow.store.progress import Beacon, Progress, read_progress
from undertow.store.store import Store


def test_a_running_group_shows_its_step_and_its_records(tmp_path: Path) -> None:
    store, group = Store(tmp_path), tiny_study().groups[0]
    seen: list[tuple[int, Progress, bytes]] = []

    def look(step: int, steps: int, note: str) -> None:  # noqa: ARG001
        folder = tmp_path / "work" / group.id
        progress = read_progress(folder)
        assert progress is not None
        seen.append((step, progress, (folder / "live.jsonl").read_bytes()))

    run_group(store, group, on_progress=look)
    assert not (tmp_path / "work" / group.id).exists()
    assert len(seen) > 3
    for step, progress, records in seen:
        assert progress.trials == tuple(trial.id for trial in group.trials)
        assert progress.step <= step
        assert progress.steps == seen[-1][0]
        assert records.endswith(b"\n")
        assert all(json.loads(line)["step"] <= step for line in records.splitlines())


def test_nothing_depends_on_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched, blind = Store(tmp_path / "watched"), Store(tmp_path / "blind")
    monkeypatch.setattr(group_module, "Beacon", lambda *arguments: Beacon(*arguments, every=0.0))
    sweep(watched, tiny_study(), engine=Here(checkpoint_seconds=0.0))

    def refuse(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_bytes", refuse)
    for study_group in tiny_study().groups:
        beacon = Beacon(tmp_path / "nowhere" / study_group.id, study_group.id, ["t"], every=0.0)
        beacon.tell(1, 2, b"record\n")  # what cannot be written is left out
    monkeypatch.undo()
    monkeypatch.setattr(Beacon, "tell", lambda *_: None)
    sweep(blind, tiny_study(), engine=Here(checkpoint_seconds=0.0))
    assert fingerprint(watched) == fingerprint(blind)


def test_it_speaks_at_most_once_a_second_and_first_and_last(tmp_path: Path) -> None:
    beacon = Beacon(tmp_path, "g", ["t"])
    prepared = read_progress(tmp_path)
    assert prepared is not None
    assert prepared.steps == 0
    assert prepared.seconds_left is None
    told = []
    for step in range(11):
        beacon.tell(step, 10, b"r\n" * step)
        found = read_progress(tmp_path)
        assert found is not None
        told.append(found.step)
    assert told == [0] * 10 + [10]
    assert (tmp_path / "live.jsonl").read_bytes() == b"r\n" * 10


def test_the_pace_is_that_of_this_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 1000.0
    monkeypatch.setattr("undertow.store.progress.time.monotonic", lambda: clock)
    monkeypatch.setattr("undertow.store.progress.time.time", lambda: clock)
    beacon = Beacon(tmp_path, "g", ["t"], every=1.0)
    for second in range(21):  # resumed at step 500; 5 steps a second at first, 20 later
        clock = 1000.0 + second
        beacon.tell(500 + (5 * second if second < 10 else 50 + 20 * (second - 10)), 1000, b"")
    found = read_progress(tmp_path)
    assert found is not None
    assert found.since == 500
    assert found.rate == pytest.approx(20.0)
    assert found.seconds_left == pytest.approx((1000 - 750) / 20.0)


def test_a_new_attempt_begins_the_file_anew_and_a_torn_append_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = tmp_path / "live.jsonl"
    Beacon(tmp_path, "g", ["t"], every=0.0).tell(9, 10, b"old 1\nold 2\nold 3\n")
    first = live.stat().st_ino
    beacon = Beacon(tmp_path, "g", ["t"], every=0.0)
    beacon.tell(3, 10, b"old 1\n")
    assert live.read_bytes() == b"old 1\n"
    assert live.stat().st_ino != first
    opened = Path.open

    def torn(path: Path, mode: str = "r", **options: Any) -> Any:
        if mode == "ab":
            with opened(path, mode) as file:
                file.write(b"new")
            raise OSError("no space left")
        return opened(path, mode, **options)

    monkeypatch.setattr(Path, "open", torn)
    beacon.tell(4, 10, b"old 1\nnew 2\n")
    monkeypatch.undo()
    assert live.read_bytes() == b"old 1\nnew"
    beacon.tell(5, 10, b"old 1\nnew 2\nnew 3\n")
    assert live.read_bytes() == b"old 1\nnew 2\nnew 3\n"


@pytest.mark.parametrize(
    "content", [b"", b"null", b"[]", b"{}", b'{"group": "g", "trials": 3}', b"\xff", b'{"step": "x"}']
)
def test_progress_that_is_none_is_not_believed(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "progress.json").write_bytes(content)
    assert read_progress(tmp_path) is None


def test_why_a_group_failed_is_written_down_until_it_finishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, study = Store(tmp_path), tiny_study(grid={"seed": [0, 1]})

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("the <sky> fell\ndown")

    monkeypatch.setattr(group_members, "build_data", broken)
    outcome = sweep(store, study, engine=Here())
    assert not outcome.complete
    paths = sorted((tmp_path / "failures").glob("*.txt"))
    assert [path.stem for path in paths] == sorted(group.id for group in study.groups)
    failure = parse_failure(paths[0].read_bytes())
    group: Group = next(group for group in study.groups if group.id == failure.group)
    assert failure.trials == tuple(trial.id for trial in group.trials)
    assert failure.sentence == "RuntimeError: the <sky> fell"
    assert "Traceback" in failure.text
    assert "in broken" in failure.text
    monkeypatch.undo()
    assert sweep(store, study, engine=Here()).complete
    assert not list((tmp_path / "failures").glob("*.txt"))


class Heard(Watch):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.steps: dict[str, list[int]] = {}

    def progress(self, group: Group, step: int, steps: int, note: str = "") -> None:  # noqa: ARG002
        assert 0 <= step <= steps
        self.steps.setdefault(group.id, []).append(step)


def long_study() -> StudyConfig:
    training = {"optimizer": "sgd", "batch_size": 2, "learning_rate": 0.05, "epochs": 300}
    return tiny_study(
        training=training, probe={"measures": ["loss"], "every": 50}, grid={"std": [0.1, 1.0]}, group_size=1
    )


def test_processes_tell_their_progress_to_the_terminal(tmp_path: Path) -> None:
    heard, study = Heard(), long_study()
    assert sweep(Store(tmp_path), study, engine=Processes(2), watch=lambda _: heard).complete
    assert set(heard.steps) <= {group.id for group in study.groups}
    assert heard.steps


@pytest.mark.full
def test_so_does_dask(tmp_path: Path) -> None:
    heard, study = Heard(), long_study()
    assert sweep(Store(tmp_path), study, engine=engine("dask", workers=2), watch=lambda _: heard).complete
    assert heard.steps
