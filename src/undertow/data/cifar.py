"""CIFAR-10's official binary batches, and how to rebuild them from sheets of pictures.

A batch is 10,000 records of 3,073 bytes: the label, then the red, green and blue planes of 32×32 pixels.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from undertow.core.errors import DataError
from undertow.data.png import decode_png

__all__ = ["SHEETS", "batches_from_sheets", "largest_sheet", "parse_batch"]

_RECORD = 1 + 3 * 32 * 32
_BATCHES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")

#: Files of the package that holds CIFAR-10 as six sheets, one picture of 32×32 pixels per row of 1024.
SHEETS = (*(f"{batch}.png" for batch in _BATCHES), "train_lables.json", "test_lables.json")


_SHEET = (10_000, 1024, 3)


def largest_sheet(name: str) -> int:
    """The most bytes that one of the :data:`SHEETS` can have: pixels that cannot be packed, or 50,000 labels."""
    return 32 * 2**20 if name.endswith(".png") else 2**20


def parse_batch(content: bytes, *, name: str = "the batch") -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Pictures (N, 3, 32, 32) and labels (N,) of one binary batch.

    >>> pictures, labels = parse_batch(bytes([7]) + bytes(3072))
    >>> pictures.shape, labels
    ((1, 3, 32, 32), array([7], dtype=uint8))
    """
    if not content or len(content) % _RECORD:
        hint = (
            " It is one of the pickled Python batches, which undertow never loads; take the binary version."
        )
        raise DataError(
            f"{name} has {len(content):,} bytes, not a multiple of {_RECORD:,}."
            + (hint if content[:1] == b"\x80" else "")
        )
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, _RECORD)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]


def batches_from_sheets(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The six binary batches, byte for byte as published, from :data:`SHEETS`.

    Inflating releases the interpreter's lock, so two threads halve the time on two cores.
    """
    missing = [name for name in SHEETS if name not in files]
    if missing:
        raise DataError(f"The package lacks {', '.join(missing)}; expected six sheets and two label lists.")
    train = _labels(files["train_lables.json"], 50_000, "train_lables.json")
    test = _labels(files["test_lables.json"], 10_000, "test_lables.json")
    labels = [*np.split(train, 5), test]
    with ThreadPoolExecutor(max_workers=2) as pool:
        sheets = pool.map(lambda batch: _sheet(files[f"{batch}.png"], f"{batch}.png"), _BATCHES)
        return {f"{b}.bin": _records(s, y) for b, s, y in zip(_BATCHES, sheets, labels, strict=True)}


def _sheet(content: bytes, name: str) -> NDArray[np.uint8]:
    return decode_png(content, name=name, shape=_SHEET)


def _records(sheet: NDArray[np.uint8], labels: NDArray[np.uint8]) -> bytes:
    records = np.empty((len(sheet), _RECORD), dtype=np.uint8)
    records[:, 0] = labels
    records[:, 1:] = sheet.transpose(0, 2, 1).reshape(len(sheet), -1)
    return records.tobytes()


def _labels(content: bytes, count: int, name: str) -> NDArray[np.uint8]:
    try:
        labels = np.array(json.loads(content), dtype=np.uint8)
    except (ValueError, OverflowError, TypeError, RecursionError) as error:
        raise DataError(f"{name} is damaged: not a list of labels ({str(error)[:200]}).") from None
    if labels.shape != (count,):
        raise DataError(f"{name} has {labels.size:,} labels; expected {count:,}.")
    return labels
