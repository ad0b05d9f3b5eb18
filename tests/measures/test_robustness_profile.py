"""The profile against its parts, and the trace as a measure against a dense Hessian."""

from __future__ import annotations

import pytest
import torch

from tests.curvature.curvature_cases import CURVATURE_CASES, CurvatureCase, dense_hessian
from undertow.adversary.robustness import robustness
from undertow.data.modular_addition import modular_addition
from undertow.measures.collaboration import collaboration
from undertow.measures.energy import energy
from undertow.measures.margins import margins
from undertow.measures.point_radii import half_distances
from undertow.measures.robustness_profile import RobustnessProfile
from undertow.measures.summed_curvature import HessianTrace
from undertow.models import mlp


def test_the_profile_is_what_its_parts_say() -> None:
    data = modular_addition(p=5, share=0.5, split="all")
    nets = [
        mlp(inputs=10, widths=[12], outputs=5, generator=torch.Generator().manual_seed(seed)).double().eval()
        for seed in range(2)
    ]
    for net in nets:
        optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
        for _ in range(150):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(data.x.double()), data.y).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        net.requires_grad_(False)
    x, y = data.x.double(), data.y
    profile = RobustnessProfile(seam="activation1", count=3, norms=("2", "inf"))
    for net, readings in zip(nets, profile.batched(nets, x, y), strict=True):
        found = {key: value for key, value, _ in readings}
        assert found["margin"] == pytest.approx(margins(net, x[:3], y[:3]).by_layers)
        assert found["energy"] == pytest.approx(energy(net, x[:3]).value, rel=1e-4)
        rho = collaboration(net, x[:3], seam="activation1").co_correlation
        assert found["co-correlation"] == pytest.approx(float(rho), rel=1e-2)
        for norm in ("2", "inf"):
            bracket = robustness(net, x[:3], y[:3], norm=norm, exact=True)
            gaps = half_distances(x[:3], y[:3], x, y, norm=float(norm))
            exact = torch.minimum(bracket.exact, 2 * gaps)
            assert found[f"certified:{norm}"] <= float(bracket.exact.mean()) * (1 + 1e-6)
            assert found[f"attacked:{norm}"] >= float(exact.mean()) * (1 - 1e-6)
            assert found[f"attacked:{norm}"] <= 1.3 * float(exact.mean())
            assert found[f"certified:{norm}"] > 0
    without = RobustnessProfile(seam="activation1", count=1, certify=False)(nets[0], x, y)
    assert not any(key.startswith("certified") for key, _, _ in without)


@pytest.mark.parametrize("case", CURVATURE_CASES[:4], ids=lambda case: case.name)
def test_the_trace_covers_that_of_the_whole_hessian(case: CurvatureCase) -> None:
    net, x, y = case.make(0)
    truth = float(dense_hessian(net, x, y, case.loss).trace())
    assert not callable(case.loss)
    ((key, value, error),) = HessianTrace(loss=case.loss)(net, x, y)
    assert key == ""
    assert error is not None
    assert abs(value - truth) <= error + 1e-9
