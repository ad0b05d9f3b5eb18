"""Co-correlation: definitions against the dense oracle, Theorem 4.5, invariances."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import undertow as ut
from undertow.core.errors import InputError, SeamError

from ..model_cases import CASES, Case, dense_jacobians


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_statistic_against_its_definition(case: Case) -> None:
    net, x = case.make(6, torch.float64)
    for seam in ut.seams(net, x)[:3]:
        head, tail = ut.split(net, seam, x=x)
        h = torch.linalg.matrix_norm(dense_jacobians(head, tail(x.clone()).detach()).detach(), 2)
        t = torch.linalg.matrix_norm(dense_jacobians(tail, x).detach(), 2)
        n = torch.linalg.matrix_norm(dense_jacobians(net, x).detach(), 2)
        found = ut.collaboration(net, x, seam=seam, method="exact")
        product = h * t

        def close(value: float, expected: torch.Tensor) -> None:
            assert value == pytest.approx(float(expected), rel=1e-9, abs=1e-12)

        close(found.energy_head, h.square().mean().sqrt())
        close(found.energy_tail, t.square().mean().sqrt())
        close(found.energy, n.square().mean().sqrt())
        close(found.mean, product.mean())
        close(found.variance, product.var(unbiased=False))
        if float(product.mean()) > 0:
            close(found.co_correlation, (n.square().mean() / product.square().mean()).sqrt())
            close(found.linear_correlation, product.mean() / (h.square().mean() * t.square().mean()).sqrt())
        assert found.identity_gap <= 1e-12


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize(("dtype", "gap"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_theorem_4_5_along_the_whole_chain(case: Case, dtype: torch.dtype, gap: float) -> None:
    net, x = case.make(5, dtype)
    places = ut.seams(net, x)
    if not places:
        pytest.skip("nothing to cut")
    found = ut.collaboration(net, x, seams=places)
    assert found.identity_gap <= gap
    assert all(link.identity_gap <= gap for link in found.links)
    assert math.prod(value for _, value in found.factors) == pytest.approx(found.energy, rel=10 * gap)
    assert found.energy == pytest.approx(ut.energy(net, x).value, rel=2e-3)
    assert len(found.co_correlation) == len(places) == len(found.energies) - 1


def _net(seed: int, width: int, depth: int, outputs: int) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers: list[nn.Module] = [nn.Linear(7, width), nn.ReLU()]
        for _ in range(depth):
            layers += [nn.Linear(width, width), nn.LeakyReLU(0.1)]
        return nn.Sequential(*layers, nn.Linear(width, outputs))


@given(st.integers(0, 10**6), st.integers(1, 80), st.integers(0, 2), st.sampled_from([1, 3, 70]))
def test_co_correlation_lies_between_zero_and_one(seed: int, width: int, depth: int, outputs: int) -> None:
    net = _net(seed, width, depth, outputs)
    x = torch.randn(5, 7, generator=torch.Generator().manual_seed(seed))
    for form in ("equation-9", "algorithm-1"):
        found = ut.collaboration(net, x, seam="1", form=form)  # type: ignore[arg-type]
        assert 0 <= found.co_correlation <= 1
    found = ut.collaboration(net, x, seam="1")
    assert found.identity_gap <= 1e-5
    assert 0 <= found.linear_correlation <= 1 + 1e-6
    assert found.relative_std >= 0


@given(st.integers(0, 10**6), st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_scaling_either_side_changes_no_ratio(seed: int, head_scale: float, tail_scale: float) -> None:
    net = _net(seed, 30, 0, 3).double()
    x = torch.randn(6, 7, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    before = ut.collaboration(net, x, seam="1")
    with torch.no_grad():
        for index, scale in ((0, tail_scale), (2, head_scale)):
            for parameter in net[index].parameters():
                parameter.mul_(scale)
    after = ut.collaboration(net, x, seam="1")
    assert after.co_correlation == pytest.approx(before.co_correlation, rel=1e-9)
    assert after.linear_correlation == pytest.approx(before.linear_correlation, rel=1e-9)
    assert after.energy == pytest.approx(before.energy * head_scale * tail_scale, rel=1e-9)


@given(st.integers(0, 10**6))
def test_rotating_input_and_output_changes_nothing(seed: int) -> None:
    net = _net(seed, 20, 0, 4).double()
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(6, 7, generator=generator, dtype=torch.float64)
    q, _ = torch.linalg.qr(torch.randn(7, 7, generator=generator, dtype=torch.float64))
    p, _ = torch.linalg.qr(torch.randn(4, 4, generator=generator, dtype=torch.float64))
    before = ut.collaboration(net, x, seam="1")
    with torch.no_grad():
        net[0].weight.copy_(net[0].weight @ q.T)  # type: ignore[operator,union-attr,arg-type]
        net[2].weight.copy_(p @ net[2].weight)  # type: ignore[operator,union-attr,arg-type]
    after = ut.collaboration(net, x @ q.T, seam="1")
    for name in ("co_correlation", "linear_correlation", "mean", "energy", "energy_head", "energy_tail"):
        assert getattr(after, name) == pytest.approx(getattr(before, name), rel=1e-9)


def test_aligned_and_orthogonal_layers_are_the_extremes() -> None:
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 1, bias=False))
    x = torch.ones(3, 2)
    with torch.no_grad():
        net[0].weight.copy_(torch.diag(torch.tensor([3.0, 0.0])))  # type: ignore[operator,union-attr]
        net[1].weight.copy_(torch.tensor([[1.0, 0.0]]))  # type: ignore[operator,union-attr]
    assert ut.collaboration(net, x, seam="0").co_correlation == pytest.approx(1.0)
    with torch.no_grad():
        net[1].weight.copy_(torch.tensor([[0.0, 1.0]]))  # type: ignore[operator,union-attr]
    assert ut.collaboration(net, x, seam="0").co_correlation == 0.0


def test_algorithm_1_is_plain_means() -> None:
    net, x = CASES[2].make(8, torch.float64)
    head, tail = ut.split(net, "2", x=x)
    h = ut.jacobian_norms(head, tail(x)).value
    t = ut.jacobian_norms(tail, x).value
    n = ut.jacobian_norms(net, x).value
    found = ut.collaboration(net, x, seam="2", form="algorithm-1")
    assert found.co_correlation == pytest.approx(float(n.mean() / (h * t).mean()))
    assert found.variance == pytest.approx(float((h * t).var()))


def test_error_bound_covers_a_loose_measurement() -> None:
    net = nn.Sequential(nn.Linear(90, 200, bias=False), nn.ReLU(), nn.Linear(200, 80, bias=False))
    x = torch.randn(10, 90)
    loose = ut.collaboration(net, x, seam="1", method="krylov", rtol=0.05)
    exact = ut.collaboration(net, x, seam="1", method="exact", dtype=torch.float64)
    assert abs(loose.co_correlation - exact.co_correlation) <= loose.error
    assert loose.error > exact.error


def test_clear_errors() -> None:
    net, x = CASES[2].make(3)
    with pytest.raises(SeamError, match="has no module 'layer4'"):
        ut.collaboration(net, x, seam="layer4")
    with pytest.raises(InputError, match="either one seam"):
        ut.collaboration(net, x)  # type: ignore[call-overload]
    with pytest.raises(InputError, match="did you mean 'equation-9'"):
        ut.collaboration(net, x, seam="1", form="equation9")  # type: ignore[call-overload]
    with pytest.raises(InputError, match="to be cut"):
        ut.collaboration(lambda z: z, x, seam="1")  # type: ignore[call-overload]
