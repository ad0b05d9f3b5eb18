"""Groups that are still being trained: records that a checkpoint vouches for, and all that one consists of."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from undertow.core.canonical import digest, seal, unseal
from undertow.core.errors import StoreError
from undertow.core.files import read_regular

__all__ = ["BegunGroup", "begun_groups", "checkpoint_files", "checkpoint_step", "records_so_far", "trials_of"]

_ID = slice(10, 26)  # of a line, after {"trial":"
_KEPT = "*.kept-*.safetensors"
_CHECKPOINT = re.compile(r"checkpoint-([0-9]{1,18})\.json")


@dataclass(frozen=True)
class BegunGroup:
    """A group that has a checkpoint and no end: its trials, its step there, and what was last read of it.

    ``readings`` are the moments at which something was recorded, of the network with the fewest; ``log10_loss`` is the
    largest of the networks' last recorded ones, where any is.
    """

    group: str
    trials: tuple[str, ...]
    step: int
    readings: int
    log10_loss: float | None


def begun_groups(store: Path) -> list[BegunGroup]:
    """The groups that can be gone on with from a checkpoint, as its document and its records have them."""
    found = []
    for folder in sorted((store / "work").glob("[0-9a-f]*")):
        data = _vouched(folder)
        for path, document in itertools.islice(_documents(folder), 1):
            files = {path.name: seal(document), "records.jsonl": data}
            trials = sorted(trials_of(files))
            steps: dict[str, dict[int, float | None]] = {trial: {} for trial in trials}
            for trial, step, loss in _moments(data):
                own = steps.setdefault(trial, {})
                own[step] = own.get(step) if loss is None else loss
            losses = [each for own in steps.values() for each in list(own.values())[-1:] if each is not None]
            readings = min(map(len, steps.values()), default=0)
            worst = max(losses, default=None)
            found.append(BegunGroup(folder.name, tuple(trials), checkpoint_step(files), readings, worst))
    return found


def _moments(records: bytes) -> Iterator[tuple[str, int, float | None]]:
    """Trial and step of every record, and the loss of those that say it."""
    for line in records.splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            record = json.loads(line)
            is_loss = (record["measure"], record["key"]) == ("steps", "log10_loss")
            yield str(record["trial"]), int(record["step"]), float(record["value"]) if is_loss else None


def records_so_far(store: Path) -> dict[str, bytes]:
    """Of every trial of a group in progress the lines of its records, by its identity.

    These are the records up to a checkpoint, which training goes on from: whenever it ends, they will be among the
    trial's. The checkpoint's tensors are not looked at and need not be there.
    """
    found: dict[str, bytes] = {}
    for folder in sorted((store / "work").glob("[0-9a-f]*")):
        for line in _vouched(folder).splitlines(keepends=True):
            trial = line[_ID].decode(errors="replace")
            found[trial] = found.get(trial, b"") + line
    return found


def checkpoint_files(folder: Path) -> dict[str, bytes] | None:
    """All files of a group's newest whole checkpoint, by name; None where there is none.

    These are its document, its tensors, the records up to it and the networks that it knows to be kept: what the group
    goes on from wherever they lie, with every checksum verified.
    """
    for path, document in _documents(folder):
        try:
            known, tensors = document["records"], path.with_suffix(".safetensors")
            found = {
                "records.jsonl": read_regular(folder / "records.jsonl")[: known["bytes"]],
                tensors.name: read_regular(tensors),
            }
            whole = [digest(data) for data in found.values()] == [known["sha256"], document["tensors"]]
            kept = {
                sum_ for own in document["notes"].get("kept", {}).get("files", []) for sum_ in own.values()
            }
            networks = {each.name: read_regular(each) for each in folder.glob(_KEPT)} if kept else {}
            networks = {name: data for name, data in networks.items() if digest(data) in kept}
            if whole and {digest(data) for data in networks.values()} == kept:
                return {path.name: read_regular(path), **found, **networks}
        except (OSError, KeyError, TypeError, AttributeError):
            continue
    return None


def checkpoint_step(files: Mapping[str, bytes]) -> int:
    """The step of a checkpoint from its files; -1 where they are those of none."""
    return max((int(found[1]) for name in files if (found := _CHECKPOINT.fullmatch(name))), default=-1)


def trials_of(files: Mapping[str, bytes]) -> set[str]:
    """The trials that a checkpoint is of, from its files; those that have records where its document names none."""
    for name, data in files.items():
        if _CHECKPOINT.fullmatch(name):
            with contextlib.suppress(StoreError, KeyError, TypeError):
                return {str(trial) for trial in unseal(data, Path(name))["notes"]["trials"]}
    return {line[_ID].decode(errors="replace") for line in files.get("records.jsonl", b"").splitlines()}


def _vouched(folder: Path) -> bytes:
    """The group's records up to its newest checkpoint that they agree with; nothing where there is none."""
    try:
        data = read_regular(folder / "records.jsonl")
    except OSError:
        return b""
    for _, document in _documents(folder):
        try:
            known = document["records"]
            kept = data[: known["bytes"]]
            if digest(kept) == known["sha256"]:
                return kept
        except (KeyError, TypeError):
            continue
    return b""


def _documents(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The documents of the group's checkpoints that are whole, the newest first."""
    names = {path: _CHECKPOINT.fullmatch(path.name) for path in folder.glob("checkpoint-*.json")}
    steps = {int(name[1]): path for path, name in names.items() if name}
    for _, path in sorted(steps.items(), reverse=True):
        try:
            yield path, unseal(read_regular(path), path)
        except (OSError, StoreError):
            continue
