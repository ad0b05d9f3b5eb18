"""Checkpoints of a group in progress: safetensors and a sealed JSON file beside it.

The JSON file is written last and names the tensors' checksum and how many bytes of records belong to this
moment. A checkpoint counts only when all three agree; the one before it is kept until then and after, so
that a damaged newest one costs time, not the group.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from undertow.core.canonical import digest, seal, unseal
from undertow.core.errors import StoreError
from undertow.core.files import read_regular
from undertow.core.tensor_files import pack, unpack
from undertow.store import record_files
from undertow.store.atomic import make_folder, replace_file

__all__ = ["Checkpoint", "Workspace"]


@dataclass(frozen=True)
class Checkpoint:
    """The state of a group at one step: tensors, what else it must remember, and the records so far."""

    step: int
    state: dict[str, Tensor]
    notes: dict[str, Any]
    records: bytes


class Workspace:
    """The folder of a group in progress; only the holder of the group's lock writes to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._records = folder / "records.jsonl"

    def save(self, step: int, state: dict[str, Tensor], notes: dict[str, Any], records_so_far: bytes) -> None:
        """Write a checkpoint; ``records_so_far`` extends what the file holds already."""
        make_folder(self.folder)
        on_disk = self._records.stat().st_size if self._records.exists() else 0
        record_files.append(self._records, records_so_far[on_disk:])
        tensors = pack(state)
        replace_file(self._tensors(step), tensors)
        document = {
            "step": step,
            "tensors": digest(tensors),
            "records": {"bytes": len(records_so_far), "sha256": digest(records_so_far)},
            "notes": notes,
        }
        replace_file(self._json(step), seal(document))
        for old in self._steps()[2:]:
            self._remove(old)

    def load(self) -> Checkpoint | None:
        """The newest whole checkpoint, with the records cut back to it; None to start from the beginning."""
        for step in self._steps():
            try:
                return self._load(step)
            except (StoreError, OSError, KeyError):
                self._remove(step)
        self._records.unlink(missing_ok=True)
        return None

    def progress(self) -> int:
        """The step of the newest checkpoint, 0 without one."""
        return next(iter(self._steps()), 0)

    def _load(self, step: int) -> Checkpoint:
        document = unseal(read_regular(self._json(step)), self._json(step))
        path = self._tensors(step)
        data = read_regular(path)
        if digest(data) != document["tensors"]:
            raise StoreError(f"{path} is damaged: its checksum is not the one recorded.")
        known = document["records"]
        state = unpack(data, path)
        kept = record_files.truncate(self._records, known["bytes"], known["sha256"])
        return Checkpoint(step, state, document["notes"], kept)

    def _steps(self) -> list[int]:
        """Steps with a checkpoint, newest first."""
        steps = (path.stem.partition("-")[2] for path in self.folder.glob("checkpoint-*.json"))
        return sorted((int(step) for step in steps if step.isdigit()), reverse=True)

    def _remove(self, step: int) -> None:
        self._json(step).unlink(missing_ok=True)
        self._tensors(step).unlink(missing_ok=True)

    def _json(self, step: int) -> Path:
        return self.folder / f"checkpoint-{step}.json"

    def _tensors(self, step: int) -> Path:
        return self.folder / f"checkpoint-{step}.safetensors"
