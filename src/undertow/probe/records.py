"""Records: tidy rows of what was measured, and their one encoding as a line of JSON."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import lru_cache
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
    error = "null" if record.error is None else _number(record.error)
    return (
        f'{{"trial":{_quoted(record.trial)},"step":{record.step},"epoch":{record.epoch},'
        f'"measure":{_quoted(record.measure)},"key":{_quoted(record.key)},'
        f'"value":{_number(record.value)},"error":{error}}}\n'
    ).encode()


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


@lru_cache(maxsize=4096)
def _quoted(words: str) -> str:
    return json.dumps(words, ensure_ascii=False)


def _number(number: float) -> str:
    number = float(number)
    return repr(number) if math.isfinite(number) else f'"{number!r}"'
