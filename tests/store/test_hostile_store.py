"""A store in which somebody has put what does not belong: pipes, copies, other trials' records, odd documents."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.execution.sweeps import tiny_study
from tests.test_cli import call
from undertow.core.canonical import digest, seal, unseal
from undertow.core.errors import StoreError, UndertowError
from undertow.execution.checkpoint import Workspace
from undertow.execution.engines.here import Here
from undertow.execution.sweep import sweep
from undertow.store.folder import Folder
from undertow.store.following import Follower
from undertow.store.lock import Lock
from undertow.store.progress import read_progress
from undertow.store.store import Store
from undertow.store.tolerant import ReadableStore


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("store"))
    assert sweep(store, tiny_study(grid={"seed": [0, 1]}), engine=Here()).complete
    return store


@pytest.fixture
def store(original: Store, tmp_path: Path) -> Store:
    shutil.copytree(original.path, tmp_path / "runs")
    return Store(tmp_path / "runs")


def soon(work: Callable[[], Any]) -> Any:
    """What the work gives or raises; an error when it waits for ever, as readers of a pipe do."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except (UndertowError, OSError) as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert found, "it waits for ever"
    return found[0]


def replaced_by_pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-c", "from undertow.cli import main; main()", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.parametrize("name", ["records.jsonl", "manifest.json", "weights.safetensors", "stray"])
def test_a_pipe_in_a_trial_is_damage_and_holds_nobody_up(name: str, store: Store) -> None:
    trial = store.finished()[0]
    replaced_by_pipe(store.folder(trial) / name)
    error = soon(lambda: store.trial(trial))
    assert isinstance(error, StoreError)
    assert str(store.folder(trial) / name) in str(error)
    note = soon(lambda: store.set_aside(trial))
    assert "is computed again" in note
    assert sweep(store, tiny_study(grid={"seed": [0, 1]}), engine=Here()).complete


def test_commands_say_where_the_pipe_is(store: Store, tmp_path: Path) -> None:
    trial = store.finished()[0]
    replaced_by_pipe(store.folder(trial) / "records.jsonl")
    for name, options in (("show", ()), ("claims", ()), ("report", ("-o", tmp_path / "report.html"))):
        done = command(name, store.path, *options)
        assert "it is a pipe, not a file" in done.stdout + done.stderr or name == "claims"
        assert "Traceback" not in done.stderr
    follower = Follower(Folder(store.path))
    soon(lambda: [follower.look()])  # type: ignore[func-returns-value]
    done = command("resume", store.path, "--engine", "here")
    assert done.returncode == 0, done.stderr
    assert "is computed again" in done.stdout


def test_pipes_elsewhere_in_the_store(store: Store) -> None:
    label = store.labels()[0]
    replaced_by_pipe(store.path / "studies" / f"{label}.json")
    assert soon(lambda: store.study(label)).label == label  # from its copy, which mends it
    assert (store.path / "studies" / f"{label}.json").is_file()
    replaced_by_pipe(store.path / "studies" / f"{label}.copy")
    assert soon(lambda: store.add_study(tiny_study(grid={"seed": [0, 1]}))).label == label
    (store.path / "locks").mkdir(exist_ok=True)
    replaced_by_pipe(store.path / "locks" / ".guard")
    error = soon(lambda: Lock(store.path / "locks" / "g.lock").__enter__())
    assert isinstance(error, StoreError)
    assert "it is a pipe" in str(error)
    (store.path / "locks" / ".guard").unlink()
    replaced_by_pipe(store.path / "locks" / "h.lock")

    def take() -> bool:
        with Lock(store.path / "locks" / "h.lock") as lock:
            return lock.held

    assert soon(take) is True  # a lock that names nobody
    work = store.path / "work" / "group"
    work.mkdir(parents=True)
    for name in ("progress.json", "checkpoint-3.json", "records.jsonl"):
        replaced_by_pipe(work / name)
    assert soon(lambda: [read_progress(work)]) == [None]
    assert isinstance(soon(lambda: Workspace(work).save(1, {}, {}, b"x")), StoreError)
    assert soon(lambda: [Workspace(work).load()]) == [None]


def test_a_file_grown_out_of_all_proportion_is_not_read(store: Store) -> None:
    trial = store.finished()[0]
    with (store.folder(trial) / "records.jsonl").open("r+b") as file:
        file.truncate(2 * 10**8)
    with pytest.raises(StoreError, match=r"records\.jsonl is damaged"):
        store.trial(trial)
    with (store.folder(trial) / "manifest.json").open("r+b") as file:
        file.truncate(10**10)
    with pytest.raises(StoreError, match=r"manifest\.json is damaged"):
        store.trial(trial)


def resealed(store: Store, trial: str, **files: bytes) -> None:
    """Change files of a trial, and its manifest so that every checksum is right."""
    path = store.folder(trial) / "manifest.json"
    document = unseal(path.read_bytes(), path)
    for name, data in files.items():
        name = name.replace("_", ".")
        (store.folder(trial) / name).write_bytes(data)
        document["files"][name] = digest(data)
    path.write_bytes(seal(document))


def test_records_of_another_trial_are_refused_though_all_checksums_are_right(store: Store) -> None:
    first, second = store.finished()
    foreign = store.trial(second).files["records.jsonl"]
    own = store.trial(first).files["records.jsonl"]
    for records in (foreign, own + foreign, own[: own.find(b"\n") + 1] + b"{}\n"):
        resealed(store, first, records_jsonl=records)
        with pytest.raises(StoreError, match=r"records\.jsonl holds records of another trial"):
            store.trial(first)
    resealed(store, first, records_jsonl=own)
    assert store.trial(first).records
    assert first in ReadableStore(store.path)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"[" * 100_000, b"\xff"])
def test_a_status_that_is_none_is_damage(content: bytes, store: Store) -> None:
    trial = store.finished()[0]
    resealed(store, trial, status_json=content)
    with pytest.raises(StoreError, match=r"status\.json is damaged"):
        store.trial(trial)
    assert trial not in ReadableStore(store.path)


def test_a_manifest_of_another_trial_is_refused(store: Store) -> None:
    first, second = store.finished()
    path = store.folder(first) / "manifest.json"
    document = unseal(path.read_bytes(), path)
    path.write_bytes(seal({**document, "trial": second}))
    with pytest.raises(StoreError, match="another trial than its name says"):
        store.trial(first)
    follower = Follower(Folder(store.path))
    follower.look()
    assert follower.done[first].status == "damaged"


@pytest.mark.parametrize(
    "document",
    [{}, {"files": []}, {"files": {"../../secret": "0"}}, {"files": {}}, {"files": {"config.json": 3}}],
)
def test_a_manifest_of_another_kind_is_one_sentence(document: dict[str, Any], store: Store) -> None:
    trial = store.finished()[0]
    (store.folder(trial) / "manifest.json").write_bytes(seal(document))
    with pytest.raises(StoreError):
        store.trial(trial)
    assert store.set_aside(trial) is not None


def test_a_copied_study_file_is_listed_once_and_named(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    (label,) = store.labels()
    source = store.path / "studies" / f"{label}.json"
    for name in ("tiny-copy.json", f"{label} (1).json", f"{label}.json.bak"):
        shutil.copy(source, store.path / "studies" / name)
    assert [each.label for each in store.studies()] == [label]
    assert len(store.frame()) == len(store.frame(store.study(label)))
    assert call("show", store.path, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert len(shown["studies"]) == 1
    assert "is a copy of the study" in shown["notes"]["tiny-copy"]
    assert call("show", store.path) == 0
    assert "tiny-copy.json is a copy of the study tiny.own.own, and left out" in capsys.readouterr().out
    follower = Follower(Folder(store.path))
    follower.look()
    assert list(follower.parts) == [label]
    version = follower.version
    follower.look()
    assert follower.version == version  # a copy is no news, however often one looks
    source.unlink()
    source.with_suffix(".copy").unlink()
    (store.path / "studies" / f"{label} (1).json").unlink()
    assert [each.label for each in store.studies()] == [label]  # renamed: still the study


@pytest.mark.parametrize("trials", [None, 3, [["../../etc", {}]], [[7, {}]], [["0" * 16]], [["0" * 16, 5]]])
def test_a_study_of_another_kind_is_one_sentence(trials: Any, store: Store) -> None:
    (label,) = store.labels()
    path = store.path / "studies" / f"{label}.json"
    document = {**unseal(path.read_bytes(), path), "trials": trials}
    for ending in (".json", ".copy"):
        path.with_suffix(ending).write_bytes(seal(document))
    readable = ReadableStore(store.path)
    assert readable.studies() == []
    assert label in readable.problems


_MOUNTED = """
mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && "$0" -c "from undertow.cli import main; main()" resume "$1"
"""


@pytest.mark.parametrize("damaged", [True, pytest.param(False, marks=pytest.mark.full)])
def test_resume_on_a_read_only_file_system_is_a_sentence(damaged: bool, store: Store) -> None:
    (store.path / "damaged").mkdir()  # something was set aside before: the next hindrance is the lock
    if damaged:
        trial = store.finished()[0]
        (store.folder(trial) / "status.json").write_bytes(b"{}")
    line = [
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        _MOUNTED,
        sys.executable,
        str(store.path),
    ]
    done = subprocess.run(line, capture_output=True, text=True, timeout=200, check=False)
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip("this system lets no one mount a file system")
    assert "Traceback" not in done.stderr
    if damaged:
        assert done.returncode == 1
        assert "the file system is read-only: choose a folder that can be written" in done.stderr
    else:  # all is finished and whole: nothing has to be written
        assert done.returncode == 0, done.stderr
        assert "2 of 2 trials finished" in done.stdout


@pytest.mark.parametrize(
    "changes",
    [{"name": "../../etc"}, {"part": "a/b"}, {"variant": None}, {"seed_set": "."}, {"grid": {"seed": ["x"]}}],
)
def test_a_study_whose_names_lead_elsewhere_is_damaged(changes: dict[str, Any], store: Store) -> None:
    (label,) = store.labels()
    path = store.path / "studies" / f"{label}.json"
    document = unseal(path.read_bytes(), path)
    for ending in ("json", "copy"):
        changed = seal({**document, "study": {**document["study"], **changes}})
        path.with_suffix(f".{ending}").write_bytes(changed)
    with pytest.raises(StoreError, match="not named as a study is"):
        store.study(label)


def test_a_replication_is_followed_beside_the_study_itself(store: Store) -> None:
    (own,) = store.labels()
    grid = {"grid": {"seed": [5, 6]}, "seed_set": "5-6"}
    store.add_study(tiny_study(**grid))
    follower = Follower(Folder(store.path))
    follower.look()
    assert sorted(follower.parts) == sorted([own, f"{own}.seeds-5-6"])
