"""Records: tidy rows of what was measured, and their one encoding as a line of JSON."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

__all__ = ["COLUMNS", "Record", "decode", "encode"]

COLUMNS = ("trial", "step", "epoch", "measure", "key", "value", "error")


@dataclass(frozen=True, slots=True)
class Record:
    """One number: which trial, when, which measure, of what (``key``), its value and numerical error.

    ``error`` is None where the measure gives none. There are no wall-clock times in records: the same
    trial writes the same bytes.
    """

    trial: str
    step: int
    epoch: int
    measure: str
    key: str
    value: float
    error: float | None = None

    def row(self) -> dict[str, Any]:
        """The record as a dictionary, in the order of ``COLUMNS``."""
        return {name: getattr(self, name) for name in COLUMNS}


def encode(record: Record) -> bytes:
    """One line of JSON. Numbers that JSON lacks are written as the strings "nan", "inf" and "-inf".

    >>> encode(Record("t", 3, 1, "loss", "", float("inf")))
    b'{"trial":"t","step":3,"epoch":1,"measure":"loss","key":"","value":"inf","error":null}\\n'
    """
    row = record.row()
    row["value"] = _finite(record.value)
    row["error"] = None if record.error is None else _finite(record.error)
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode() + b"\n"


def decode(line: bytes) -> Record:
    """The record of one line; raises ValueError when the line is not one.

    >>> decode(encode(Record("t", 3, 1, "loss", "", 0.1))).value
    0.1
    """
    try:
        row = json.loads(line)
        error = row["error"]
        row["value"] = float(row["value"])
        row["error"] = None if error is None else float(error)
        return Record(**row)
    except (KeyError, TypeError) as problem:
        raise ValueError(f"not a record: {line!r}") from problem


def _finite(number: float) -> float | str:
    return number if math.isfinite(number) else repr(float(number))
