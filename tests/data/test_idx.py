from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray

from tests.data.tiny import idx
from undertow.core.errors import DataError
from undertow.data.idx import parse_idx


@given(arrays(np.uint8, array_shapes(max_dims=3, max_side=5)))
def test_round_trip(values: NDArray[np.uint8]) -> None:
    assert np.array_equal(parse_idx(idx(values)), values)


@given(st.binary(max_size=40))
def test_rubbish_is_one_clear_error(content: bytes) -> None:
    with pytest.raises(DataError, match="a is not an idx file"):
        parse_idx(b"\0\0\x08\x02" + content[:7] if len(content) % 2 else b"x" + content, name="a")


def test_a_cut_file_is_refused() -> None:
    with pytest.raises(DataError, match=r"shape \(3, 2\) but holds 5"):
        parse_idx(idx(np.zeros((3, 2), np.uint8))[:-1])
