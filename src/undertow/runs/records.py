"""Files of records: appended while a group runs, whole once a trial is finished."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from undertow.errors import StoreError
from undertow.probe.records import Record, decode, encode
from undertow.runs.atomic import writing
from undertow.runs.canonical import digest

__all__ = ["append", "encode_all", "parse", "truncate"]


def encode_all(records: Iterable[Record]) -> bytes:
    """The records as lines of JSON."""
    return b"".join(encode(record) for record in records)


def parse(data: bytes, path: Path) -> list[Record]:
    """The records of a finished file; a line that is none raises a ``StoreError``."""
    try:
        return [decode(line) for line in data.splitlines()]
    except ValueError as error:
        raise StoreError(f"{path} is damaged: {error}.") from None


def append(path: Path, data: bytes) -> None:
    """Add lines at the end and flush them to the disk."""
    with writing(path), path.open("ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def truncate(path: Path, length: int, checksum: str) -> bytes:
    """Cut the file back to the lines a checkpoint knows, and return them.

    What came after (also a torn line) is computed again. Raises ``StoreError`` when the kept part is not what
    the checkpoint saw.
    """
    data = path.read_bytes() if path.exists() else b""
    kept = data[:length]
    if len(kept) != length or digest(kept) != checksum:
        raise StoreError(f"{path} is damaged: its first {length} bytes are not those of the checkpoint.")
    if len(data) > length:
        with writing(path):
            os.truncate(path, length)
    return kept
