"""Norms of every model case against a dense float64 SVD: the bound holds, the tolerance is met."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import undertow as ut
from undertow.core.errors import InputError, ModelError
from undertow.core.status import Status
from undertow.jacobian.layered import LayeredOperator
from undertow.jacobian.norms import matrix_norm
from undertow.jacobian.operator import AutogradOperator

from ..model_cases import CASES, Case, dense_jacobians, dense_norms

cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@cases
@pytest.mark.parametrize("method", ["auto", "exact", "krylov"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_error_bound_holds_in_every_sample(case: Case, method: str, dtype: torch.dtype) -> None:
    net, x = case.make(dtype=dtype)
    found = ut.jacobian_norms(net, x, method=method)  # type: ignore[arg-type]
    true = dense_norms(net, x)
    assert found.status.ok
    assert bool(found.converged.all())
    assert bool(((found.value - true).abs() <= found.error).all())
    assert bool(((found.value - true).abs() <= 1e-3 * true + 1e-12).all())
    assert bool((found.error <= 1.02e-3 * found.value).all())


@cases
def test_exact_is_exact_to_rounding(case: Case) -> None:
    net, x = case.make(dtype=torch.float64)
    found = ut.jacobian_norms(net, x, method="exact")
    torch.testing.assert_close(found.value, dense_norms(net, x), rtol=1e-12, atol=1e-13)
    assert found.status is Status.EXACT


@cases
def test_products_agree_with_the_dense_jacobian(case: Case) -> None:
    net, x = case.make(5, torch.float64)
    operator = ut.jacobian_operator(net, x)
    dense = dense_jacobians(net, x)
    u = torch.randn(5, operator.in_size, dtype=torch.float64)
    v = torch.randn(5, operator.out_size, dtype=torch.float64)
    torch.testing.assert_close(operator.jvp(u.clone()), torch.einsum("noi,ni->no", dense, u))
    torch.testing.assert_close(operator.vjp(v.clone()), torch.einsum("noi,no->ni", dense, v))
    torch.testing.assert_close(operator.rows(), dense)
    torch.testing.assert_close(operator.columns(), dense.mT)
    some = torch.tensor([3, 1])
    torch.testing.assert_close(operator.take(some).vjp(v[some]), operator.vjp(v)[some])


def test_auto_picks_by_the_small_side() -> None:
    x = torch.randn(3, 200)
    assert ut.jacobian_norms(nn.Linear(200, 64), x).method == "exact"
    assert ut.jacobian_norms(nn.Sequential(nn.Linear(200, 65), nn.ReLU()), x).method == "krylov"
    assert ut.jacobian_norms(nn.Linear(200, 1), x).steps.tolist() == [1, 1, 1]


def test_chunks_do_not_change_the_answer() -> None:
    net, x = next(case for case in CASES if case.name == "wide relu layer").make(20)
    whole = ut.jacobian_norms(net, x)
    parts = ut.jacobian_norms(net, x, chunk=3)
    torch.testing.assert_close(parts.value, whole.value, rtol=1e-6, atol=0)
    tight = ut.jacobian_norms(net, x, memory_budget=200_000)
    torch.testing.assert_close(tight.value, whole.value, rtol=1e-6, atol=0)


def test_out_of_memory_halves_the_chunk_and_goes_on() -> None:
    sizes: list[int] = []

    class Greedy(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            sizes.append(len(x))
            if len(x) > 5:
                raise torch.OutOfMemoryError("as a GPU would say")
            return x.square()

    x = torch.randn(11, 70)
    found = ut.jacobian_norms(Greedy(), x, chunk=11)
    torch.testing.assert_close(found.value, 2 * x.abs().amax(1).double(), rtol=1e-3, atol=0)
    assert 11 in sizes
    assert 6 in sizes


def test_too_few_steps_are_not_called_converged() -> None:
    net, x = next(case for case in CASES if case.name == "wide relu layer").make()
    found = ut.jacobian_norms(net, x, max_steps=6, rtol=1e-6)
    assert found.status is Status.MAX_STEPS
    assert not bool(found.converged.any())
    assert bool((dense_norms(net, x) <= found.value + found.error).all())
    assert "max_steps" in found.status.sentence


def test_a_tolerance_below_rounding_is_met_in_float64() -> None:
    net, x = next(case for case in CASES if case.name == "wide relu layer").make()
    found = ut.jacobian_norms(net, x, rtol=1e-7)
    assert found.status is Status.CONVERGED
    assert bool(((found.value - dense_norms(net, x)).abs() <= found.error).all())
    assert bool((found.error <= 1.02e-7 * found.value).all())


def test_each_sample_stops_on_its_own() -> None:
    """A layer whose spectrum is easy where the first input is positive, hard elsewhere."""

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hard = nn.Parameter(torch.randn(120, 120, generator=torch.Generator().manual_seed(0)))

        def forward(self, x: Tensor) -> Tensor:
            easy = 100 * x[:, :1].expand(-1, 120)
            return torch.where(x[:, :1] > 0, easy, x @ self.hard.T)

    x = torch.randn(10, 120)
    steps = ut.jacobian_norms(Two(), x).steps
    positive = x[:, 0] > 0
    assert int(steps[positive].max()) < int(steps[~positive].min())


def test_warm_start_costs_less_and_is_as_right() -> None:
    net, x = next(case for case in CASES if case.name == "wide relu layer").make(40)
    cold = ut.jacobian_norms(net, x, keep_vectors=True)
    with torch.no_grad():
        net[0].weight.add_(0.01 * torch.randn(300, 100) * 300**-0.5)  # type: ignore[index,union-attr,operator]
    again = ut.jacobian_norms(net, x)
    warm = ut.jacobian_norms(net, x, start=cold, keep_vectors=True)
    assert warm.status is Status.TRACKED
    assert float(warm.steps.double().mean()) <= 0.65 * float(again.steps.double().mean())
    assert bool(((warm.value - dense_norms(net, x)).abs() <= warm.error).all())


def test_vectors_attain_the_norm() -> None:
    net, x = next(case for case in CASES if case.name == "wide relu layer").make()
    found = ut.jacobian_norms(net, x, keep_vectors=True)
    assert found.vectors is not None
    operator = ut.jacobian_operator(net, x)
    torch.testing.assert_close(
        operator.jvp(found.vectors).norm(dim=1).double(), found.value, rtol=1e-4, atol=0
    )


@pytest.mark.parametrize("scale", [1e-25, 1e-15, 1e15])
@pytest.mark.parametrize("method", ["exact", "krylov"])
def test_tiny_and_huge_jacobians(scale: float, method: str) -> None:
    net, x = next(case for case in CASES if case.name == "wide relu layer").make()
    expected = dense_norms(net, x) * scale
    with torch.no_grad():
        net[0].weight.mul_(scale)  # type: ignore[index,union-attr,operator]
    found = ut.jacobian_norms(net, x, method=method)  # type: ignore[arg-type]
    torch.testing.assert_close(found.value, expected, rtol=1e-3, atol=0)


def test_matrix_norm_of_a_large_matrix() -> None:
    matrix = torch.randn(1100, 1050, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = matrix_norm(matrix, rtol=1e-4)
    true = torch.linalg.matrix_norm(matrix, 2)
    assert found.method == "krylov"
    assert abs(float(found.value[0] - true)) <= float(found.error[0]) <= 1.02e-4 * float(true)


def test_float64_on_request_leaves_the_network_alone() -> None:
    net, x = CASES[2].make()
    found = ut.jacobian_norms(net, x, dtype=torch.float64)
    torch.testing.assert_close(found.value, dense_norms(net, x), rtol=1e-12, atol=0)
    assert all(parameter.dtype == torch.float32 for parameter in net.parameters())


def test_a_plain_function_will_do() -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, -4.0]])
    found = ut.jacobian_norms(lambda z: z.square().sum(1), x)
    torch.testing.assert_close(found.value, 2 * x.norm(dim=1).double())


def test_same_seed_same_bits() -> None:
    net, x = next(case for case in CASES if case.name == "residual").make()
    first = ut.jacobian_norms(net, x, generator=torch.Generator().manual_seed(3))
    second = ut.jacobian_norms(net, x, generator=torch.Generator().manual_seed(3))
    assert torch.equal(first.value, second.value)
    assert torch.equal(first.error, second.error)


class Batchwise(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


class Pair(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x


class Noisy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x, 0.5, training=True)


@pytest.mark.parametrize(
    ("net", "x", "kind", "words"),
    [
        (nn.Linear(3, 2), torch.zeros(0, 3), InputError, "empty batch"),
        (nn.Linear(3, 2), torch.tensor([[1.0, float("nan"), 0.0]]), InputError, "NaN or Inf in 1 of 1"),
        (nn.Linear(3, 2), torch.ones(2, 3, dtype=torch.int64), InputError, r"x\.float\(\)"),
        (nn.Linear(3, 2), torch.ones(2, 3, dtype=torch.float64), InputError, "dtype=torch.float32"),
        (nn.Linear(3, 2), torch.ones(2, 3, device="meta"), InputError, "x is on meta but the network is on cpu"),
        (Pair().forward, torch.ones(2, 3), ModelError, r"net\(x\)\[0\]"),
        (Batchwise(), torch.ones(4, 3), ModelError, "other samples"),
        (Noisy(), torch.ones(4, 30), ModelError, r"net\.eval\(\)"),
        (nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), torch.randn(4, 3), ModelError, "BatchNorm1d in train"),
        (nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.1)), torch.randn(4, 3), ModelError, "Dropout in train"),
        (nn.BatchNorm1d(3, track_running_stats=False).eval(), torch.randn(4, 3), ModelError, "other samples"),
        (lambda x: x.argmax(1), torch.randn(4, 3), ModelError, "logits"),
        (lambda x: x.sum(), torch.randn(4, 3), ModelError, "first axis"),
        ("net", torch.randn(4, 3), InputError, "torch.nn.Module"),
        (nn.Linear(3, 2), [[1.0, 2.0, 3.0]], InputError, "torch.as_tensor"),
    ],
)  # fmt: skip
def test_bad_input_is_a_sentence(net: nn.Module, x: Tensor, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        ut.jacobian_norms(net, x)


def test_bad_options_are_sentences() -> None:
    net, x = nn.Linear(3, 2), torch.ones(2, 3)
    with pytest.raises(InputError, match="did you mean 'krylov'"):
        ut.jacobian_norms(net, x, method="krilov")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="rtol"):
        ut.jacobian_norms(net, x, rtol=0)
    wide = nn.Sequential(nn.Linear(80, 80), nn.ReLU())
    without = ut.jacobian_norms(wide, torch.ones(2, 80))
    with pytest.raises(InputError, match="keep_vectors"):
        ut.jacobian_norms(wide, torch.ones(2, 80), start=without)
    with pytest.raises(InputError, match="at least 1"):
        ut.jacobian_norms(nn.Sequential(net, nn.ReLU()), x, chunk=0)


def test_train_mode_dropout_of_zero_is_no_randomness() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.0))
    assert ut.jacobian_norms(net, torch.ones(2, 3)).status.ok


def test_layers_without_second_derivative_fall_back_to_forward_mode() -> None:
    class Cube(torch.autograd.Function):
        """x³ with a first derivative in both modes, and no derivative of the backward pass."""

        @staticmethod
        def forward(x: Tensor) -> Tensor:
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]  # noqa: ARG004
            ctx.save_for_backward(inputs[0])
            ctx.save_for_forward(inputs[0])

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, gradient: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
            return gradient * 3 * ctx.saved_tensors[0] ** 2

        @staticmethod
        def jvp(ctx, tangent: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
            return tangent * 3 * ctx.saved_tensors[0] ** 2

    x = torch.randn(4, 70)
    found = ut.jacobian_norms(Cube.apply, x)
    assert found.method == "krylov"
    torch.testing.assert_close(found.value, 3 * x.square().amax(1).double(), rtol=1e-3, atol=0)


@pytest.mark.parametrize("scale", [1e-35, 1e-22, 1.0, 1e22])
def test_small_and_large_numbers_do_not_make_a_second_derivative_missing(scale: float) -> None:
    """Forward mode passes through the whole network for every product: six times as long."""
    x = torch.randn(3, 40, generator=torch.Generator().manual_seed(0))
    operator = AutogradOperator(lambda z: scale * z.tanh(), x)
    image = operator.jvp(torch.ones(3, 40))
    assert operator._forward_mode is False
    torch.testing.assert_close(image / scale, 1 - x.tanh().square())


@pytest.mark.parametrize(("size", "bump"), [(100, 2e-5), (1000, 1e-4), (3072, 5e-4)])
def test_a_space_that_closes_to_rounding_does_not_hide_a_larger_direction(size: int, bump: float) -> None:
    top = nn.functional.normalize(torch.randn(size, generator=torch.Generator().manual_seed(5)), dim=0)
    x = torch.randn(3, size, generator=torch.Generator().manual_seed(6))
    found = ut.jacobian_norms(lambda z: z + bump * (z @ top)[:, None] * top, x, method="krylov")
    assert found.status is Status.CONVERGED
    assert bool(((found.value - (1 + bump)).abs() <= found.error).all())
    assert bool((found.error < 1e-4).all())


@pytest.mark.parametrize("scale", [1e-30, 1e-11, 1e-10, 1e-9, 1e9, 1e11, 1e12, 1e25])
def test_krylov_at_any_scale_of_single_precision(scale: float) -> None:
    generator = torch.Generator().manual_seed(0)
    net = nn.Sequential(nn.Linear(100, 120, bias=False), nn.ReLU(), nn.Linear(120, 90, bias=False))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 10)
        parameter.mul_(scale)
    x = torch.randn(3, 100, generator=generator)
    found = ut.jacobian_norms(net, x, method="krylov")
    exact = ut.jacobian_norms(net, x, method="exact")
    assert found.status is Status.CONVERGED
    assert bool(((found.value - exact.value).abs() <= found.error + exact.error).all())


@pytest.mark.parametrize(
    "mixes",
    [lambda x: x - x[:1], lambda x: x.cumsum(0), lambda x: torch.softmax(x - x.mean(0), 1)],
    ids=["first", "cumulative", "rows that sum to one"],
)
@pytest.mark.parametrize("count", [2, 4])
def test_every_dependence_between_samples_is_seen(mixes: Callable[[Tensor], Tensor], count: int) -> None:
    with pytest.raises(ModelError, match="depends on other samples"):
        ut.jacobian_norms(mixes, torch.randn(count, 3, generator=torch.Generator().manual_seed(0)))


def test_a_detached_output_is_refused_and_a_constant_one_is_not() -> None:
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    with pytest.raises(ModelError, match="no gradient"):
        ut.jacobian_norms(lambda z: z.detach() * 2, x)
    assert ut.jacobian_norms(lambda z: torch.ones(len(z), 2), x).value.tolist() == [0, 0, 0, 0]


def test_a_forward_replaced_on_the_instance_is_what_is_measured() -> None:
    layer = nn.Linear(3, 3, bias=False)
    layer.forward = lambda input: 2 * input  # type: ignore[method-assign]
    assert ut.jacobian_norms(layer, torch.ones(2, 3)).value.tolist() == [2, 2]


def test_max_steps_below_one_is_refused() -> None:
    with pytest.raises(InputError, match="max_steps"):
        ut.jacobian_norms(nn.Linear(3, 2), torch.ones(2, 3), max_steps=0)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_an_operator_works_where_gradients_are_off(mode: Callable[[], AbstractContextManager[None]]) -> None:
    net = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Tanh())
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    dense = dense_jacobians(net, x)
    with mode():
        operator = ut.jacobian_operator(net, x.clone())
        torch.testing.assert_close(operator.jvp(torch.ones(6, 5)), dense.sum(2), check_dtype=False)
        torch.testing.assert_close(operator.vjp(torch.ones(6, 4)), dense.sum(1), check_dtype=False)
        torch.testing.assert_close(operator.take(torch.tensor([1, 2])).rows(), dense[1:3], check_dtype=False)


def test_a_linear_network_is_read_at_one_sample_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All samples have the same Jacobian: one operator as given serves the choice of the method and the norm."""
    made: list[int] = []
    plain = LayeredOperator.at.__func__  # type: ignore[attr-defined]

    def counted(cls: type[LayeredOperator], /, networks: Any, x: Tensor, **options: Any) -> LayeredOperator:
        if options.get("noise") is None and options.get("dtype") is None:
            made.append(len(x))
        found: LayeredOperator = plain(cls, networks, x, **options)
        return found

    monkeypatch.setattr(LayeredOperator, "at", classmethod(counted))
    first, second = nn.Linear(5, 4), nn.Linear(4, 3)
    norms = ut.jacobian_norms(nn.Sequential(first, second).eval(), torch.randn(7, 5))
    assert made == [1]
    expected = torch.linalg.matrix_norm((second.weight @ first.weight).detach().double(), 2)
    torch.testing.assert_close(norms.value, expected.expand(7), rtol=1e-5, atol=0)
