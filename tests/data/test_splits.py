from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from undertow.core.errors import InputError
from undertow.data.splits import stratified_split


@given(
    counts=st.lists(st.integers(2, 40), min_size=1, max_size=6),
    fraction=st.floats(0.1, 0.6),
    seed=st.integers(0, 1000),
)
def test_a_partition_with_the_shares_kept(counts: list[int], fraction: float, seed: int) -> None:
    labels = np.repeat(np.arange(len(counts)), counts)
    total = round(fraction * len(labels))
    if total == 0:
        return
    train, test = stratified_split(labels, test_fraction=fraction, seed=seed)
    assert sorted([*train, *test]) == list(range(len(labels)))
    assert len(test) == total
    assert set(labels[train]) == set(range(len(counts)))
    for label, count in enumerate(counts):
        assert abs((labels[test] == label).sum() - count * total / len(labels)) <= 1 + 1e-9


def test_the_split_is_fixed_for_ever() -> None:
    labels = np.arange(100) % 3
    train, test = stratified_split(labels, seed=0)
    assert test.tolist()[:6] == [26, 86, 2, 55, 75, 93]
    assert (
        hashlib.sha256(np.concatenate([train, test]).astype("<i8").tobytes()).hexdigest()[:16]
        == "71191dca6db0908d"
    )
    other, _ = stratified_split(labels, seed=1)
    assert other.tolist() != train.tolist()


def test_bad_fractions_are_refused() -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        stratified_split(np.arange(10) % 2, test_fraction=1.0)
    with pytest.raises(InputError, match="too few"):
        stratified_split(np.array([0, 1]), test_fraction=0.1)
