"""Locks: one owner at a time, dead owners do not count, and two processes share one store."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.execution.sweeps import fingerprint, tiny_study
from undertow.core.errors import StoreError
from undertow.execution.engines.here import Here
from undertow.execution.group import run_group
from undertow.execution.sweep import sweep
from undertow.store.lock import Lock, Locked, Owner
from undertow.store.store import Store


def test_a_second_owner_is_refused_until_the_first_is_done(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with Lock(path) as first:
        assert first.held
        with pytest.raises(Locked, match=f"process {os.getpid()}"), Lock(path):
            pass
    assert not path.exists()
    with Lock(path) as second:
        assert second.held


def leave_lock(path: Path, owner: Owner, *, age: float = 0.0) -> None:
    path.write_text(json.dumps(asdict(owner)))
    then = time.time() - age
    os.utime(path, (then, then))


def test_the_lock_of_a_killed_process_is_stale(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    child = os.fork()
    if child == 0:
        with Lock(path):
            time.sleep(60)
        os._exit(0)
    while not path.exists() or not path.read_text():
        time.sleep(0.01)
    with pytest.raises(Locked), Lock(path):
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with Lock(path) as lock:
        assert lock.held


def test_a_reused_process_id_is_not_the_owner(tmp_path: Path) -> None:
    leave_lock(tmp_path / "a.lock", replace(Owner.current(), started="1"))
    with Lock(tmp_path / "a.lock") as lock:
        assert lock.held


def test_another_hosts_lock_is_stale_without_a_heartbeat(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    elsewhere = replace(Owner.current(), host="elsewhere/boot")
    leave_lock(path, elsewhere, age=60)
    with pytest.raises(Locked, match=r"on elsewhere.*after 120 s"), Lock(path, stale_after=120):
        pass
    leave_lock(path, elsewhere, age=200)
    with Lock(path, stale_after=120) as lock:
        assert lock.held


def test_the_heartbeat_keeps_a_lock_fresh(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with Lock(path, heartbeat=0.02):
        os.utime(path, (0, 0))
        deadline = time.monotonic() + 5
        while path.stat().st_mtime == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert time.time() - path.stat().st_mtime < 5


def test_an_owner_that_lost_its_lock_writes_no_checkpoint(tmp_path: Path) -> None:
    store, group = Store(tmp_path), tiny_study().groups[0]
    path = tmp_path / "locks" / f"{group.id}.lock"

    def taken_over() -> bool:
        leave_lock(path, replace(Owner.current(), host="elsewhere/boot"))
        return True

    with pytest.raises(StoreError, match="taken over by another process"):
        run_group(store, group, stop=taken_over)
    assert path.exists()
    assert not list((tmp_path / "work" / group.id).glob("checkpoint-*"))


def test_two_processes_on_one_store(tmp_path: Path) -> None:
    study = tiny_study(training={"learning_rate": 0.05, "epochs": 150})
    alone, shared = Store(tmp_path / "alone"), Store(tmp_path / "shared")
    sweep(alone, study, engine=Here())
    children = []
    for _ in range(2):
        child = os.fork()
        if child == 0:
            try:
                outcome = sweep(shared, study, engine=Here(checkpoint_seconds=0.01))
                os._exit(0 if outcome.complete and not outcome.notes else 1)
            finally:
                os._exit(2)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]
    assert fingerprint(shared) == fingerprint(alone)
    owners = {shared.trial(t).provenance["group"]["id"] for t in shared.finished()}
    assert len(owners) == len(study.groups)
