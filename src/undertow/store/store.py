"""The store: where finished trials live, and how they are found to be whole.

::

    RUNS/
      studies/NAME.VARIANT.SCALE….json  a study, or a part of one: configuration and trials (kept twice)
      trials/ID/                        a finished trial: config.json, provenance.json, records.jsonl, status.json,
                                        manifest.json; where they are kept, weights.safetensors,
                                        examples.safetensors and kept-step….safetensors, networks on the way
      work/GROUP/                       a group in progress: checkpoints, records and kept networks so far
      failures/GROUP.txt                why a group failed, until it finishes after all
      locks/                            who is working on what
      damaged/                          trials that failed their checksums, moved out of the way

A trial's folder appears in one rename after everything in it is on the disk: visible means finished and
whole. The manifest holds the SHA-256 of every other file and of itself, and all are verified on reading.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undertow.config.study_names import whole_label
from undertow.core.canonical import digest, file_digest, seal, unseal
from undertow.core.errors import StoreError
from undertow.core.files import read_regular
from undertow.store.atomic import make_folder, publish_folders, replace_file, sync, writing
from undertow.store.lock import guard
from undertow.store.own_loop import OwnLoop
from undertow.store.record_files import are_of
from undertow.store.stored_study import StoredStudy, distinct, parse_study
from undertow.store.stored_trial import FinishedTrial, StoredTrial

if TYPE_CHECKING:
    import polars

    from undertow.config.grid import StudyConfig

__all__ = ["Store"]

_REDO = "run `undertow resume` to compute that trial again."
_ALWAYS = ("config.json", "provenance.json", "records.jsonl", "status.json")
_LARGEST_DOCUMENT = 256 * 2**20  # bytes of a study or a manifest
_READ_AT_ONCE = 64 * 2**20


class Store:
    """The trials under one folder of runs: whole or not there, checksums verified whenever they are read.

    ``frame()`` has their records as one polars frame, ``trial(id)`` one of them with its weights, ``studies()`` the
    grids that they belong to, ``sink(name)`` takes the records of a loop of your own. What is damaged is set aside and
    computed again when its study is resumed; a ``read_only`` store mends nothing.

    >>> from undertow.probe import Probe, StableRank
    >>> import tempfile, torch
    >>> store = Store(tempfile.mkdtemp())
    >>> net, x = torch.nn.Linear(2, 1), torch.ones(3, 2)
    >>> probe = Probe(net, x, measures=[StableRank()], sinks=[store.sink("mine", config={"width": 1})])
    >>> _ = probe.training_end()
    >>> len(store.finished()), store.frame()["measure"].unique().to_list()
    (1, ['stable-rank'])
    """

    def __init__(self, path: str | Path, *, read_only: bool = False) -> None:
        self.path = Path(path)
        self.read_only = read_only

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    # Trials

    def folder(self, trial: str) -> Path:
        """Where a finished trial is."""
        return self.path / "trials" / trial

    def finished(self) -> list[str]:
        """The identities of the finished trials; nothing is verified yet."""
        return sorted(path.name for path in (self.path / "trials").glob("[0-9a-f]*") if path.is_dir())

    def __contains__(self, trial: str) -> bool:
        return self.folder(trial).is_dir()

    def trial(self, trial: str) -> StoredTrial:
        """A finished trial, every byte verified; raises ``StoreError`` naming the damaged file."""
        folder = self.folder(trial)
        try:
            there = {path.name for path in folder.iterdir()} - {"manifest.json"}
        except OSError as error:
            raise StoreError(f"trial {trial} cannot be read from {folder}: {error.strerror}.") from None
        manifest = unseal(_read(folder / "manifest.json"), folder / "manifest.json")
        known = _checksums(manifest, folder)
        for name in sorted(known.keys() | there):
            if name not in there:
                raise StoreError(f"{folder / name} is missing: {_REDO}")
            if name not in known:
                raise StoreError(f"{folder / name} does not belong there: remove it.")
        files = {name: _read_verified(folder / name, checksum) for name, checksum in known.items()}
        for name in _ALWAYS:
            if name not in files:
                raise StoreError(f"{folder / name} is missing: {_REDO}")
        for name in ("provenance.json", "status.json"):
            if not _is_document(files[name]):
                raise StoreError(f"{folder / name} is damaged, it holds no document: {_REDO}")
        identity = digest(files["config.json"])
        if not identity.startswith(trial) or not str(manifest.get("trial")).startswith(trial):
            raise StoreError(f"{folder} holds another trial than its name says: {_REDO}")
        if not are_of(files["records.jsonl"], trial):
            raise StoreError(f"{folder / 'records.jsonl'} holds records of another trial: {_REDO}")
        return StoredTrial(trial, files)

    def publish(self, finished: Sequence[FinishedTrial], *, scratch: Path | None = None) -> None:
        """Make finished trials visible, each whole and in one stroke; those that were there already stay.

        They are put together in ``scratch``, a folder on the same file system.
        """
        make_folder(self.path / "trials")
        folders = {self.folder(trial.config.id): trial.files() for trial in finished}
        publish_folders(folders, scratch=scratch or self.path / "work")

    def files(self, trial: str) -> dict[str, bytes]:
        """The folder of a finished trial, to be taken to another store: its verified files and their manifest."""
        return {**self.trial(trial).files, "manifest.json": _read(self.folder(trial) / "manifest.json")}

    def receive(self, trials: Mapping[str, Mapping[str, bytes]]) -> list[str]:
        """Make trials visible that come from another store's ``files``; those that were there already stay.

        Returns a sentence for each that did not arrive whole: it is set aside.
        """
        make_folder(self.path / "trials")
        folders = {self.folder(trial): files for trial, files in trials.items()}
        publish_folders(folders, scratch=self.path / "work")
        return [note for trial in trials if (note := self.set_aside(trial))]

    def set_aside(self, trial: str) -> str | None:
        """Move a trial that is not whole out of the way, so that it counts as not yet done.

        Returns a sentence saying what was wrong and where it is now; None when nothing was wrong.
        """
        try:
            self.trial(trial)
            return None
        except StoreError:
            pass
        aside = make_folder(self.path / "damaged") / f"{trial}.{uuid.uuid4().hex[:8]}"
        # Looked at again under the guard: another process may have replaced it by a whole one meanwhile.
        with guard(make_folder(self.path / "locks")):
            try:
                self.trial(trial)
            except StoreError as error:
                if trial not in self:
                    return None
                with writing(aside):
                    self.folder(trial).rename(aside)
                    sync(aside.parent)
                return f"{str(error).partition(': run')[0]}; it was moved to {aside} and is computed again."
        return None

    # Studies

    def add_study(self, study: StudyConfig) -> StoredStudy:
        """Write down a study, so that it can be resumed and judged without its source."""
        trials = [[point.trial.id, point.columns] for point in study.points]
        return self._write_study(study.label, study.model_dump(mode="json"), trials)

    def add_trial(self, settings: Mapping[str, Any], trial: str, columns: Mapping[str, Any]) -> StoredStudy:
        """Add a trial to a study that grows one by one; ``settings`` name the study, and make it where it is new."""
        label = whole_label(settings["name"], settings["variant"], settings["scale"])
        with guard(make_folder(self.path / "locks")):
            known = (
                list(self.study(label).trials) if (self.path / "studies" / f"{label}.json").exists() else []
            )
            return self._write_study(label, settings, [*known, (trial, dict(columns))])

    def _write_study(self, label: str, settings: Mapping[str, Any], trials: Sequence[Any]) -> StoredStudy:
        data = seal({"study": dict(settings), "trials": [list(each) for each in trials]})
        folder = make_folder(self.path / "studies")
        for name in (f"{label}.json", f"{label}.copy"):
            if _content(folder / name) != data:
                replace_file(folder / name, data)
        return self.study(label)

    def labels(self) -> list[str]:
        """The names of the studies in the store; nothing is verified yet."""
        folder = self.path / "studies"
        if not folder.is_dir():
            found = "holds no studies" if self.path.is_dir() else "is no folder"
            raise StoreError(f"{self.path} {found}: start a study with `undertow reproduce`.")
        paths = [path for path in folder.glob("[a-z0-9]*") if path.suffix in (".json", ".copy")]
        return sorted({path.stem for path in paths})

    def studies(self) -> list[StoredStudy]:
        """The studies in the store, by label; a copy of one under another name is left out."""
        return distinct((label, self.study(label)) for label in self.labels())

    def study(self, label: str) -> StoredStudy:
        """One study; when one of its two files is damaged the other is read, and mends it."""
        paths = [self.path / "studies" / f"{label}.{ending}" for ending in ("json", "copy")]
        problem = StoreError(f"{self.path} holds no study {label}.")
        for path, other in (paths, paths[::-1]):
            try:
                data = read_regular(path, largest=_LARGEST_DOCUMENT)
                stored = parse_study(unseal(data, path), path)
            except FileNotFoundError:
                continue
            except OSError as error:
                problem = StoreError(f"{path} cannot be read: {error.strerror}.")
                continue
            except StoreError as error:
                problem = error
                continue
            if not self.read_only and stored.label == label and _content(other) != data:
                with contextlib.suppress(StoreError):  # a read-only store can still be read
                    replace_file(other, data)
            return stored
        raise problem

    # Records of other people's loops

    def sink(self, name: str, *, config: Mapping[str, Any] | None = None) -> OwnLoop:
        """Makes a trial of the study ``name`` of a probe's records: ``Probe(…, sinks=[store.sink("mine", config=…)])``.

        ``config`` holds the loop's own settings, such as ``vars(args)``.
        """
        return OwnLoop(self, name, config=config)

    # Reading

    def frame(self, *studies: StoredStudy, so_far: bool = False) -> polars.DataFrame:
        """Every record of every finished trial (of ``studies``) as a polars frame, checksums verified.

        Columns: ``trial, step, epoch, measure, key, value, error, status, study, variant, scale, part`` and
        the axes of the grids. A trial that belongs to several studies appears once for each. With ``so_far`` trials
        that are still being trained are among them, with what was measured up to their last checkpoint.
        """
        from undertow.store.frame import frame  # polars, which whoever trains need not have

        return frame(self, list(studies) or self.studies(), so_far=so_far)


def _content(path: Path) -> bytes | None:
    """What a study's file holds; None where it is missing or cannot be read."""
    try:
        return read_regular(path, largest=_LARGEST_DOCUMENT)
    except OSError:
        return None


def _checksums(manifest: Mapping[str, Any], folder: Path) -> dict[str, str]:
    known = manifest.get("files")
    # Names that lead elsewhere are no names of files in the folder.
    if not isinstance(known, dict) or not all(name == Path(name).name and "\0" not in name for name in known):
        raise StoreError(f"{folder / 'manifest.json'} is damaged: it lists no files. {_REDO.capitalize()}")
    return {name: str(checksum) for name, checksum in known.items()}


def _is_document(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data), dict)
    except (ValueError, RecursionError):
        return False


def _read(path: Path, *, largest: int = _LARGEST_DOCUMENT) -> bytes:
    try:
        return read_regular(path, largest=largest)
    except FileNotFoundError:
        raise StoreError(f"{path} is missing: {_REDO}") from None
    except OSError as error:
        raise StoreError(f"{path} is damaged, {error.strerror}: {_REDO}") from None


def _read_verified(path: Path, checksum: str) -> bytes:
    damaged = StoreError(f"{path} is damaged, its checksum does not match: {_REDO}")
    try:
        # A large file is compared before it is read: what has grown to fill a disk must not fill the memory.
        if path.stat().st_size > _READ_AT_ONCE and file_digest(path) != checksum:
            raise damaged
        data = read_regular(path)
    except OSError as error:
        raise StoreError(f"{path} is damaged, {error.strerror}: {_REDO}") from None
    if digest(data) != checksum:
        raise damaged
    return data
