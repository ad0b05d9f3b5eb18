"""Files of records: appended while a group runs, whole once a trial is finished."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from undertow.core.canonical import digest
from undertow.core.errors import StoreError
from undertow.core.files import check_regular, read_regular
from undertow.probe.records import Record, decode, encode
from undertow.store.atomic import writing

__all__ = ["append", "are_of", "encode_all", "parse", "truncate"]


def encode_all(records: Iterable[Record]) -> bytes:
    """The records as lines of JSON."""
    return b"".join(encode(record) for record in records)


def parse(data: bytes, path: Path) -> list[Record]:
    """The records of a finished file; a line that is none raises a ``StoreError``."""
    try:
        return [decode(line) for line in data.splitlines()]
    except ValueError as error:
        raise StoreError(f"{path} is damaged: {error}.") from None


def are_of(data: bytes, trial: str) -> bool:
    """Whether every line of a finished file is a record of this trial: each begins with its identity.

    >>> are_of(encode_all([Record("0a", 3, 1, "loss", "", 0.5)]), "0a")
    True
    """
    begin = f'{{"trial":"{trial}",'.encode()
    return all(line.startswith(begin) for line in data.splitlines())


def append(path: Path, data: bytes) -> None:
    """Add lines at the end and flush them to the disk."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
    with writing(path), os.fdopen(os.open(path, flags, 0o644), "ab") as file:
        check_regular(file.fileno(), path)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def truncate(path: Path, length: int, checksum: str) -> bytes:
    """Cut the file back to the lines a checkpoint knows, and return them.

    What came after (also a torn line) is computed again. Raises ``StoreError`` when the kept part is not what
    the checkpoint saw.
    """
    try:
        data = read_regular(path)
    except FileNotFoundError:
        data = b""
    except OSError as error:
        raise StoreError(f"{path} is damaged: {error.strerror}.") from None
    kept = data[:length]
    if len(kept) != length or digest(kept) != checksum:
        raise StoreError(f"{path} is damaged: its first {length} bytes are not those of the checkpoint.")
    if len(data) > length:
        with writing(path):
            os.truncate(path, length)
    return kept
