"""Columns of a Parquet file, read within bounds: its footer says how many rows there are before any is unpacked."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from undertow.core.errors import DataError
from undertow.data.inflate import bound_for, too_large

__all__ = ["read_parquet"]

_CELL = 8  # bytes of a number
_TEXT = 64  # bytes that a text takes in Python, besides its letters


def read_parquet(content: bytes, name: str, *, label: str | None) -> dict[str, NDArray[Any]]:
    """Numbers as float64, and the label as text where it is none; of other columns there is only the name.

    Texts are not even unpacked: one row of them can be as large as one wishes, and nothing here is made of them.
    """
    try:
        import polars
    except ImportError:
        raise DataError(
            f"{name} needs polars to be read: install it, or save the table as CSV or NPZ."
        ) from None
    bound = bound_for(len(content))
    try:
        schema = polars.read_parquet_schema(io.BytesIO(content))
        numeric = [key for key, kind in schema.items() if kind.is_numeric() or kind == polars.Boolean]
        wanted = [key for key in schema if key in numeric or (key == label and not schema[key].is_nested())]
        rows = polars.scan_parquet(io.BytesIO(content)).select(polars.len()).collect().item()
        if rows * _CELL * max(len(wanted), 1) > bound:
            raise too_large(name, bound)
        frame = polars.read_parquet(io.BytesIO(content), columns=wanted)
        columns: dict[str, NDArray[Any]] = {key: np.empty(0, dtype=object) for key in schema}
        for key in numeric:
            columns[key] = frame[key].cast(polars.Float64).to_numpy()
        if label in wanted and label not in numeric:
            texts = frame[label].cast(polars.String)
            if _TEXT * rows + int(texts.str.len_bytes().sum()) > bound:
                raise too_large(name, bound)
            columns[label] = np.array(["" if text is None else text for text in texts], dtype=object)
    # What is wrong deep inside a file ends as a panic, which is no Exception.
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError, ValueError) as error:
        raise DataError(f"{name} cannot be read as a Parquet file: {str(error)[:200]}") from None
    return columns
