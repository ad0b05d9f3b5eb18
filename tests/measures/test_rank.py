"""Stable rank against the singular values."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import undertow as ut
from undertow.core.errors import InputError, ModelError

from ..model_cases import CASES


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 1000), st.sampled_from([1e-30, 1.0, 1e25]))
def test_against_singular_values(rows: int, columns: int, seed: int, scale: float) -> None:
    matrix = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    singular = torch.linalg.svdvals(matrix)
    expected = float((singular / singular[0]).square().sum())
    found = ut.stable_rank(matrix * scale)
    assert abs(found - expected) <= found.error + 1e-12
    assert 1 - 1e-12 <= found <= min(rows, columns) + 1e-9


def test_rank_one_identity_and_zero() -> None:
    assert ut.stable_rank(torch.outer(torch.arange(1.0, 5), torch.arange(1.0, 7))) == pytest.approx(1.0)
    assert ut.stable_rank(torch.eye(50)) == pytest.approx(50.0)
    assert ut.stable_rank(torch.zeros(3, 4)) == 0.0


def test_every_weight_of_a_network_and_how_it_was_read() -> None:
    net, _ = next(case for case in CASES if case.name == "residual").make()
    found = ut.stable_rank(net)
    assert list(found) == ["stem.weight", "conv1.weight", "conv2.weight", "read.weight"]
    assert found["stem.weight"].shape == (6, 18)
    assert "kernel" in found["stem.weight"].reading
    weight = net.stem.weight.detach().double().flatten(1)  # type: ignore[union-attr,operator]
    singular = torch.linalg.svdvals(weight)
    assert found["stem.weight"] == pytest.approx(float((singular / singular[0]).square().sum()), rel=1e-6)


def test_transposed_convolutions_are_read_by_their_outputs() -> None:
    found = ut.stable_rank(nn.ConvTranspose2d(3, 5, 2))
    assert found["weight"].shape == (5, 12)


def test_clear_errors() -> None:
    with pytest.raises(InputError, match="two axes"):
        ut.stable_rank(torch.ones(3))
    with pytest.raises(InputError, match="NaN"):
        ut.stable_rank(torch.full((2, 2), float("nan")))
    with pytest.raises(ModelError, match="no weight"):
        ut.stable_rank(nn.ReLU())
