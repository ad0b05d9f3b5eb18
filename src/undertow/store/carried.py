"""What of a store has to be carried to where it goes on: finished trials, the newest checkpoints, the studies.

A machine that forgets everything is given what was brought from it before, and leaves what is new in files that can be
sent (``undertow.store.pieces``). Everything that arrives is verified by the checksums that it has in a store anyway: a
trial's manifest, a checkpoint's and a study's seal. Trials never change, and of two checkpoints the one with more steps
counts, so it does not matter in which order, how often, or from how many machines files are taken.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from undertow.core.canonical import dumps, unseal
from undertow.core.errors import StoreError
from undertow.core.files import read_regular
from undertow.store.atomic import make_folder, replace_file
from undertow.store.lock import Lock, Locked
from undertow.store.pieces import Parcel, cut, read_pieces, write_pieces
from undertow.store.store import Store
from undertow.store.unfinished import checkpoint_files, checkpoint_step, trials_of

__all__ = ["Brought", "Packed", "Packer", "take_up"]

_HARDLY = 1.2  # by so much weights may shrink at most
_KINDS = ("study", "trial", "group")
_ID = re.compile(r"[0-9a-f]{8,64}")
_LABEL = re.compile(r"[a-z0-9][a-z0-9.-]{0,199}")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")


@dataclass(frozen=True)
class _Item:
    """A study, a finished trial or a group in progress: its files by their names."""

    kind: str
    name: str
    files: dict[str, bytes]

    def packed(self, label: str) -> Parcel:
        """A line that says what it is, then the files."""
        names = sorted(self.files)
        sizes = [[name, len(self.files[name])] for name in names]
        head = dumps({"kind": self.kind, "name": self.name, "files": sizes})
        return Parcel.of(b"\n".join((head, b"".join(self.files[name] for name in names))), label)

    @classmethod
    def of(cls, content: bytes) -> _Item:
        """The item again; raises ``ValueError`` where it is none, or would lie elsewhere than in its folder."""
        head, _, data = content.partition(b"\n")
        try:
            known = json.loads(head)
            kind, name = str(known["kind"]), str(known["name"])
            sizes = [(str(each), int(size)) for each, size in known["files"]]
        except (KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"no item: {error}") from None
        named = (_LABEL if kind == "study" else _ID).fullmatch(name)
        if kind not in _KINDS or not named or not all(_FILE.fullmatch(each) for each, _ in sizes):
            raise ValueError("no item: its names are not those of a store")
        files, start = {}, 0
        for each, size in sizes:
            files[each] = data[start : start + size]
            start += size
        if start != len(data):
            raise ValueError("no item: its files do not end where it ends")
        return cls(kind, name, files)


@dataclass(frozen=True)
class Brought:
    """What the pieces of ``folder`` had: trials and studies that the store has now, the step of every group's newest
    checkpoint and the trials that are ``begun`` with these, and a sentence for whatever was not taken.

    ``whole`` are the files that are needed no longer, since all of them is in the store.
    """

    folder: Path | None
    trials: frozenset[str] = frozenset()
    steps: dict[str, int] = field(default_factory=dict)
    begun: frozenset[str] = frozenset()
    studies: frozenset[str] = frozenset()
    whole: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()


def take_up(store: Store, folder: Path) -> Brought:
    """Put everything that is whole in a folder's pieces into the store; what the store has, it keeps.

    Nothing is wrong with a folder that is empty or not there: so it is at the first time.
    """
    arrived = read_pieces(folder)
    notes: list[str] = []
    items = []
    for content in arrived.contents:
        try:
            items.append(_Item.of(content))
        except ValueError:
            notes.append(f"{folder} holds something that is not of a store: it was left alone.")
    studies = {each.name: each.files for each in items if each.kind == "study"}
    trials = {each.name: each.files for each in items if each.kind == "trial"}
    for label, files in studies.items():
        notes += _take_study(store, label, files)
    notes += store.receive({name: files for name, files in trials.items() if name not in store})
    steps: dict[str, int] = {}
    begun: set[str] = set()
    for each in sorted((each for each in items if each.kind == "group"), key=_step, reverse=True):
        if each.name not in steps:  # the newest one of each group
            steps[each.name] = _step(each)
            begun |= trials_of(each.files)
            notes += _take_group(store, each)
    _remove_ended(store)
    there = frozenset(name for name in trials if name in store)
    whole = () if notes else arrived.whole
    return Brought(
        folder, there, steps, frozenset(begun), frozenset(studies), whole, (*arrived.notes, *notes)
    )


def _take_study(store: Store, label: str, files: dict[str, bytes]) -> list[str]:
    path = store.path / "studies" / f"{label}.json"
    data = files.get(path.name, b"")
    if path.exists():
        return []
    try:
        unseal(data, path)
    except StoreError:
        return [f"the study {label} arrived damaged: it was left alone."]
    make_folder(path.parent)
    replace_file(path, data)
    return []


def _step(item: _Item) -> int:
    return checkpoint_step(item.files)


def _take_group(store: Store, item: _Item) -> list[str]:
    """Put a checkpoint where the group goes on from it, unless the group is as far, or has ended."""
    if _has_ended(store, item.files):
        return []
    folder = store.path / "work" / item.name
    try:
        with Lock(store.path / "locks" / f"{item.name}.lock"):
            there = checkpoint_files(folder)
            if there is not None and checkpoint_step(there) >= _step(item):
                return []
            with tempfile.TemporaryDirectory(dir=make_folder(folder.parent), prefix="taken-") as scratch:
                for name, data in item.files.items():
                    replace_file(Path(scratch) / name, data)
                if checkpoint_files(Path(scratch)) is None:
                    return [f"the checkpoint of group {item.name} arrived damaged: it was left alone."]
                make_folder(folder)
                # The sealed document comes last: until then the older checkpoint counts, whose records are a part.
                for name in sorted(item.files, key=lambda name: name.endswith(".json")):
                    (Path(scratch) / name).replace(folder / name)
            for path in folder.iterdir():
                if path.name not in item.files:
                    path.unlink()
    except Locked as locked:
        return [f"the checkpoint of group {item.name} was not taken: {locked}"]
    return []


def _remove_ended(store: Store) -> None:
    """Checkpoints of groups whose trials have all arrived: nobody would come back to remove them."""
    for folder in _groups(store):
        files = checkpoint_files(folder)
        if files is not None and _has_ended(store, files):
            try:
                with Lock(store.path / "locks" / f"{folder.name}.lock"):
                    shutil.rmtree(folder, ignore_errors=True)
            except Locked:
                continue


def _has_ended(store: Store, files: dict[str, bytes]) -> bool:
    trials = trials_of(files)
    return bool(trials) and all(trial in store for trial in trials)


def _groups(store: Store) -> list[Path]:
    return sorted(path for path in (store.path / "work").glob("*") if _ID.fullmatch(path.name))


@dataclass(frozen=True)
class Packed:
    """What was written, how many trials and checkpoints of it, and a sentence for what found no place."""

    files: tuple[Path, ...]
    bytes: int
    trials: int
    checkpoints: int
    notes: tuple[str, ...]


class Packer:
    """Writes what is new in ``store`` into ``folder``, as often as wanted: the files of the time before are replaced.

    What was ``brought`` is not packed again, but for groups that have gone on. Where ``folder`` is where it was brought
    from, everything is packed instead and replaces it: what several calls left, old checkpoints among it, is then
    there once.

    Args:
        largest: Bytes of a file at most.
        most: Files at most: studies and trials come first, then checkpoints.
        trials: These alone, beside what was brought; all where None.
        first: Groups in the order in which their checkpoints matter.
    """

    def __init__(
        self,
        store: Store,
        folder: Path,
        *,
        largest: int,
        most: int | None = None,
        brought: Brought | None = None,
        trials: Collection[str] | None = None,
        first: Sequence[str] = (),
    ) -> None:
        self._store, self._folder, self._largest, self._most = store, folder, largest, most
        brought = brought or Brought(folder=None)
        anew = brought.folder is not None and brought.folder.resolve() == folder.resolve()
        self._known = Brought(folder=None) if anew else brought
        self._replaced = set(brought.whole) if anew else set()
        self._written: set[Path] = set()
        self._wanted = None if trials is None else {*trials, *brought.trials, *brought.begun}
        self._first = {group: place for place, group in enumerate(first)}
        self._parcels: dict[str, Parcel] = {}  # of trials, which never change

    def write(self) -> Packed:
        """Pack what there is at this moment."""
        notes: list[str] = []
        parcels = [*self._studies(notes), *self._trials(notes), *self._checkpoints(notes)]
        pieces, without = cut(parcels, largest=self._largest, most=self._most)
        paths = write_pieces(self._folder, pieces)
        # What was brought goes only when all of it is in the new files.
        stays = without or notes
        for old in (self._written | (set() if stays else self._replaced)) - set(paths):
            old.unlink(missing_ok=True)
        self._written = set(paths)
        notes += [f"{each.label} found no place: {len(each.packed) / 1e6:.1f} MB." for each in without]
        kinds = [each.label.partition(" ")[0] for each in parcels if each not in without]
        size = sum(map(len, pieces))
        return Packed(tuple(paths), size, kinds.count("trial"), kinds.count("checkpoint"), tuple(notes))

    def _studies(self, notes: list[str]) -> Iterator[Parcel]:
        for label in self._store.labels() if (self._store.path / "studies").is_dir() else ():
            try:
                trials = [trial for trial, _ in self._store.study(label).trials]
                path = self._store.path / "studies" / f"{label}.json"
                files = {path.name: read_regular(path)}
            except (StoreError, OSError) as error:
                notes.append(str(error))
                continue
            if label not in self._known.studies and self._is_wanted(trials):
                yield _Item("study", label, files).packed(f"study {label}")

    def _trials(self, notes: list[str]) -> Iterator[Parcel]:
        for trial in self._store.finished():
            if trial in self._known.trials or not self._is_wanted([trial]):
                continue
            if trial not in self._parcels:
                try:
                    files = self._store.files(trial)
                except StoreError as error:
                    notes.append(str(error))
                    continue
                self._parcels[trial] = _Item("trial", trial, files).packed(f"trial {trial}")
            yield self._parcels[trial]

    def _checkpoints(self, notes: list[str]) -> Iterator[Parcel]:
        last, room = len(self._first), math.inf if self._most is None else self._most * self._largest
        for folder in sorted(_groups(self._store), key=lambda each: self._first.get(each.name, last)):
            files = checkpoint_files(folder)
            if files is None or checkpoint_step(files) <= self._known.steps.get(folder.name, -1):
                continue
            if not self._is_wanted(trials_of(files)) or _has_ended(self._store, files):
                continue
            label, size = f"checkpoint of group {folder.name}", sum(map(len, files.values()))
            if size > _HARDLY * room:  # packing hundreds of megabytes for nothing takes a minute
                notes.append(f"{label} found no place: {size / 1e6:.1f} MB.")
            else:
                yield _Item("group", folder.name, files).packed(label)

    def _is_wanted(self, trials: Collection[str]) -> bool:
        return self._wanted is None or not trials or not self._wanted.isdisjoint(trials)
