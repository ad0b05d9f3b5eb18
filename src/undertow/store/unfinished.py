"""Records of networks that are still being trained, as far as a checkpoint vouches for them."""

from __future__ import annotations

import re
from pathlib import Path

from undertow.core.canonical import digest, unseal
from undertow.core.errors import StoreError
from undertow.core.files import read_regular

__all__ = ["records_so_far"]

_ID = slice(10, 26)  # of a line, after {"trial":"
_CHECKPOINT = re.compile(r"checkpoint-([0-9]{1,18})\.json")


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


def _vouched(folder: Path) -> bytes:
    """The group's records up to its newest checkpoint that they agree with; nothing where there is none."""
    try:
        data = read_regular(folder / "records.jsonl")
    except OSError:
        return b""
    names = {path: _CHECKPOINT.fullmatch(path.name) for path in folder.glob("checkpoint-*.json")}
    steps = {int(name[1]): path for path, name in names.items() if name}
    for _, path in sorted(steps.items(), reverse=True):
        try:
            known = unseal(read_regular(path), path)["records"]
            kept = data[: known["bytes"]]
            if digest(kept) == known["sha256"]:
                return kept
        except (OSError, StoreError, KeyError, TypeError):
            continue
    return b""
