"""‖W‖₂ of many matrices at once, against their singular values."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from undertow.jacobian import largest_singular as module
from undertow.jacobian.largest_singular import largest_singular
from undertow.measures.rank import stable_ranks


def drawn(rows: int, columns: int, seed: int, decay: float) -> torch.Tensor:
    draw = torch.Generator().manual_seed(seed)
    matrix = torch.randn(3, rows, columns, generator=draw, dtype=torch.float64)
    return matrix * torch.arange(1, columns + 1, dtype=torch.float64) ** -decay


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 60),
    st.integers(1, 60),
    st.integers(0, 100),
    st.sampled_from([0.0, 1.0]),
    st.sampled_from([1e-9, 1.0, 1e9]),
    st.booleans(),
)
def test_against_singular_values(
    rows: int, columns: int, seed: int, decay: float, units: float, lanczos: bool
) -> None:
    stack = drawn(rows, columns, seed, decay) * units
    before = module._SMALL
    module._SMALL = 0 if lanczos else before
    try:
        value, error = largest_singular(stack)
    finally:
        module._SMALL = before
    exact = torch.linalg.svdvals(stack)[:, 0]
    assert (value <= exact * (1 + 1e-12)).all()
    assert (exact - value <= error + 1e-12 * exact).all()
    assert (exact - value <= 5e-6 * exact).all()


@pytest.mark.parametrize("kind", ["one direction", "identity", "clustered", "learned"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_large_matrices(kind: str, dtype: torch.dtype) -> None:
    noise = torch.randn(260, 300, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    matrix = {
        "one direction": torch.outer(torch.arange(1.0, 261), torch.arange(1.0, 301)).double(),
        "identity": torch.eye(260, 300, dtype=torch.float64),
        "clustered": torch.diag(torch.linspace(0.999, 1.0, 260, dtype=torch.float64)),
        "learned": 1e-3 * noise + torch.outer(noise[:, 0], noise[0]),
    }[kind]
    stack = torch.stack([matrix, matrix.flip(0)]).to(dtype)
    values, errors = stable_ranks(stack)
    for each, value, error in zip(stack.double(), values, errors, strict=True):
        singular = torch.linalg.svdvals(each)
        exact = float((singular / singular[0]).square().sum())
        assert value == pytest.approx(exact, rel=1e-5)
        assert abs(value - exact) <= error + 1e-6 * exact


_UNITS = [10.0**power for power in (-30, -11, -9, -5, 0, 4, 9, 11, 30)]


@pytest.mark.parametrize("rows", [100, 250])  # with the Gram matrix, and by Lanczos
@pytest.mark.parametrize("units", _UNITS)
def test_float32_in_any_units(rows: int, units: float) -> None:
    """A stable rank has no units: where squares leave float32's range it would be NaN, or a wrong number."""
    noise = torch.randn(2, rows, 300, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    stack = (noise * units).float()
    singular = torch.linalg.svdvals(stack.double())
    values, errors = stable_ranks(stack)
    exact = (singular / singular[:, :1]).square().sum(1)
    assert values == pytest.approx(exact.tolist(), rel=1e-5)
    assert max(errors) <= 1e-4 * float(exact.max())
    value, error = largest_singular(stack)
    assert ((value - singular[:, 0]).abs() <= error + 1e-6 * singular[:, 0]).all()
    assert (error <= 1e-5 * singular[:, 0]).all()


def test_float32_in_different_units_at_once() -> None:
    noise = torch.randn(250, 300, generator=torch.Generator().manual_seed(5))
    stack = torch.stack([noise * units for units in _UNITS])
    values, _ = stable_ranks(stack)
    alone, _ = stable_ranks(noise[None])
    assert values == pytest.approx(alone * len(_UNITS), rel=1e-5)


def test_zero_has_rank_zero_among_others() -> None:
    values, _ = stable_ranks(torch.stack([torch.zeros(3, 4), torch.ones(3, 4)]))
    assert values == pytest.approx([0.0, 1.0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_no_rank_reads_below_one(dtype: torch.dtype) -> None:
    draw = torch.Generator().manual_seed(2)
    rows, columns = torch.rand(20, 300, generator=draw), torch.rand(20, 210, generator=draw)
    stack = torch.einsum("mi,mj->mij", rows, columns).to(dtype)
    values, errors = stable_ranks(stack)
    assert min(values) >= 1.0
    assert max(values) < 1 + 1e-5
    assert min(errors) >= 0.0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("shape", [(5, 210, 1000), (5, 1000, 784), (7, 10, 300), (3, 100, 784)])
@pytest.mark.parametrize("learned", [False, True])
def test_on_a_gpu(shape: tuple[int, int, int], learned: bool) -> None:
    draw = torch.Generator().manual_seed(3)
    stack = torch.randn(shape, generator=draw)
    if learned:
        stack = 0.01 * stack + stack[:, :, :1] * stack[:, :1]
    value, error = largest_singular(stack.cuda())
    exact = torch.linalg.svdvals(stack.double())[:, 0]
    assert (exact - value.cpu() <= error.cpu() + 1e-6 * exact).all()
    assert ((value.cpu() / exact - 1).abs() < 5e-6).all()
