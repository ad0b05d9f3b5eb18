"""What the Lanczos run itself promises: an orthonormal basis, an error that covers the residual."""

from __future__ import annotations

import math

import pytest
import torch

import undertow as ut
from undertow.core.status import Status
from undertow.jacobian.factor import Factor
from undertow.jacobian.krylov import _Run
from undertow.jacobian.lanczos_vectors import unit_starts
from undertow.jacobian.layered import LayeredOperator
from undertow.jacobian.operator import AutogradOperator

from ..model_cases import CASES

WIDE = next(case for case in CASES if case.name == "wide relu layer")


def _spiked(size: int, seed: int) -> torch.Tensor:
    """Singular values 10, 5 and a flat rest: the top ones converge early, which is when orthogonality is lost."""
    generator = torch.Generator().manual_seed(seed)
    left, right = (torch.linalg.qr(torch.randn(size, size, generator=generator))[0] for _ in range(2))
    values = torch.cat([torch.tensor([10.0, 5.0]), torch.linspace(0.5, 1.0, size - 2)])
    return left * values @ right


def test_the_basis_stays_orthonormal_long_after_convergence() -> None:
    operator = LayeredOperator((Factor(_spiked(150, 0)),), (None,), (1,))
    start = torch.randn(1, 150, generator=torch.Generator().manual_seed(1))
    run = _Run(operator, start, None, 1e-12, 60, 1e-6, False)
    run.next_looks = [60]  # no stopping before
    while run.advance():
        pass
    basis = run.basis[0, :60].double()
    assert float((basis @ basis.T - torch.eye(60)).abs().max()) < 1e-5


def test_a_space_that_closes_at_once_goes_on_in_a_new_direction() -> None:
    """All singular values are equal, and the noise is drawn from a seed as the start is."""
    operator = LayeredOperator((Factor(torch.eye(5)),), (None,), (1,))
    start = torch.randn(1, 5, generator=torch.Generator().manual_seed(0))
    run = _Run(operator, start, None, 1e-12, 3, 1e-6, False)
    while run.advance():
        pass
    basis = run.basis[0, :3]
    assert float((basis @ basis.T - torch.eye(3)).abs().max()) < 1e-6


def test_in_the_whole_space_the_error_covers_a_cluster_of_norms() -> None:
    """The largest of three that differ by 1e-9, asked for to 1 %: the error is small, and still holds."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        values = torch.tensor([0.5, 0.5, 0.5, 0.2], dtype=torch.float64)
        values += 1e-9 * torch.rand(4, generator=generator, dtype=torch.float64)
        turn = torch.linalg.qr(torch.randn(4, 4, generator=generator, dtype=torch.float64))[0]
        net = torch.nn.Linear(4, 4, bias=False, dtype=torch.float64).requires_grad_(False)
        net.weight.copy_(values[:, None] * turn)
        found = ut.jacobian_norms(net, torch.zeros(1, 4).double(), method="krylov", rtol=1e-2)
        truth = torch.linalg.svdvals(net.weight)[0]
        assert found.value.item() <= (1 + 1e-14) * truth.item() <= (found.value + found.error).item() + 1e-14


@pytest.mark.parametrize("start", ["cold", "warm"])
def test_the_error_covers_the_residual_of_the_returned_vector(start: str) -> None:
    net, x = WIDE.make(30)
    earlier = None
    if start == "warm":
        earlier = ut.jacobian_norms(net, x, keep_vectors=True)
        with torch.no_grad():
            net[0].weight.add_(0.02 * torch.randn(300, 100) * 300**-0.5)  # type: ignore[index,union-attr,operator]
    found = ut.jacobian_norms(net, x, keep_vectors=True, start=earlier, rtol=0.02)
    assert found.vectors is not None
    operator = ut.jacobian_operator(net, x)
    sigma = found.value.float()[:, None]
    residual = operator.vjp(operator.jvp(found.vectors) / sigma) - sigma * found.vectors
    length = residual.norm(dim=1).double()
    assert bool((length <= found.error + 1e-5 * found.value).all())
    assert bool(
        (length > 1e-5 * found.value).any()
    )  # the tolerance was loose enough for residuals to be seen


def test_a_cold_bound_is_more_than_the_residual() -> None:
    """From a random start the error also answers for directions not met yet, so a tiny residual is not enough."""
    net, x = WIDE.make(30)
    found = ut.jacobian_norms(net, x, rtol=0.05)
    assert found.status is Status.CONVERGED
    assert bool((found.error > 1e-3 * found.value).all())
    assert bool((found.risk <= 0.01 / 30 + 1e-12).all())


def test_warm_starts_miss_a_new_direction_no_more_often_than_they_say() -> None:
    """A warm vector without any part in the new top direction: only its noise can find it."""
    size, risk, count = 64, 0.2, 200_000
    operator = LayeredOperator((Factor(torch.eye(size)),), (None,), (1,))
    start = torch.randn(count, size, generator=torch.Generator().manual_seed(0))
    warm = torch.zeros(1, size)
    warm[0, 1] = 1.0
    run = _Run(operator, start[:1], warm, 1e-3, 10, risk, False)
    missed = unit_starts(start, warm.expand(count, size))[:, 0].abs() < math.exp(-run.log_promise)
    assert 0.1 < float(missed.double().mean()) <= risk


def test_looser_risk_needs_fewer_steps() -> None:
    net, x = WIDE.make(30)
    steps = [float(ut.jacobian_norms(net, x, risk=risk).steps.double().mean()) for risk in (0.5, 1e-2, 1e-8)]
    assert steps == sorted(steps)
    assert steps[0] < steps[-1]
    assert math.isfinite(sum(steps))


def test_batches_that_are_slow_to_resize_keep_to_powers_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU: samples that have converged stay until few are left, and others fill the batch up."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Unflatten(1, (1, 12, 12)), torch.nn.Conv2d(1, 6, 3), torch.nn.ReLU())
    x = torch.randn(40, 144)
    x[::13] *= 0.01  # other patterns, other spectra
    expected = ut.jacobian_norms(net, x, method="exact").value
    sizes: list[int] = []
    take = AutogradOperator.take

    def noted(self: AutogradOperator, index: torch.Tensor) -> AutogradOperator:
        sizes.append(len(index))
        return take(self, index)

    monkeypatch.setattr(AutogradOperator, "take", noted)
    for module in ("scaled_gram", "plan"):
        monkeypatch.setattr(f"undertow.jacobian.{module}.slow_to_resize", lambda operator: True)  # noqa: ARG005
    found = ut.jacobian_norms(net, x, method="krylov", rtol=1e-4)
    assert sizes
    assert all(size & (size - 1) == 0 and size <= 16 for size in sizes)
    assert bool(((found.value - expected).abs() <= found.error + 1e-6 * expected).all())
    assert bool(found.converged.all())
