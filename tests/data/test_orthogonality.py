"""Near-orthogonality against its definition, and points of equal cosines against theirs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from undertow.core.errors import InputError
from undertow.core.near_orthogonality import feature_correlation, near_orthogonality
from undertow.data import load
from undertow.data.catalogue import lookup
from undertow.data.equal_cosines import equal_cosines
from undertow.data.orthogonality import FEATURE_CORRELATIONS, MEASURED, known_orthogonality


@settings(max_examples=40, deadline=None)
@given(
    st.integers(2, 30),
    st.integers(1, 9),
    st.integers(0, 99),
    st.integers(1, 8),
    st.sampled_from([1e-9, 1.0, 1e9]),
)
def test_against_the_definition(n: int, d: int, seed: int, block: int, units: float) -> None:
    x = np.random.default_rng(seed).normal(size=(n, d)) * units
    found = near_orthogonality(x, block=block)
    gram = x @ x.T
    squares, off = np.diag(gram).copy(), np.abs(gram - np.diag(np.diag(gram)))
    assert found.value == pytest.approx(squares.min() / (n * off.max()), rel=1e-4)
    assert found.with_norms == pytest.approx(found.value * squares.min() / squares.max(), rel=1e-4)
    assert found.by_sums == pytest.approx((squares / off.sum(1)).min(), rel=1e-4)
    cosines = off / np.sqrt(np.outer(squares, squares))
    assert found.mean_cosine == pytest.approx(cosines.sum() / (n * (n - 1)), rel=1e-4)
    assert found.by_sums >= found.value * (1 - 1e-4)
    if n > d:  # Welch's bound on the largest cosine
        largest = math.sqrt((n - d) / (d * (n - 1)))
        assert found.value <= 1 / (n * largest) * (1 + 1e-4)


def test_real_points_in_blocks_that_do_not_divide_them(data_folder: Path) -> None:
    x = load("digits", flatten=True, folder=data_folder, download=False).x.numpy()
    found, whole = near_orthogonality(x, block=500), x.astype(np.float64) @ x.astype(np.float64).T
    squares, off = np.diag(whole).copy(), np.abs(whole - np.diag(np.diag(whole)))
    assert found.value == pytest.approx(squares.min() / (len(x) * off.max()), rel=1e-5)
    assert found.by_sums == pytest.approx((squares / off.sum(1)).min(), rel=1e-5)


def test_orthogonal_points_and_wrong_ones() -> None:
    assert near_orthogonality(np.eye(5) * 1e9).value == math.inf
    with pytest.raises(InputError, match="two points"):
        near_orthogonality(np.ones((1, 3)))
    with pytest.raises(InputError, match="all zero"):
        near_orthogonality(np.zeros((4, 3)))


@settings(max_examples=20, deadline=None)
@given(st.integers(3, 20), st.integers(2, 9), st.integers(0, 99), st.sampled_from([1e-9, 1.0, 1e9]))
def test_correlation_of_features_against_numpy(n: int, d: int, seed: int, units: float) -> None:
    x = (np.random.default_rng(seed).normal(size=(n, d)) + 3) * units
    constant = np.full((n, 1), 7.0 * units)
    off = np.abs(np.corrcoef(x.T)) - np.eye(d)
    expected = off.sum() / (d * (d - 1))
    assert feature_correlation(np.hstack([x, constant])) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("name", ["digits", "autism", "dlbcl", pytest.param("mnist", marks=pytest.mark.full)])
def test_what_is_listed_was_measured(name: str, data_folder: Path) -> None:
    x = load(name, flatten=True, folder=data_folder, download=False).x.numpy()
    listed = MEASURED[name]
    assert known_orthogonality(lookup(name)) == (listed, FEATURE_CORRELATIONS[name])
    found = near_orthogonality(x)
    for variant in ("value", "with_norms", "by_sums", "mean_cosine", "n"):
        assert getattr(found, variant) == pytest.approx(getattr(listed, variant), rel=1e-3)
    assert feature_correlation(x) == pytest.approx(FEATURE_CORRELATIONS[name], abs=1e-4)


@pytest.mark.parametrize("cosine", [0.0, 0.3, 0.9])
def test_points_of_equal_cosines(cosine: float) -> None:
    data = equal_cosines(n=6, d=20, positive=2, cosine=cosine, norm=5.0, seed=3)
    gram = data.x.double() @ data.x.double().T
    expected = 25 * (cosine + (1 - cosine) * torch.eye(6, dtype=torch.float64))
    torch.testing.assert_close(gram, expected, atol=1e-4, rtol=1e-5)
    assert data.y.tolist() == [1, 1, 0, 0, 0, 0]
    value = near_orthogonality(data.x.numpy()).value
    assert value == pytest.approx(1 / (6 * cosine), rel=1e-3) if cosine else value > 1e4


def test_points_that_do_not_exist() -> None:
    with pytest.raises(InputError, match="positive < n < d"):
        equal_cosines(n=10, d=10)
    with pytest.raises(InputError, match="cosine"):
        equal_cosines(cosine=1.0)


def test_a_table_of_the_users_own_is_read_as_it_is_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The training split, as of the sets with checksums."""
    monkeypatch.setenv("UNDERTOW_DATA", str(tmp_path))
    x = np.random.default_rng(0).normal(size=(30, 4)) + 1
    rows = [",".join([*map(str, row), str(i % 2)]) for i, row in enumerate(x)]
    (tmp_path / "neuroblastoma.csv").write_text("\n".join(["a,b,c,d,Event-free", *rows]))
    found = known_orthogonality(lookup("neuroblastoma"))
    assert found is not None
    trained_on = load(tmp_path / "neuroblastoma.csv", label="Event-free").x
    assert found[0].n == len(trained_on) == 24
    assert found[0].mean_cosine == pytest.approx(near_orthogonality(trained_on).mean_cosine)
    assert found[1] == pytest.approx(feature_correlation(trained_on))
