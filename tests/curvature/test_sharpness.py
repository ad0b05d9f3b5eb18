"""Sharpness against the whole Hessian in float64, and attempts to break it."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

import undertow as ut
from tests.curvature.curvature_cases import (
    CURVATURE_CASES,
    CurvatureCase,
    dense_gauss_newton,
    dense_hessian,
    saddle,
)
from undertow.core.errors import InputError, ModelError
from undertow.core.status import Status
from undertow.curvature.hessian_sharpness import sharpness, sharpness_batched

each_case = pytest.mark.parametrize("case", CURVATURE_CASES, ids=lambda case: case.name)


def eigenvalues(net: nn.Module, x: Tensor, y: Tensor, loss: object) -> Tensor:
    return torch.linalg.eigvalsh(dense_hessian(net, x, y, loss)).flip(0)  # type: ignore[arg-type]


def small_problem(dtype: torch.dtype = torch.float32) -> tuple[nn.Module, Tensor, Tensor]:
    return CURVATURE_CASES[0].make(dtype=dtype)


@each_case
@pytest.mark.parametrize("method", ["krylov", "exact"])
def test_the_largest_eigenvalue_is_within_its_error(case: CurvatureCase, method: str) -> None:
    for seed in range(2 if method == "krylov" else 1):
        net, x, y = case.make(seed)
        truth = float(eigenvalues(net, x, y, case.loss)[0])
        generator = torch.Generator().manual_seed(seed)
        found = sharpness(net, x, y, loss=case.loss, method=method, generator=generator)  # type: ignore[arg-type]
        assert found.value - found.rounding <= truth + 1e-300
        assert truth <= found.value + found.error
        if found.status.ok:
            assert found.error <= 1e-2 * abs(found.value) * (1 + 1e-6)
        else:
            assert case.name in ("negative is larger", "deep linear, square"), found
        images = dense_hessian(net, x, y, case.loss) @ found.vector.double()
        assert float((images - found.value * found.vector.double()).norm()) <= found.residual + found.rounding


@pytest.mark.full
@each_case
def test_the_bound_holds_in_every_run(case: CurvatureCase) -> None:
    """A share of ``benchmarks/sharpness.py --runs 1000``."""
    for seed in range(100, 110):
        net, x, y = case.make(seed)
        truth = float(eigenvalues(net, x, y, case.loss)[0])
        generator = torch.Generator().manual_seed(seed)
        found = sharpness(net, x, y, loss=case.loss, method="krylov", generator=generator)
        assert found.value - found.rounding <= truth <= found.value + found.error


@each_case
def test_several_eigenvalues_are_within_their_errors(case: CurvatureCase) -> None:
    net, x, y = case.make(1)
    truth = eigenvalues(net, x, y, case.loss)[:4]
    found = sharpness(net, x, y, loss=case.loss, top=4, method="krylov")
    assert bool((truth >= found.values - found.rounding).all())
    assert bool((truth <= found.values + found.errors).all())
    gram = found.vectors.double() @ found.vectors.double().T
    assert torch.allclose(gram, torch.eye(4).double(), atol=1e-5)


def test_equal_eigenvalues_are_all_found() -> None:
    case = next(case for case in CURVATURE_CASES if case.name == "double top")
    net, x, y = case.make(dtype=torch.float64)
    found = sharpness(net, x, y, loss="square", top=3, rtol=1e-6, method="krylov")
    assert found.values.max() - found.values.min() < 1e-8 * found.value
    assert found.status is Status.CONVERGED


@each_case
def test_gauss_newton_is_within_its_error(case: CurvatureCase) -> None:
    net, x, y = case.make(2)
    truth = float(torch.linalg.eigvalsh(dense_gauss_newton(net, x, y, case.loss))[-1])
    found = sharpness(net, x, y, loss=case.loss, matrix="gauss-newton", method="krylov", atol=1e-12)
    assert found.value - found.rounding <= truth <= found.value + found.error


def test_the_largest_is_meant_and_not_the_largest_modulus() -> None:
    net, x, y = CurvatureCase("indefinite", lambda: nn.Linear(40, 3, bias=False), (40,), saddle, 3).make()
    spectrum = eigenvalues(net, x, y, saddle)
    assert -spectrum[-1] > 5 * spectrum[0] > 0
    found = sharpness(net, x, y, loss=saddle)
    assert abs(found.value - spectrum[0]) <= found.error <= 1e-2 * found.value


@pytest.mark.parametrize("scale", [1e-9, 1e-4, 1e4, 1e9])
def test_units_do_not_matter(scale: float) -> None:
    net, x, y = small_problem()
    plain = sharpness(net, x, y, loss="cross-entropy", method="krylov")

    def scaled(outputs: Tensor, labels: Tensor) -> Tensor:
        return scale * nn.functional.cross_entropy(outputs, labels, reduction="none")

    found = sharpness(net, x, y, loss=scaled, method="krylov")
    assert found.status is Status.CONVERGED
    assert found.value == pytest.approx(scale * plain.value, rel=1e-4)


@pytest.mark.parametrize("unit", [1e-16, 1e-21, 1e-22, 1e-25])
def test_inputs_in_tiny_units_are_measured_in_float64(unit: float) -> None:
    torch.manual_seed(0)
    net, x = nn.Linear(40, 3, bias=False), unit * torch.randn(30, 40)
    truth = float(eigenvalues(net, x, torch.zeros(30, dtype=torch.long), "square")[0])
    found = sharpness(net, x, torch.zeros(30, dtype=torch.long), loss="square", method="krylov")
    assert found.status is Status.CONVERGED
    assert abs(found.value - truth) <= found.error


def test_order_chunks_and_memory_do_not_matter() -> None:
    net, x, y = small_problem()
    plain = sharpness(net, x, y, loss="cross-entropy")
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(3))
    for found in (
        sharpness(net, x[order], y[order], loss="cross-entropy"),
        sharpness(net, x, y, loss="cross-entropy", chunk=3),
        sharpness(net, x, y, loss="cross-entropy", memory_budget=1),
        sharpness(net, torch.cat([x, x]), torch.cat([y, y]), loss="cross-entropy"),
    ):
        assert found.value == pytest.approx(plain.value, rel=1e-5)
    total = sharpness(net, x, y, loss="cross-entropy", reduction="sum")
    assert total.value == pytest.approx(len(x) * plain.value, rel=1e-5)


def test_a_warm_start_says_what_is_not_proved_anew() -> None:
    net, x, y = CurvatureCase("wide", lambda: nn.Linear(200, 4), (200,), "cross-entropy", 4, 50).make()
    cold = sharpness(net, x, y, loss="cross-entropy")
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(1.01)
    warm = sharpness(net, x, y, loss="cross-entropy", start=cold)
    again = sharpness(net, x, y, loss="cross-entropy", rtol=1e-4)
    assert warm.status is Status.TRACKED
    assert warm.products < cold.products
    assert warm.value == pytest.approx(again.value, rel=1e-2)
    assert again.value <= warm.value + warm.error
    assert warm.error <= 4e-2 * warm.value
    with pytest.raises(InputError, match="same parameters"):
        sharpness(net, x, y, loss="cross-entropy", start=cold.vector[:-1])


def test_measuring_leaves_no_trace() -> None:
    net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True), nn.Linear(8, 3)).eval()
    x, y = torch.randn(20, 6), torch.randint(0, 3, (20,))
    for place, parameter in enumerate(net.parameters()):
        parameter.grad = torch.full_like(parameter, place)
    before, random = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    kept = x.clone()
    sharpness(net, x, y, loss="cross-entropy", method="krylov")
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    assert all(
        bool((p.grad == place).all()) for place, p in enumerate(net.parameters()) if p.grad is not None
    )
    assert torch.equal(torch.get_rng_state(), random)
    assert torch.equal(x, kept)
    assert not net.training


def test_what_cannot_be_measured_is_refused_with_the_remedy() -> None:
    x, y = torch.randn(20, 6), torch.randint(0, 3, (20,))
    with pytest.raises(ModelError, match=r"net\.eval\(\)"):
        sharpness(nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3)), x, y, loss="cross-entropy")
    with pytest.raises(ModelError, match=r"net\.eval\(\)"):
        sharpness(nn.Sequential(nn.Linear(6, 3), nn.Dropout(0.5)), x, y, loss="cross-entropy")
    with pytest.raises(ModelError, match="no parameter that trains"):
        sharpness(nn.Linear(6, 3).requires_grad_(False), x, y, loss="cross-entropy")
    with pytest.raises(InputError, match="did you mean 'cross-entropy'"):
        sharpness(nn.Linear(6, 3), x, y, loss="cross-entropi")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="reduction='none'"):
        sharpness(nn.Linear(6, 3), x, y, loss=nn.CrossEntropyLoss())
    with pytest.raises(InputError, match="did you mean 'weight'"):
        sharpness(nn.Linear(6, 3), x, y, loss="cross-entropy", parameters=["weigth"])
    with pytest.raises(InputError, match="one label per sample"):
        sharpness(nn.Linear(6, 3), x, y[:-1], loss="cross-entropy")
    with pytest.raises(InputError, match="dtype"):
        sharpness(nn.Linear(6, 3), x.double(), y, loss="cross-entropy")


class LostSecondDerivative(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)  # type: ignore[attr-defined]
        return x.cos()

    @staticmethod
    def backward(ctx: object, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return -x.sin() * grad.detach()


def test_a_layer_that_loses_its_second_derivative_is_refused() -> None:
    class Layer(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return LostSecondDerivative.apply(x)  # type: ignore[no-any-return,no-untyped-call]

    net = nn.Sequential(nn.Linear(6, 12), Layer(), nn.Linear(12, 3))
    x, y = torch.randn(20, 6), torch.randint(0, 3, (20,))
    for method in ("krylov", "exact"):
        with pytest.raises(ModelError, match="symmetric"):
            sharpness(net, x, y, loss="cross-entropy", method=method)


def test_nan_stays_nan() -> None:
    net, x, y = small_problem()
    with torch.no_grad():
        next(net.parameters())[0, 0] = torch.nan
    for method in ("krylov", "exact"):
        found = sharpness(net, x, y, loss="cross-entropy", method=method)
        assert found.value != found.value
        assert found.error == torch.inf
        assert not found.status.ok


def test_a_dead_network_is_exactly_flat_and_one_parameter_is_enough() -> None:
    dead = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 3, bias=False))
    nn.init.constant_(dead[0].bias, -100.0)  # type: ignore[arg-type]
    x, y = torch.rand(9, 20), torch.zeros(9, dtype=torch.long)
    for method in ("krylov", "exact"):
        found = sharpness(dead, x, y, loss="square", method=method)
        assert (found.value, found.error, found.status.ok) == (0.0, 0.0, True)
    single = sharpness(nn.Linear(1, 1, bias=False), torch.full((5, 1), 3.0), torch.zeros(5), loss="square")
    assert single.value == pytest.approx(9.0)
    assert single.status is Status.EXACT


def test_kinks_are_named() -> None:
    net, x, y = CURVATURE_CASES[1].make()
    found = sharpness(net, x, y, loss="cross-entropy")
    assert found.kinks == ("ReLU",)
    assert "active" in found.sentence
    smooth, x, y = small_problem()
    assert sharpness(smooth, x, y, loss="cross-entropy").kinks == ()


def test_some_parameters_only() -> None:
    net, x, y = small_problem()
    whole = dense_hessian(net, x, y, "cross-entropy")
    count = sum(p.numel() for p in list(net.parameters())[:2])
    truth = float(torch.linalg.eigvalsh(whole[count:, count:])[-1])
    found = sharpness(net, x, y, loss="cross-entropy", parameters=["2.bias", "2.weight"])
    assert found.value == pytest.approx(truth, rel=1e-2)
    assert {name: tuple(t.shape) for name, t in found.by_parameter().items()} == {
        "2.weight": (4, 9),
        "2.bias": (4,),
    }


def test_whole_numbers_as_inputs() -> None:
    net = nn.Sequential(nn.Embedding(11, 6), nn.Flatten(), nn.Linear(18, 3))
    x, y = torch.randint(0, 11, (20, 3)), torch.randint(0, 3, (20,))
    found = sharpness(net, x, y, loss="cross-entropy")
    assert abs(found.value - float(eigenvalues(net, x, y, "cross-entropy")[0])) <= found.error


@pytest.mark.parametrize("case", [CURVATURE_CASES[0], CURVATURE_CASES[8]], ids=lambda case: case.name)
def test_several_networks_at_once_are_measured_as_each_alone(case: CurvatureCase) -> None:
    networks = [case.make(seed)[0] for seed in range(4)]
    _, x, y = case.make()
    together = sharpness_batched(networks, x, y, loss=case.loss, method="krylov")
    for net, found in zip(networks, together, strict=True):
        alone = sharpness(net, x, y, loss=case.loss, method="krylov")
        assert found.value == pytest.approx(alone.value, rel=1e-4)
        assert found.status is alone.status
    with pytest.raises(InputError, match="another architecture"):
        sharpness_batched([networks[0], nn.Linear(6, 3)], x, y, loss="cross-entropy")


def test_a_spoilt_network_does_not_spoil_the_others() -> None:
    case = CURVATURE_CASES[0]
    networks = [case.make(seed)[0] for seed in range(3)]
    with torch.no_grad():
        next(networks[1].parameters())[0, 0] = torch.nan
    _, x, y = case.make()
    found = sharpness_batched(networks, x, y, loss=case.loss, method="krylov")
    assert [each.status.ok for each in found] == [True, False, True]


@each_case
def test_the_trace_is_within_its_interval(case: CurvatureCase) -> None:
    net, x, y = case.make()
    truth = float(dense_hessian(net, x, y, case.loss).trace())
    for probes in (60, 300):
        found = ut.hessian_trace(net, x, y, loss=case.loss, probes=probes)
        assert abs(found.value - truth) <= found.error
    assert found.status is Status.EXACT


def test_too_few_probes_are_refused() -> None:
    net, x, y = small_problem()
    with pytest.raises(InputError, match="or more"):
        ut.hessian_trace(net, x, y, loss="cross-entropy", probes=20)


def test_soft_labels_are_rows_of_probabilities() -> None:
    net, x, y = small_problem()
    hard = sharpness(net, x, y, loss="cross-entropy")
    rows = nn.functional.one_hot(y, 4).float()
    assert sharpness(net, x, rows, loss="cross-entropy").value == pytest.approx(hard.value, rel=1e-5)
    smooth = 0.9 * rows + 0.025

    def loss(outputs: Tensor, labels: Tensor) -> Tensor:
        return -(labels * outputs.log_softmax(1)).sum(1)

    truth = float(eigenvalues(net, x, smooth.double(), loss)[0])
    found = sharpness(net, x, smooth, loss="cross-entropy")
    assert abs(found.value - truth) <= found.error
    with pytest.raises(InputError, match=r"soft labels are rows of probabilities, \(N, 4\)"):
        sharpness(net, x, smooth[:, :3], loss="cross-entropy")


def test_a_misspelt_option_is_named() -> None:
    net, x, y = small_problem()
    with pytest.raises(TypeError, match="rtoll"):
        sharpness(net, x, y, loss="cross-entropy", rtoll=0.1)  # type: ignore[call-arg]
