"""Stable rank against the singular values."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import undertow as ut
from undertow.core.errors import InputError, ModelError
from undertow.probe import StableRank

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


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("kind", ["weight_norm", "spectral_norm"])
def test_normed_layers_are_read_as_the_weight_that_they_multiply_with(kind: str, old: bool) -> None:
    torch.manual_seed(0)
    norm = getattr(nn.utils if old else nn.utils.parametrizations, kind)
    layers = [norm(nn.Linear(6, 5)), nn.ReLU(), norm(nn.Linear(5, 5)), nn.ReLU(), norm(nn.Linear(5, 5))]
    net = nn.Sequential(*layers, nn.ReLU(), nn.Linear(5, 2))
    with torch.no_grad():
        for parameter in net[
            0
        ].parameters():  # g apart from the lengths of v, and what was made of them stale
            parameter.mul_(torch.rand(len(parameter), *[1] * (parameter.dim() - 1)) + 0.5)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    found = ut.stable_rank(net)
    # Weights that are made when they are looked at may follow each other at one address.
    assert list(found) == ["0.weight", "2.weight", "4.weight", "6.weight"]
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())
    assert all(module.training for module in net.modules())
    net.eval()
    net(torch.ones(1, 6))
    singular = torch.linalg.svdvals(net[0].weight.detach().double())  # type: ignore[operator,union-attr]
    expected = float((singular / singular[0]).square().sum())
    assert found["0.weight"] == pytest.approx(expected, rel=1e-6)
    (read,) = (value for key, value, _ in StableRank()(net, torch.ones(1, 6), None) if key == "0.weight")
    assert read == pytest.approx(expected, rel=1e-5)


def test_clear_errors() -> None:
    for wrong, word in (
        (torch.ones(2, 2, dtype=torch.complex64), "complex"),
        (torch.ones(2, 2, dtype=torch.bool), "truth values"),
        (torch.eye(3).to_sparse(), "to_dense"),
    ):
        with pytest.raises(InputError, match=word):
            ut.stable_rank(wrong)
    with pytest.raises(InputError, match="two axes"):
        ut.stable_rank(torch.ones(3))
    with pytest.raises(InputError, match="NaN"):
        ut.stable_rank(torch.full((2, 2), float("nan")))
    with pytest.raises(ModelError, match="no weight"):
        ut.stable_rank(nn.ReLU())
