"""Measures of networks on a GPU that is pretended: no tensor is left on the CPU, and values are those of the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import undertow as ut
from tests.pretended_gpu import pretended_gpu
from undertow.training import CollaborationPenalty

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="there is a GPU, which need not be pretended"
)

Measured = Callable[[nn.Module, Tensor, Tensor], Any]
COUNT = 6


def dense() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(32, 9), nn.ReLU(), nn.Linear(9, 3))


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3, 3)
    )


def penalty(net: nn.Module, x: Tensor, _: Tensor) -> Tensor:
    weights = list(net.parameters())
    rows = torch.arange(len(x), device=x.device)
    value = CollaborationPenalty("2", 0.5, steps=3)(
        net, x, rows=rows, memory={}, generator=torch.Generator(x.device).manual_seed(0)
    )
    return torch.cat([each.flatten() for each in torch.autograd.grad(value, weights[:-1])])


NORMS: dict[str, Measured] = {
    f"norms, {method}": lambda net, x, _, method=method: ut.jacobian_norms(net, x, method=method).value  # type: ignore[misc]
    for method in ("auto", "exact", "krylov", "power", "power-authors")
}
MEASURES: dict[str, Measured] = {
    **NORMS,
    "norms in float64": lambda net, x, _: ut.jacobian_norms(net, x, dtype=torch.float64).value,
    "energy": lambda net, x, y: ut.energy(net, x, y, loss="cross-entropy").value,
    "collaboration": lambda net, x, _: ut.collaboration(net, x, seams=["2"]).co_correlation,
    "seam profile": lambda net, x, _: ut.seam_profile(net, x).co_correlation,
    "stable rank": lambda net, _, __: [each.value for each in ut.stable_rank(net).values()],
    "sharpness": lambda net, x, y: ut.sharpness(net, x, y, loss="cross-entropy").value,
    "trace": lambda net, x, y: ut.hessian_trace(net, x, y, loss="cross-entropy", matrix="gauss-newton").value,
    "margins": lambda net, x, y: ut.margins(net, x, y).value,
    "kkt": lambda net, x, y: ut.kkt(net, x, y, loss="cross-entropy").margins,
    "attacks": lambda net, x, y: ut.robust_accuracy(net, x, y, eps=0.05, attack="fast").value,
    "certificates": lambda net, x, y: ut.certified_accuracy(net, x, y, eps=0.01).value,
    "a penalty": penalty,
}


OF_CONVOLUTIONS = (
    "norms, exact",
    "norms in float64",
    "seam profile",
    "sharpness",
    "margins",
    "certificates",
    "a penalty",
)


@pytest.mark.parametrize(
    ("measure", "build"),
    [*((name, dense) for name in MEASURES), *((name, convolutional) for name in OF_CONVOLUTIONS)],
)
def test_measures(measure: str, build: Callable[[], nn.Module]) -> None:
    torch.manual_seed(1)
    net, x, y = build(), torch.randn(COUNT, 2, 4, 4), torch.arange(COUNT) % 3
    net(torch.randn(32, 2, 4, 4))
    expected = torch.as_tensor(MEASURES[measure](net.eval(), x, y))
    with pretended_gpu() as gpu:
        found = torch.as_tensor(MEASURES[measure](net.to("cuda"), x.cuda(), y.cuda())).cpu()
        assert gpu.refused == []
    torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-5, check_dtype=False)


def test_memory_that_runs_out_halves_the_samples() -> None:
    torch.manual_seed(1)
    net, x = dense().eval(), torch.randn(300, 2, 4, 4)
    expected = ut.jacobian_norms(net, x, method="exact").value
    with pretended_gpu() as gpu:
        net, x = net.to("cuda"), x.cuda()
        gpu.operations.largest = (
            1 + 300 * 32 * 4
        )  # the samples, and not three rows of as many numbers for each
        found = ut.jacobian_norms(net, x, method="exact").value
        torch.testing.assert_close(found.cpu(), expected)
