"""Ritz values and the random-start bound against dense linear algebra."""

from __future__ import annotations

import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from undertow.jacobian.eigen import by_squaring
from undertow.jacobian.tridiagonal import LanczosMatrix, a_priori_steps, miss_threshold


def _random(count: int, steps: int, seed: int, spread: float) -> tuple[Tensor, Tensor]:
    """T = BᵀB of a random bidiagonal B, as Lanczos on JᵀJ gives it."""
    generator = torch.Generator().manual_seed(seed)
    alpha = torch.rand(count, steps, generator=generator, dtype=torch.float64) + 1e-2
    beta = torch.rand(count, steps, generator=generator, dtype=torch.float64) * spread + 1e-3
    diagonal = alpha.square()
    diagonal[:, 1:] += beta[:, :-1].square()
    return diagonal, alpha * beta


def _dense(diagonal: Tensor, off: Tensor) -> Tensor:
    inner = off[:, :-1]
    return torch.diag_embed(diagonal) + torch.diag_embed(inner, 1) + torch.diag_embed(inner, -1)


@given(
    st.integers(1, 30),
    st.integers(0, 1000),
    st.sampled_from([1e-2, 0.3, 1.0]),
    st.sampled_from([1e-30, 1.0, 1e20]),
)
def test_ritz_value_and_vector(steps: int, seed: int, spread: float, scale: float) -> None:
    diagonal, off = _random(5, steps, seed, spread)
    values, vectors = torch.linalg.eigh(_dense(diagonal, off))
    matrix = LanczosMatrix(diagonal * scale, off * scale)
    ritz = matrix.ritz()
    torch.testing.assert_close(ritz / scale, values[:, -1], rtol=1e-11, atol=1e-13)
    found = matrix.vector()
    residual = torch.einsum("nij,nj->ni", _dense(diagonal, off), found) - ritz[:, None] / scale * found
    assert float(residual.norm(dim=1).max()) < 1e-9
    if steps == 1 or float((values[:, -1] - values[:, -2]).min()) > 1e-3:
        torch.testing.assert_close(
            (found * vectors[:, :, -1]).sum(1).abs(), torch.ones(5).double(), rtol=0, atol=1e-9
        )


@given(st.integers(1, 30), st.integers(0, 1000), st.sampled_from([0.5, 1e-4, 1e-12]))
def test_upper_bound_is_where_the_polynomial_reaches_its_target(
    steps: int, seed: int, threshold: float
) -> None:
    diagonal, off = _random(5, steps, seed, 0.5)
    values = torch.linalg.eigvalsh(_dense(diagonal, off))
    matrix = LanczosMatrix(diagonal, off)
    bound = matrix.upper_bound(matrix.ritz(), -math.log(threshold))

    def log_p(point: Tensor) -> Tensor:
        logs: Tensor = (point[:, None] - values).log().sum(1) - off.log().sum(1)
        return logs

    excess = bound - values[:, -1]
    beyond_rounding = excess > 1e-6  # below that, the oracle's own eigenvalues decide
    assert bool((bound > values[:, -1]).all())
    if steps <= 3:
        assert bool(beyond_rounding.all())  # so that what follows says something
    target = -math.log(threshold)
    assert bool((log_p(bound) >= target)[beyond_rounding].all())  # it is a bound
    assert bool((log_p(values[:, -1] + 0.85 * excess) < target)[beyond_rounding].all())  # and not a loose one


def test_a_closed_space_is_padding() -> None:
    diagonal = torch.tensor([[2.0, 1.0, 0.0]]).double()
    off = torch.tensor([[0.5, 0.0, 0.0]]).double()
    expected = torch.linalg.eigvalsh(torch.tensor([[2.0, 0.5], [0.5, 1.0]]).double())[-1]
    torch.testing.assert_close(LanczosMatrix(diagonal, off).ritz()[0], expected)


def test_miss_threshold_bounds_the_share_of_unlucky_starts() -> None:
    generator = torch.Generator().manual_seed(0)
    for dimension in (10, 784):
        start = torch.randn(200_000, dimension, generator=generator)[:, :1] if dimension == 10 else None
        if start is None:
            first = torch.randn(200_000, generator=generator)
            rest = torch.distributions.Chi2(torch.tensor(float(dimension - 1))).sample((200_000,))
            component = first / (first.square() + rest).sqrt()
        else:
            rest = torch.distributions.Chi2(torch.tensor(float(dimension - 1))).sample((200_000,))
            component = start[:, 0] / (start[:, 0].square() + rest).sqrt()
        share = float((component.abs() < miss_threshold(dimension, 0.05)).double().mean())
        assert 0.04 < share < 0.053  # at most the risk, and close to it


def test_a_priori_steps_grow_as_one_over_the_root_of_the_tolerance() -> None:
    assert a_priori_steps(10**6, 1e-4, 0.01) / a_priori_steps(10**6, 1e-2, 0.01) > 9
    assert a_priori_steps(20, 1e-9, 0.01) == 20


@given(st.integers(1, 40), st.integers(1, 5), st.integers(0, 100))
def test_squaring_agrees_with_eigvalsh(size: int, repeated: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    values = torch.rand(size, generator=generator, dtype=torch.float64)
    values[: min(repeated, size)] = 1.5
    q, _ = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64))
    gram = (q * values) @ q.T
    value, vector = by_squaring(gram[None])
    torch.testing.assert_close(value, torch.tensor([1.5]).double(), rtol=1e-12, atol=0)
    torch.testing.assert_close(gram @ vector[0], 1.5 * vector[0], rtol=0, atol=1e-6)


def test_squaring_of_zero_is_zero() -> None:
    assert by_squaring(torch.zeros(2, 3, 3).double())[0].tolist() == [0.0, 0.0]
