"""Columns of a Parquet file, read within bounds: its footer says how many rows there are before any is unpacked."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from undertow.data.inflate import bound_for, too_large
from undertow.errors import DataError

__all__ = ["read_parquet"]

_CELL = 8  # bytes of a number
_TEXT = 64  # bytes that a text takes in Python, besides its letters


def read_parquet(content: bytes, name: str) -> dict[str, NDArray[Any]]:
    """Numbers as float64, everything else as text."""
    try:
        import polars
    except ImportError:
        raise DataError(
            f"{name} needs polars to be read: install it, or save the table as CSV or NPZ."
        ) from None
    bound = bound_for(len(content))
    try:
        schema = polars.read_parquet_schema(io.BytesIO(content))
        rows = polars.scan_parquet(io.BytesIO(content)).select(polars.len()).collect().item()
        if rows * _CELL * max(len(schema), 1) > bound:
            raise too_large(name, bound)
        frame = polars.read_parquet(io.BytesIO(content))
        columns: dict[str, NDArray[Any]] = {}
        for column in frame:
            if column.dtype.is_numeric() or column.dtype == polars.Boolean:
                columns[column.name] = column.cast(polars.Float64).to_numpy()
            else:
                bound -= _TEXT * len(column) + _letters(column)
                if bound < 0:
                    raise too_large(name, bound_for(len(content)))
                columns[column.name] = np.array(["" if v is None else str(v) for v in column], dtype=object)
    # What is wrong deep inside a file ends as a panic, which is no Exception.
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError, ValueError) as error:
        raise DataError(f"{name} cannot be read as a Parquet file: {str(error)[:200]}") from None
    return columns


def _letters(column: Any) -> int:
    """The bytes of all texts of a column; a dictionary may hold one long text for every row."""
    import polars

    if column.dtype == polars.String:
        return int(column.str.len_bytes().sum())
    if column.dtype == polars.Binary:
        return 4 * int(column.bin.size().sum())
    return 0
