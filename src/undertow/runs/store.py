"""The store: where finished trials live, and how they are found to be whole.

::

    RUNS/
      studies/NAME.VARIANT.SCALE….json  a study, or a part of one: configuration and trials (kept twice)
      trials/ID/                        a finished trial: config.json, provenance.json, records.jsonl, status.json,
                                        manifest.json; where they are kept, weights.safetensors and
                                        examples.safetensors
      work/GROUP/                       a group in progress: checkpoints and the records so far
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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undertow.errors import StoreError
from undertow.probe.records import Record
from undertow.runs.atomic import make_folder, publish_folders, replace_file, sync, writing
from undertow.runs.canonical import digest, dumps, seal, unseal
from undertow.runs.config import TrialConfig, validate
from undertow.runs.grid import StudyConfig
from undertow.runs.lock import guard
from undertow.runs.records import parse

if TYPE_CHECKING:
    import polars
    from torch import Tensor

    from undertow.runs.examples import Examples

__all__ = ["FinishedTrial", "Store", "StoredStudy", "StoredTrial"]

_REDO = "run `undertow resume` to compute that trial again."


@dataclass(frozen=True)
class StoredTrial:
    """A finished trial whose checksums were verified."""

    id: str
    files: Mapping[str, bytes]

    @property
    def config(self) -> TrialConfig:
        """The resolved configuration."""
        return validate(TrialConfig, json.loads(self.files["config.json"]))

    @property
    def status(self) -> dict[str, Any]:
        """How it ended: ``status`` is "finished" or "diverged", with ``step`` and ``reason``."""
        document: dict[str, Any] = json.loads(self.files["status.json"])
        return document

    @property
    def provenance(self) -> dict[str, Any]:
        """Code, packages, hardware, seeds, data checksum, cost."""
        document: dict[str, Any] = json.loads(self.files["provenance.json"])
        return document

    @property
    def records(self) -> list[Record]:
        """What was measured."""
        return parse(self.files["records.jsonl"], Path(self.id) / "records.jsonl")

    @property
    def weights(self) -> dict[str, Tensor]:
        """The trained network's parameters; a ``StoreError`` where the trial was run without keeping them."""
        from undertow.runs.weights import unpack

        if "weights.safetensors" not in self.files:
            raise StoreError(
                f"trial {self.id} was run without keeping its weights (--no-weights), only its records: "
                "run it in another folder to have them."
            )
        return unpack(self.files["weights.safetensors"], Path(self.id) / "weights.safetensors")

    @property
    def examples(self) -> Examples | None:
        """Points and their closest adversarial examples, where the trial was told to keep some."""
        from undertow.runs.examples import read_examples

        name = "examples.safetensors"
        return read_examples(self.files[name], Path(self.id) / name) if name in self.files else None


@dataclass(frozen=True)
class FinishedTrial:
    """A trial to be published: what its folder will hold."""

    config: TrialConfig
    records: bytes
    weights: bytes | None
    status: Mapping[str, Any]
    provenance: Mapping[str, Any]
    examples: bytes | None = None

    def files(self) -> dict[str, bytes]:
        """The folder's files, the manifest with their checksums included."""
        files = {
            "config.json": dumps(self.config.model_dump(mode="json")),
            "provenance.json": dumps(self.provenance),
            "records.jsonl": self.records,
            "status.json": dumps(self.status),
        }
        if self.weights is not None:
            files["weights.safetensors"] = self.weights
        if self.examples is not None:
            files["examples.safetensors"] = self.examples
        checksums = {name: digest(data) for name, data in files.items()}
        return {**files, "manifest.json": seal({"trial": self.config.digest, "files": checksums})}


@dataclass(frozen=True)
class StoredStudy:
    """A study in the store: its configuration, and its trials' identities with their grid columns."""

    config: StudyConfig
    trials: tuple[tuple[str, dict[str, Any]], ...]


class Store:
    """The trials under one folder; a ``read_only`` one mends nothing that it finds damaged."""

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
            files = {path.name: path.read_bytes() for path in folder.iterdir()}
        except OSError as error:
            raise StoreError(f"trial {trial} cannot be read from {folder}: {error.strerror}.") from None
        if "manifest.json" not in files:
            raise StoreError(f"{folder / 'manifest.json'} is missing: {_REDO}")
        known = unseal(files.pop("manifest.json"), folder / "manifest.json")["files"]
        for name in sorted(known.keys() | files.keys()):
            if name not in files:
                raise StoreError(f"{folder / name} is missing: {_REDO}")
            if name not in known:
                raise StoreError(f"{folder / name} does not belong there: remove it.")
            if digest(files[name]) != known[name]:
                raise StoreError(f"{folder / name} is damaged, its checksum does not match: {_REDO}")
        if digest(files["config.json"])[: len(trial)] != trial:
            raise StoreError(f"{folder} holds another trial than its name says: {_REDO}")
        return StoredTrial(trial, files)

    def publish(self, finished: Sequence[FinishedTrial], *, scratch: Path | None = None) -> None:
        """Make finished trials visible, each whole and in one stroke; those that were there already stay.

        They are put together in ``scratch``, a folder on the same file system.
        """
        make_folder(self.path / "trials")
        folders = {self.folder(trial.config.id): trial.files() for trial in finished}
        publish_folders(folders, scratch=scratch or self.path / "work")

    def set_aside(self, trial: str) -> str | None:
        """Move a trial that is not whole out of the way, so that it counts as not yet done.

        Returns a sentence saying what was wrong and where it is now; None when nothing was wrong.
        """
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
        data = seal({"study": study.model_dump(mode="json"), "trials": trials})
        folder = make_folder(self.path / "studies")
        for name in (f"{study.label}.json", f"{study.label}.copy"):
            path = folder / name
            if not path.exists() or path.read_bytes() != data:
                replace_file(path, data)
        return self.study(study.label)

    def labels(self) -> list[str]:
        """The names of the studies in the store; nothing is verified yet."""
        folder = self.path / "studies"
        if not folder.is_dir():
            raise StoreError(f"{self.path} holds no studies: start one with `undertow reproduce`.")
        return sorted({path.name.rpartition(".")[0] for path in folder.glob("[a-z0-9]*.[jc]*")})

    def studies(self) -> list[StoredStudy]:
        """The studies in the store, by label."""
        return [self.study(label) for label in self.labels()]

    def study(self, label: str) -> StoredStudy:
        """One study; when one of its two files is damaged the other is read, and mends it."""
        paths = [self.path / "studies" / f"{label}.{ending}" for ending in ("json", "copy")]
        problem = StoreError(f"{self.path} holds no study {label}.")
        for path, other in (paths, paths[::-1]):
            try:
                data = path.read_bytes()
                document = unseal(data, path)
            except FileNotFoundError:
                continue
            except StoreError as error:
                problem = error
                continue
            if not self.read_only and (not other.exists() or other.read_bytes() != data):
                with contextlib.suppress(StoreError):  # a read-only store can still be read
                    replace_file(other, data)
            trials = tuple((trial, dict(columns)) for trial, columns in document["trials"])
            return StoredStudy(validate(StudyConfig, document["study"]), trials)
        raise problem

    # Reading

    def frame(self, *studies: StoredStudy) -> polars.DataFrame:
        """Every record of every finished trial (of ``studies``) as a polars frame, checksums verified.

        Columns: ``trial, step, epoch, measure, key, value, error, status, study, variant, scale, part`` and
        the axes of the grids. A trial that belongs to several studies appears once for each.
        """
        from undertow.runs.frame import frame

        return frame(self, list(studies) or self.studies())
