"""Records as a polars frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars

from undertow.probe.records import COLUMNS, Record

__all__ = ["frame_of_records"]

_KINDS: dict[str, Any] = {
    "trial": polars.String,
    "step": polars.Int64,
    "epoch": polars.Int64,
    "measure": polars.String,
    "key": polars.String,
    "value": polars.Float64,
    "error": polars.Float64,
}


def frame_of_records(records: Sequence[Record]) -> polars.DataFrame:
    """A row for each record, in their order."""
    return polars.DataFrame([record.row() for record in records], schema={c: _KINDS[c] for c in COLUMNS})
