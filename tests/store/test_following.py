"""The state of a folder: what the files of real sweeps say, in every state a trial can be in."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.execution.sweeps import flip, tiny_study
from undertow.execution.engines.here import Here
from undertow.execution.group import run_group
from undertow.execution.sweep import sweep
from undertow.live.curve_points import Curves, Selection
from undertow.live.pace import time_left
from undertow.live.snapshot import snapshot
from undertow.probe.records import Record
from undertow.store.failures import write_failure
from undertow.store.folder import Folder
from undertow.store.followed_trials import Done, StudyPart
from undertow.store.following import Follower
from undertow.store.lock import Lock
from undertow.store.progress import Beacon, Progress
from undertow.store.record_files import encode_all
from undertow.store.store import Store

STUDY = tiny_study()


def counts(follower: Follower) -> dict[str, int]:
    follower.look()
    found: dict[str, int] = snapshot(follower)["counts"]
    return {state: number for state, number in found.items() if number}


def test_every_state_is_told_from_the_others(tmp_path: Path) -> None:
    store, follower = Store(tmp_path), Follower(Folder(tmp_path))
    follower.look()
    assert snapshot(follower)["trials"] == 0
    store.add_study(STUDY)
    assert counts(follower) == {"waiting": 12}
    first, second, third, _ = STUDY.groups
    run_group(store, first)
    assert counts(follower) == {"finished": 3, "waiting": 9}
    write_failure(tmp_path, second.id, [trial.id for trial in second.trials], sentence="why not?")
    write_failure(tmp_path, third.id, [trial.id for trial in third.trials], sentence="once more.")
    assert counts(follower) == {"finished": 3, "waiting": 3, "failed": 6}
    with Lock(tmp_path / "locks" / f"{third.id}.lock"):
        beacon = Beacon(tmp_path / "work" / third.id, third.id, [trial.id for trial in third.trials])
        beacon.tell(5, 20, b"")
        assert counts(follower) == {"finished": 3, "running": 3, "waiting": 3, "failed": 3}
        (group,) = snapshot(follower)["groups"]
        assert (group["step"], group["steps"], group["trials"]) == (5, 20, 3)
        assert group["shared"] == {"seed": 2}
    assert counts(follower) == {"finished": 3, "waiting": 3, "failed": 6}
    flip(store.folder(first.trials[0].id) / "status.json", 3)
    assert counts(Follower(Folder(tmp_path))) == {"finished": 2, "damaged": 1, "waiting": 3, "failed": 6}
    assert counts(follower) == {"finished": 3, "waiting": 3, "failed": 6}  # read when it was whole
    store.set_aside(first.trials[0].id)
    assert counts(follower) == {"finished": 2, "waiting": 4, "failed": 6}


def test_what_was_damaged_and_computed_again_is_read_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.add_study(STUDY)
    run_group(store, STUDY.groups[0])
    victim = STUDY.groups[0].trials[0].id
    flip(store.folder(victim) / "status.json", 3)
    follower = Follower(Folder(tmp_path))
    assert counts(follower) == {"finished": 2, "damaged": 1, "waiting": 9}
    version = follower.version
    assert counts(follower) == {"finished": 2, "damaged": 1, "waiting": 9}
    assert follower.version == version
    store.set_aside(victim)
    run_group(store, STUDY.groups[0])  # all this between two looks
    assert counts(follower) == {"finished": 3, "waiting": 9}
    assert follower.version > version


def test_a_dead_process_is_not_running(tmp_path: Path) -> None:
    Store(tmp_path).add_study(STUDY)
    group = STUDY.groups[0]
    path = tmp_path / "locks" / f"{group.id}.lock"
    with Lock(path) as lock:
        Beacon(tmp_path / "work" / group.id, group.id, [trial.id for trial in group.trials])
        left = path.read_bytes().replace(f'"{lock.owner.started}"'.encode(), b'"1"')
    path.write_bytes(left)  # as a killed process leaves it: its number may be in use again, by another
    assert counts(Follower(Folder(tmp_path))) == {"waiting": 12}


def test_a_failure_that_was_mended_elsewhere_is_none(tmp_path: Path) -> None:
    store, follower = Store(tmp_path), Follower(Folder(tmp_path))
    store.add_study(STUDY)
    group = STUDY.groups[0]
    write_failure(tmp_path, "beef", [trial.id for trial in group.trials], sentence="why not?")
    follower.look()
    assert list(follower.failures) == ["beef"]
    run_group(store, group)
    follower.look()
    assert follower.failures == {}


def test_a_diverged_trial_says_why(tmp_path: Path) -> None:
    study = tiny_study(training={"learning_rate": 1e9, "epochs": 30}, grid={"seed": [0]})
    sweep(Store(tmp_path), study, engine=Here())
    follower = Follower(Folder(tmp_path))
    assert counts(follower) == {"diverged": 1}
    assert next(iter(follower.done.values())).reason


def test_a_version_counts_changes_of_what_verdicts_rest_on(tmp_path: Path) -> None:
    store, follower = Store(tmp_path), Follower(Folder(tmp_path))
    versions = []
    for change in (
        lambda: None,
        lambda: store.add_study(STUDY),
        lambda: None,
        lambda: run_group(store, STUDY.groups[0]),
        lambda: None,
    ):
        change()
        follower.look()
        versions.append(follower.version)
    assert versions[0] < versions[1] == versions[2] < versions[3] == versions[4]


def test_a_part_that_shares_its_trials_with_another_knows_their_measures_too(tmp_path: Path) -> None:
    one, twin = (tiny_study(name=name, grid={"seed": [0, 1]}) for name in ("one", "twin"))
    Store(tmp_path).add_study(twin)
    sweep(Store(tmp_path), one, engine=Here())
    follower = Follower(Folder(tmp_path))
    follower.look()
    assert ("loss", "mean") in follower.measures[one.label]
    assert follower.measures[twin.label] == follower.measures[one.label]


def points(answer: dict[str, Any]) -> dict[str, list[tuple[int, float | None]]]:
    return {each["trial"]: list(zip(each["step"], each["value"], strict=True)) for each in answer["curves"]}


def test_curves_are_the_records_and_come_piece_by_piece(tmp_path: Path) -> None:
    store, follower = Store(tmp_path), Follower(Folder(tmp_path))
    store.add_study(STUDY)
    done, running = STUDY.groups[:2]
    run_group(store, done)
    trials = [trial.id for trial in running.trials]
    with Lock(tmp_path / "locks" / f"{running.id}.lock"):
        beacon = Beacon(tmp_path / "work" / running.id, running.id, trials, every=0.0)
        written = bytearray()
        for step in range(2):
            written += encode_all(Record(trial, step, 0, "loss", "mean", 0.5 + step) for trial in trials)
        beacon.tell(1, 9, written)
        follower.look()
        assert ("loss", "mean") in follower.measures[STUDY.label]
        curves = Curves(Selection(STUDY.label, "loss", "mean"), follower)
        curves.update()
        answer = curves.since(0)
        found = points(answer)
        assert found.keys() == {*trials, *(trial.id for trial in done.trials)}
        whole = {each["trial"] for each in answer["curves"] if each["whole"]}
        assert whole == {trial.id for trial in done.trials}
        assert set(answer["trials"]) == found.keys()
        for trial in done.trials:
            stored = [r for r in store.trial(trial.id).records if (r.measure, r.key) == ("loss", "mean")]
            assert [step for step, _ in found[trial.id]] == [r.step for r in stored]
            assert [value for _, value in found[trial.id]] == pytest.approx(
                [r.value for r in stored], rel=1e-5
            )
        assert found[trials[0]] == [(0, 0.5), (1, 1.5)]
        seen = answer["revision"]
        curves.update()
        assert curves.since(seen)["curves"] == []
        written += encode_all([Record(trials[0], 2, 0, "loss", "mean", math.inf)])
        beacon.tell(2, 9, written)
        curves.update()
        answer = curves.since(seen)
        assert points(answer) == {trials[0]: [(2, None)]}
        assert not answer["curves"][0]["anew"]
        seen = answer["revision"]
        again = Beacon(tmp_path / "work" / running.id, running.id, trials, every=0.0)
        again.tell(0, 9, encode_all(Record(trial, 0, 0, "loss", "mean", 0.5) for trial in trials))
        curves.update()
        answer = curves.since(seen)
        assert points(answer) == {trial: [(0, 0.5)] for trial in trials}
        assert all(each["anew"] for each in answer["curves"])


@pytest.mark.parametrize(
    ("measure", "key", "error", "sign"),
    [
        ("robust-accuracy", "0.5", None, "≤ "),
        ("cluster-radius", "native:certified@0.1", None, "≥ "),
        ("energy", "", 1e-3, ""),
        ("accuracy", "", None, ""),
    ],
)
def test_bounds_whose_error_nobody_knows_have_their_sign(
    measure: str, key: str, error: float | None, sign: str, tmp_path: Path
) -> None:
    Store(tmp_path).add_study(STUDY)
    running, follower = STUDY.groups[0], Follower(Folder(tmp_path))
    trials = [trial.id for trial in running.trials]
    with Lock(tmp_path / "locks" / f"{running.id}.lock"):
        beacon = Beacon(tmp_path / "work" / running.id, running.id, trials, every=0.0)
        beacon.tell(1, 9, encode_all([Record(trials[0], 1, 0, measure, key, 0.5, error)]))
        follower.look()
        curves = Curves(Selection(STUDY.label, measure, key), follower)
        curves.update()
        assert curves.since(0)["sign"] == sign


def test_long_curves_are_thinned_but_keep_their_ends(tmp_path: Path) -> None:
    study = tiny_study(
        training={"learning_rate": 0.001, "epochs": 1200},
        probe={"measures": ["loss"], "every": 1},
        grid={"seed": [0]},
    )
    store, follower = Store(tmp_path), Follower(Folder(tmp_path))
    sweep(store, study, engine=Here())
    follower.look()
    curves = Curves(Selection(study.label, "loss", "mean"), follower)
    curves.update()
    ((_, found),) = points(curves.since(0)).items()
    assert 250 < len(found) <= 501
    assert (found[0][0], found[-1][0]) == (0, 1200)


def test_a_damaged_trial_has_no_curve(tmp_path: Path) -> None:
    store = Store(tmp_path)
    sweep(store, STUDY, engine=Here())
    victim = store.finished()[0]
    flip(store.folder(victim) / "records.jsonl", 100)
    follower = Follower(Folder(tmp_path))
    follower.look()
    curves = Curves(Selection(STUDY.label, "loss", "mean"), follower)
    curves.update()
    found = points(curves.since(0))
    assert found.pop(victim) == []
    assert all(found.values())


PART = StudyPart(
    "s", "s", "own", "own", "main", {f"{w}-{s}": {"width": w, "seed": s} for w in (1, 9) for s in range(4)}
)
RUNNING = Progress("g", ("1-0", "1-1"), 50, 100, 0, 10.0, 0.0, 0.0, "here", 1)


def test_time_left_is_judged_by_trials_of_the_same_kind() -> None:
    done = {"9-0": Done("finished", seconds=30.0), "9-1": Done("finished", seconds=50.0)}
    waiting = {"1-2", "1-3", "9-2", "9-3"}
    left = time_left([PART], done, {"g": RUNNING}, waiting)
    # 5 s of the running group; two narrow ones at its pace, 100 / 10 / 2 s each; two wide ones at 40 s each
    assert left.seconds == pytest.approx(5 + 2 * 5 + 2 * 40)
    assert left.basis == "from the pace of 1 running group and 4 trials, last measurements not counted"
    other = replace(RUNNING, group="h", trials=("9-2",), step=0, rate=100 / 40)
    side_by_side = time_left([PART], done, {"g": RUNNING, "h": other}, waiting - {"9-2"})
    assert side_by_side.seconds == pytest.approx((5 + 40 + 2 * 5 + 40) / 2)


def test_time_left_counts_the_measurement_after_the_last_step() -> None:
    done = {"9-0": Done("finished", seconds=40.0, ending=30.0)}
    left = time_left([PART], done, {"g": RUNNING}, {"1-2"})
    # 5 s of steps and three times all 10 s of them; one more trial like the group's two, 40 s together
    assert left.seconds == pytest.approx(5 + 30 + 20)
    assert left.basis == "from the pace of 1 running group and 3 trials"
    over = replace(RUNNING, step=100)  # only told when it has been measured
    assert time_left([PART], done, {"g": over}, set()).seconds == 0
    elsewhere = replace(PART, trials={"9-0": {"width": 9}}), replace(PART, trials={"1-0": {}, "1-1": {}})
    assert time_left(elsewhere, done, {"g": RUNNING}, set()).seconds == pytest.approx(5)


def test_all_is_done_only_when_nothing_has_failed() -> None:
    done = {trial: Done("finished") for trial in PART.trials}
    assert time_left([PART], done, {}, set()).basis == "all is done"
    failed = {trial: each for trial, each in done.items() if trial != "9-3"}
    assert time_left([PART], failed, {}, set()).basis == "nothing is running"
    damaged = {**done, "9-3": Done("damaged")}
    assert time_left([PART], damaged, {}, set()).basis == "nothing is running"


def test_time_left_is_not_made_up() -> None:
    assert time_left([PART], {}, {}, set(PART.trials)).seconds is None
    young = replace(RUNNING, rate=None)
    unknown = time_left([PART], {}, {"g": young}, {"9-0"})
    assert unknown.seconds is None
    assert "has run yet" in unknown.basis
    assert time_left([PART], {}, {"g": RUNNING}, set()).seconds == pytest.approx(5.0)
