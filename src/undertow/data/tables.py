"""Tables with a label column: CSV, Parquet and NPZ files as numeric features and class labels."""

from __future__ import annotations

import csv
import functools
import io
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from undertow.core.errors import DataError, InputError, nearest
from undertow.data.npz import read_npz
from undertow.data.parquet import read_parquet

__all__ = ["Table", "read_table"]

log = logging.getLogger("undertow.data")

_EMPTY = ("", "na", "n/a", "nan", "null", "none")
_MANY_CLASSES = 1000
_INDEX = re.compile(r"Unnamed: \d+|__index_level_\d+__")
"""What pandas calls a column of row numbers that it has read, or written to Parquet."""
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
_PICKLED = (".pkl", ".pickle", ".pt", ".pth", ".joblib")


@dataclass(frozen=True)
class Table:
    """Features (N, d), labels 0 … classes−1 (N,), the row of the file each came from, and other columns.

    Features have the precision of the file: 10⁷ + noise is noise once it is standardised, and one number in float32.
    """

    x: NDArray[np.floating]
    y: NDArray[np.int64]
    classes: tuple[str, ...]
    features: tuple[str, ...]
    row: NDArray[np.int64]
    others: Mapping[str, NDArray[Any]]


def read_table(
    content: bytes,
    *,
    name: str,
    label: str | None,
    features: Sequence[str] = (),
    unlabelled: Sequence[str] = (),
    unlabelled_as: str | None = None,
) -> Table:
    """Read a table; the suffix of ``name`` says how.

    ``label`` is the column of class labels, any text or numbers; rows where it is empty or one of ``unlabelled`` are
    left out, or are of the class ``unlabelled_as``, one that other rows have. ``features`` are names or patterns
    ("Gene*"); by default every other numeric column is one. In an NPZ file, a 2-d array (``X``) holds the features.

    >>> table = read_table(b"kind,a,b\\nyes,1,2\\nno,3,4\\n", name="t.csv", label="kind")
    >>> table.classes, table.y, table.x.tolist()
    (('no', 'yes'), array([1, 0]), [[1.0, 2.0], [3.0, 4.0]])
    """
    suffix = name[name.rfind(".") :].lower()
    if suffix in _PICKLED:
        raise DataError(f"{name} is a pickle, which can run any code when opened: undertow never loads one.")
    if suffix not in _READERS:
        raise InputError(f"{name} ends in {suffix!r}; tables are read from {', '.join(_READERS)}.")
    columns = _READERS[suffix](content, name, label)
    if label is None:
        raise InputError(
            f"{name}: say which column holds the labels, as label=…; {nearest('label', columns)}"
        )
    if label not in columns:
        raise InputError(f"{name} has no column {label!r}; {nearest(label, columns)}")
    return _assemble(columns, name, label, features, unlabelled, unlabelled_as)


def _assemble(
    columns: dict[str, NDArray[Any]],
    name: str,
    label: str,
    features: Sequence[str],
    unlabelled: Sequence[str],
    unlabelled_as: str | None,
) -> Table:
    if not len(columns[label]):
        raise InputError(f"{name}: the column {label!r} holds neither numbers nor text, and no classes.")
    if columns[label].ndim != 1:
        raise InputError(f"{name}: {label!r} is a matrix; the labels are a column, one entry for each row.")
    texts = np.array([_text(value) for value in columns[label]], dtype=object)
    _warn_of_nul(texts, label, name)
    labelled = np.array([t.lower() not in _EMPTY and t not in unlabelled for t in texts])
    classes = tuple(sorted(set(texts[labelled]), key=_numbers_first))
    if len(classes) < 2:
        raise DataError(
            f"{name}: the label column {label!r} has {len(classes)} class; a task needs two or more."
        )
    if unlabelled_as is not None:
        if unlabelled_as not in classes:
            raise InputError(
                f"{name}: rows without a label cannot be of the class {unlabelled_as!r}: the classes of {label!r} are "
                f"{', '.join(map(repr, classes[:10]))}."
            )
        texts[~labelled], labelled = unlabelled_as, np.ones(len(texts), dtype=bool)
    rows = int(labelled.sum())
    if len(classes) > max(2, rows // 2) or (len(classes) > _MANY_CLASSES and rows < 10 * len(classes)):
        raise DataError(
            f"{name}: the label column {label!r} has {len(classes)} different values in {len(texts)} rows: "
            "it does not look like classes."
        )
    others = {key: value for key, value in columns.items() if key != label}
    chosen = _choose(others, features, name)
    parts = [_numbers(others[key], key, name, labelled) for key in chosen]
    x = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
    numbers = {text: index for index, text in enumerate(classes)}
    return Table(
        x=x,
        y=np.array([numbers[text] for text in texts[labelled]], dtype=np.int64),
        classes=classes,
        features=tuple(chosen),
        row=np.flatnonzero(labelled),
        others={
            key: value[labelled]
            for key, value in others.items()
            if key not in chosen and value.dtype.kind in "biuf"
        },
    )


def _choose(columns: Mapping[str, NDArray[Any]], features: Sequence[str], name: str) -> list[str]:
    numeric = [key for key, value in columns.items() if value.dtype.kind in "biuf"]
    if features:
        chosen = [key for key in columns if any(fnmatchcase(key, pattern) for pattern in features)]
        unmatched = [p for p in features if not any(fnmatchcase(key, p) for key in columns)]
        if unmatched:
            raise InputError(f"{name} has no column {unmatched[0]!r}; {nearest(unmatched[0], columns)}")
    else:
        wide = [key for key in numeric if columns[key].ndim == 2]
        chosen = wide or [key for key in numeric if not _is_index(key, columns[key], name)]
        for key in [] if wide else set(columns).difference(numeric):
            _warn_of_text(columns[key], key, name)
    if not chosen:
        raise DataError(f"{name} has no numeric column besides the label.")
    texts = [key for key in chosen if key not in numeric]
    if texts:
        raise InputError(
            f"{name}: the column {texts[0]!r} holds text; leave it out of features, or encode it."
        )
    return chosen


def _is_index(key: str, column: NDArray[Any], name: str) -> bool:
    """A row's number is no property of it: spreadsheets and pandas write one, in a column without a name."""
    if key and not _INDEX.fullmatch(key):
        return False
    _warn(
        f"{name}: the column {key!r}, which has no name of its own, is left out of the features: it looks like row "
        f"numbers (it begins with {', '.join(f'{value:g}' for value in column[:3])}). Name it to learn from it."
    )
    return True


def _numbers(column: NDArray[Any], key: str, name: str, rows: NDArray[np.bool_]) -> NDArray[np.floating]:
    values = column if rows.all() else column[rows]
    values = values if values.dtype == np.float32 else values.astype(np.float64)
    values = values.reshape(int(rows.sum()), -1)
    bad = int((~np.isfinite(values)).sum())
    if bad:
        raise DataError(
            f"{name}: the column {key!r} has {bad} missing or infinite values; fill them, or name the columns to "
            "read as features, without it."
        )
    return values


def _warn_of_text(column: NDArray[Any], key: str, name: str) -> None:
    """A column of numbers that a few entries turn into text would vanish without a word."""
    wrong = [row for row, value in enumerate(column) if not _is_number(str(value))]
    if wrong and 2 * len(wrong) <= len(column):
        first = f"the first in row {wrong[0] + 1}, {str(column[wrong[0]])[:40]!r}"
        count = (
            f"{len(wrong):,} of its {len(column):,} entries {'is' if len(wrong) == 1 else 'are'} no number"
        )
        _warn(f"{name}: the column {key!r} is left out of the features: {count} ({first}). Mend or drop it.")


def _warn_of_nul(texts: NDArray[Any], key: str, name: str) -> None:
    rows = [row for row, text in enumerate(texts) if "\0" in text]
    if rows:
        _warn(
            f"{name}: the label column {key!r} has a NUL character in row {rows[0] + 1}, {texts[rows[0]][:40]!r}, "
            "which makes it a class of its own. Mend the file."
        )


@functools.cache
def _warn(sentence: str) -> None:
    """Once: the groups of a sweep all read the same table."""
    log.warning(sentence)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text.strip().lower() in _EMPTY
    return True


def _read_csv(content: bytes, name: str, _: str | None) -> dict[str, NDArray[Any]]:
    try:
        lines = [line for line in csv.reader(io.StringIO(content.decode("utf-8-sig"))) if line]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{name} is not a CSV file in UTF-8 ({error}).") from None
    if len(lines) < 2:
        raise DataError(f"{name} is empty: a table needs a line of column names and at least one row.")
    header, rows = [key.strip() for key in lines[0]], lines[1:]
    _refuse_other_separators(lines[0], name)
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise DataError(f"{name}: record {number} has {len(row)} fields, the first line {len(header)}.")
    if len(set(header)) < len(header):
        double = next(key for key in header if header.count(key) > 1)
        raise DataError(f"{name} has two columns called {double!r}; rename one.")
    return {key: _column(values) for key, values in zip(header, zip(*rows, strict=True), strict=True)}


def _refuse_other_separators(first: Sequence[str], name: str) -> None:
    """Files that are not separated by commas may have them as decimal points: nothing is guessed."""
    counts = {separator: sum(field.count(separator) for field in first) for separator in _SEPARATORS}
    likely = max(counts, key=lambda separator: counts[separator])
    if counts[likely] >= len(first):
        raise DataError(
            f"{name} is separated by {_SEPARATORS[likely]} ({likely!r}), and tables are read with commas. Save it with "
            f"commas and decimal points: pandas.read_csv(file, sep={likely!r}, decimal=',').to_csv(new, index=False), "
            "without decimal=',' where decimals are points."
        )


def _column(values: Sequence[str]) -> NDArray[Any]:
    """Numbers where every entry is one or empty, text otherwise."""
    try:
        return np.array(values, dtype=np.float64)
    except ValueError:
        pass
    try:
        return np.array([np.nan if v.strip().lower() in _EMPTY else float(v) for v in values])
    except ValueError:
        return np.array([v.strip() for v in values], dtype=object)


def _read_npz(content: bytes, name: str, _: str | None) -> dict[str, NDArray[Any]]:
    arrays = read_npz(content, name)
    rows = max((len(a) for a in arrays.values() if a.ndim == 2), default=0)
    rows = rows or max((len(a) for a in arrays.values() if a.ndim == 1), default=0)
    columns = {key: a for key, a in arrays.items() if len(a) == rows}
    if not columns or not rows:
        raise DataError(f"{name} has no arrays with one entry per row.")
    return columns


def _read_parquet(content: bytes, name: str, label: str | None) -> dict[str, NDArray[Any]]:
    return read_parquet(content, name, label=label)


_READERS = {".csv": _read_csv, ".npz": _read_npz, ".parquet": _read_parquet}


def _text(value: Any) -> str:
    """A label as text; whole numbers without a decimal point, so that 1 and 1.0 are one class."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def _numbers_first(text: str) -> tuple[int, float, str]:
    try:
        return (0, float(text), text)
    except ValueError:
        return (1, 0.0, text)
