from __future__ import annotations

import json

import numpy as np
import pytest

from tests.data.test_png import encode
from undertow.core.errors import DataError
from undertow.data.cifar import SHEETS, _records, batches_from_sheets, parse_batch


def test_records_hold_label_then_planes() -> None:
    rng = np.random.default_rng(0)
    sheet = rng.integers(0, 256, (4, 1024, 3)).astype(np.uint8)
    labels = np.array([3, 0, 9, 1], dtype=np.uint8)
    content = _records(sheet, labels)
    assert len(content) == 4 * 3073
    for i in range(4):
        record = content[i * 3073 : (i + 1) * 3073]
        assert record[0] == labels[i]
        for channel in range(3):
            assert record[1 + 1024 * channel : 1 + 1024 * (channel + 1)] == sheet[i, :, channel].tobytes()
    pictures, read = parse_batch(content)
    assert np.array_equal(read, labels)
    assert np.array_equal(pictures.transpose(0, 2, 3, 1), sheet.reshape(4, 32, 32, 3))


def test_a_pickled_batch_is_refused() -> None:
    with pytest.raises(DataError, match="pickled Python batches, which undertow never loads"):
        parse_batch(b"\x80\x02}q\x01", name="data_batch_1")
    with pytest.raises(DataError, match="multiple of 3,073"):
        parse_batch(b"\x00" * 100)


def test_an_incomplete_package_is_named() -> None:
    with pytest.raises(DataError, match=r"lacks data_batch_1\.png"):
        batches_from_sheets({})
    files = dict.fromkeys(SHEETS, encode(np.zeros((1, 2, 3), np.uint8), [0]))
    files |= {"train_lables.json": json.dumps([0] * 50_000).encode()}
    with pytest.raises(DataError, match=r"test_lables\.json is damaged"):
        batches_from_sheets(files)
    files |= {"test_lables.json": json.dumps([0] * 10).encode()}
    with pytest.raises(DataError, match="10 labels; expected 10,000"):
        batches_from_sheets(files)
    files |= {"test_lables.json": json.dumps([0] * 10_000).encode()}
    with pytest.raises(DataError, match="10000×1024"):
        batches_from_sheets(files)
