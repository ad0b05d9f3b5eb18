"""What is carried between machines that forget everything: nothing lost, nothing twice, the same bytes in the end."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.execution.sweeps import fingerprint, flip, tiny_study
from undertow.config.grid import Group, StudyConfig
from undertow.execution.engines.here import Here
from undertow.execution.sweep import SweepOutcome, sweep
from undertow.execution.watch import Watch
from undertow.store.atomic import make_folder
from undertow.store.carried import Packed, Packer, take_up
from undertow.store.lock import Lock
from undertow.store.store import Store
from undertow.store.unfinished import checkpoint_files, checkpoint_step

MIB = 2**20
NO_WEIGHTS = ("records", "status", "config")


def study(epochs: int = 5, **changes: object) -> StudyConfig:
    """Two networks, each by itself, whose epochs may be taken back."""
    document = {
        "data": {"name": "kou-mixture", "n": 10, "d": 12, "sigma_p": 0.3, "seed": 3},
        "training": {
            "optimizer": "sgd",
            "batch_size": 2,
            "learning_rate": 8.0,
            "epochs": epochs,
            "rate": {"name": "loss-based", "ceiling": 20.0},
        },
        "probe": {"measures": ["loss"], "every": "epoch"},
        "grid": {"seed": [0, 1]},
        "group_size": 1,
    }
    return tiny_study(**{**document, **changes})


def go_on(store: Store, what: StudyConfig, *, looks: int | None = None) -> SweepOutcome:
    """To the end, or until it has been looked at so often."""
    seen = itertools.count(1)
    stop = (lambda: False) if looks is None else lambda: next(seen) >= looks
    return sweep(store, what, engine=Here(keep_weights=False), stop=stop)


def pack(store: Store, folder: Path, **options: object) -> Packed:
    return Packer(store, folder, **{"largest": MIB, **options}).write()  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    store = Store(tmp_path_factory.mktemp("undisturbed"))
    assert go_on(store, study()).complete
    return fingerprint(store, names=NO_WEIGHTS)


def test_from_machine_to_machine_it_is_the_same_training(undisturbed: dict[str, str], tmp_path: Path) -> None:
    carried = tmp_path / "carried"
    for machine in itertools.count():
        store = Store(tmp_path / f"machine{machine}")
        brought = take_up(store, carried)
        assert brought.notes == ()
        complete = go_on(store, study(), looks=10).complete
        new = pack(store, tmp_path / "new", brought=brought)
        assert new.notes == ()
        for path in new.files:
            path.rename(carried / path.name) if carried.exists() else shutil.copytree(path.parent, carried)
        if complete:
            break
        shutil.rmtree(store.path)
    assert machine >= 3
    home = Store(tmp_path / "home")
    assert take_up(home, carried).notes == ()
    assert fingerprint(home, names=NO_WEIGHTS) == undisturbed
    assert [stored.label for stored in home.studies()] == [study().label]
    assert not list((home.path / "work").glob("[0-9a-f]*"))  # all have ended


class Packing(Watch):
    """Packs at signs of life, as a command does that may be killed."""

    def __init__(self, packer: Packer, done: int) -> None:  # noqa: ARG002
        self._packer, self._seen = packer, itertools.count()

    def progress(self, group: Group, step: int, steps: int, note: str = "") -> None:  # noqa: ARG002
        if next(self._seen) % 8 == 0:
            self._packer.write()

    def ended(self, group: Group, *, finished: bool) -> None:  # noqa: ARG002
        self._packer.write()


def killed_at(count: int) -> Callable[[int], None]:
    """``os.fsync`` that kills its process at the so many-th call: between any two writes of checkpoints and packs."""
    calls, sync = itertools.count(1), os.fsync

    def fsync(descriptor: int) -> None:
        if next(calls) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        sync(descriptor)

    return fsync


def test_machines_that_are_killed_leave_what_was_packed(tmp_path: Path) -> None:
    long, kills = study(12), (7, 12, 19, 25, 34, 60)
    assert go_on(Store(tmp_path / "undisturbed"), long).complete
    restarts = 0
    for machine in range(len(kills) + 1):
        store, carried, new = (Store(tmp_path / "forgets"), tmp_path / "carried", tmp_path / "new")
        child = os.fork()
        if child == 0:  # torch is imported already, so that the fork starts at once
            try:
                if machine < len(kills):
                    vars(os)["fsync"] = killed_at(kills[machine])
                packer = Packer(store, new, largest=20_480, brought=take_up(store, carried))
                engine = Here(checkpoint_seconds=0.0, keep_weights=False)
                outcome = sweep(store, long, engine=engine, watch=partial(Packing, packer))
                packer.write()
                os._exit(0 if outcome.complete else 1)
            finally:
                os._exit(2)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0
        shutil.rmtree(store.path, ignore_errors=True)
        for path in new.glob("*"):
            path.rename(make_folder(carried) / path.name)
        home = Store(tmp_path / f"home{machine}")
        restarts = max(restarts, len(take_up(home, carried).steps))
    expected = fingerprint(Store(tmp_path / "undisturbed"), names=NO_WEIGHTS)
    assert fingerprint(home, names=NO_WEIGHTS) == expected
    assert restarts > 0  # they did go on, and not begin again


def test_taking_up_is_killed_and_the_older_checkpoint_is_still_there(tmp_path: Path) -> None:
    store, long = Store(tmp_path / "one"), study(40)
    begun(store, long, looks=5)
    pack(store, tmp_path / "older")
    ((group, newest),) = begun(store, long, looks=5).items()
    pack(store, tmp_path / "newer")
    for count in range(1, 30):
        home = Store(tmp_path / f"home{count}")
        older = take_up(home, tmp_path / "older").steps[group]
        child = os.fork()
        if child == 0:
            vars(os)["fsync"] = killed_at(count)
            take_up(home, tmp_path / "newer")
            os._exit(0)
        _, status = os.waitpid(child, 0)
        found = checkpoint_files(home.path / "work" / group)
        assert found is not None
        assert checkpoint_step(found) in (older, newest)
        assert take_up(home, tmp_path / "newer").notes == ()
        assert checkpoint_step(checkpoint_files(home.path / "work" / group) or {}) == newest
        if not os.WIFSIGNALED(status):
            break
    assert count > 3


def begun(store: Store, what: StudyConfig, *, looks: int) -> dict[str, int]:
    """How far the groups are after so many looks, by their newest checkpoints."""
    go_on(store, what, looks=looks)
    folders = (store.path / "work").glob("[0-9a-f]*")
    return {folder.name: checkpoint_step(checkpoint_files(folder) or {}) for folder in folders}


def test_nothing_is_packed_twice_and_one_folder_has_everything_once(tmp_path: Path) -> None:
    carried, first = tmp_path / "carried", Store(tmp_path / "first")
    long = study(40)
    begun(first, long, looks=6)
    assert pack(first, carried).checkpoints == 1
    second = Store(tmp_path / "second")
    brought = take_up(second, carried)
    nothing = pack(second, tmp_path / "new", brought=brought)
    assert (nothing.files, nothing.trials, nothing.checkpoints) == ((), 0, 0)
    steps = begun(second, long, looks=6)
    assert steps != brought.steps
    new = pack(second, tmp_path / "new", brought=brought)
    assert (new.trials, new.checkpoints) == (0, 1)
    for path in new.files:
        path.rename(carried / path.name)
    # At home both calls' files become one, with the newer checkpoint alone.
    home = Store(tmp_path / "home")
    both = take_up(home, carried)
    assert both.steps == steps
    once = pack(home, carried, brought=both)
    assert (once.trials, once.checkpoints) == (0, 1)
    assert set(carried.iterdir()) == set(once.files)
    assert take_up(Store(tmp_path / "third"), carried).steps == steps
    assert go_on(home, long).complete
    whole = pack(home, carried, brought=take_up(Store(tmp_path / "fourth"), carried))
    assert (whole.trials, whole.checkpoints) == (2, 0)
    assert set(carried.iterdir()) == set(whole.files)


def test_what_was_brought_of_other_parts_stays_in_the_folder(tmp_path: Path) -> None:
    carried, store, other = tmp_path / "carried", Store(tmp_path / "one"), Store(tmp_path / "other")
    steps = begun(store, study(40), looks=5)
    pack(store, carried)
    assert go_on(other, study(grid={"seed": [7]})).complete
    pack(other, carried)
    home, unlike = Store(tmp_path / "home"), study(grid={"seed": [8]})
    brought = take_up(home, carried)
    assert go_on(home, unlike).complete
    packed = pack(home, carried, brought=brought, trials=[point.trial.id for point in unlike.points])
    assert (packed.trials, packed.checkpoints) == (2, 1)
    again = take_up(Store(tmp_path / "again"), carried)
    assert (again.steps, len(again.trials)) == (steps, 2)


def test_the_newer_checkpoint_counts_in_whatever_order_they_come(tmp_path: Path) -> None:
    store, long = Store(tmp_path / "one"), study(40)
    begun(store, long, looks=5)
    pack(store, tmp_path / "older")
    (group, newest), *_ = begun(store, long, looks=5).items()
    pack(store, tmp_path / "newer")
    for order in (("older", "newer"), ("newer", "older")):
        home = Store(tmp_path / "-".join(order))
        for folder in order:
            assert take_up(home, tmp_path / folder).notes == ()
        found = checkpoint_files(home.path / "work" / group)
        assert found is not None
        assert checkpoint_step(found) == newest
        assert len(list((home.path / "work" / group).glob("*.safetensors"))) == 1


def test_a_group_that_has_no_record_yet_is_carried(tmp_path: Path) -> None:
    late = study(probe={"measures": ["loss"], "every": "at 300 decades"})
    store, home = Store(tmp_path / "one"), Store(tmp_path / "home")
    steps = begun(store, late, looks=6)
    ids = [trial.id for trial in late.groups[0].trials]
    assert pack(store, tmp_path / "carried", trials=ids).checkpoints == 1
    assert take_up(home, tmp_path / "carried").steps == steps
    assert begun(home, late, looks=1) == steps
    assert pack(store, tmp_path / "others", trials=["0" * 16]).checkpoints == 0


def test_networks_that_are_kept_on_the_way_come_with_their_checkpoint(tmp_path: Path) -> None:
    keeping = study(probe={"measures": ["loss"], "every": "epoch", "keep": "epoch"})
    store, home = Store(tmp_path / "one"), Store(tmp_path / "home")
    seen = itertools.count(1)
    sweep(store, keeping, engine=Here(), stop=lambda: next(seen) >= 9)
    (folder,) = (store.path / "work").glob("[0-9a-f]*")
    assert list(folder.glob("*.kept-*.safetensors"))
    pack(store, tmp_path / "carried")
    take_up(home, tmp_path / "carried")
    assert sweep(home, keeping, engine=Here()).complete
    assert sweep(store, keeping, engine=Here()).complete
    everything = (*NO_WEIGHTS, "weights", "kept-step")
    assert any(name.startswith("kept-") for name in home.trial(home.finished()[0]).files)
    assert fingerprint(home, names=everything) == fingerprint(store, names=everything)
    next(iter(folder.parent.parent.glob("trials/*/kept-*"))).unlink()  # what is not whole is not packed
    assert any("is missing" in note for note in pack(store, tmp_path / "damaged").notes)


def test_what_finds_no_place_is_told_and_stays_where_it_was_brought(tmp_path: Path) -> None:
    store, carried = Store(tmp_path / "one"), tmp_path / "carried"
    wide = study(60, model={"name": "two-layer", "width": 2000, "init": {"name": "gaussian", "std": 0.1}})
    begun(store, wide, looks=4)
    before = set(pack(store, carried).files)
    begun(store, wide, looks=4)
    brought = take_up(store, carried)
    packed = pack(store, carried, largest=20_480, most=1, brought=brought)
    assert packed.checkpoints == 0
    (note,) = packed.notes
    assert note.startswith("checkpoint of group ")
    assert "found no place" in note
    assert before < set(carried.iterdir())  # the older one is all that there is of it


def damaged_trial(store: Store) -> None:
    flip(store.folder(store.finished()[0]) / "records.jsonl", 40)


def damaged_checkpoint(store: Store) -> None:
    flip(next(store.path.glob("work/*/*.safetensors")), 200)


def damaged_study(store: Store) -> None:
    for path in (store.path / "studies").iterdir():  # and its copy
        flip(path, 40)


@pytest.mark.parametrize("damage", [damaged_trial, damaged_checkpoint, damaged_study])
def test_what_is_damaged_is_not_packed(damage: Callable[[Store], None], tmp_path: Path) -> None:
    store, home = Store(tmp_path / "one"), Store(tmp_path / "home")
    assert go_on(store, study(grid={"seed": [0]})).complete
    begun(store, study(40), looks=5)
    whole = pack(store, tmp_path / "carried")
    assert (whole.trials, whole.checkpoints) == (1, 1)
    damage(store)
    less = pack(store, tmp_path / "less")
    assert less.trials + less.checkpoints == (2 if damage is damaged_study else 1)
    assert take_up(home, tmp_path / "less").notes == ()


def test_a_group_that_somebody_works_on_is_left_to_him(tmp_path: Path) -> None:
    store, home = Store(tmp_path / "one"), Store(tmp_path / "home")
    (group,) = begun(store, study(40), looks=5)
    pack(store, tmp_path / "carried")
    with Lock(home.path / "locks" / f"{group}.lock"):
        brought = take_up(home, tmp_path / "carried")
    assert "is being worked on" in brought.notes[0]
    assert brought.whole == ()
    assert take_up(home, tmp_path / "carried").notes == ()
