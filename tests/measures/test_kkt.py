"""KKT residuals: a support vector machine as oracle, and non-negative least squares on gradients taken one by one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from scipy.optimize import minimize, nnls
from torch import nn

from undertow.core.errors import InputError, ModelError
from undertow.core.losses import Loss
from undertow.measures.kkt import kkt
from undertow.models import Gaussian, two_layer


def separable(n: int = 20, d: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(4)
    y = torch.arange(n) % 2
    return torch.randn(n, d, generator=draw, dtype=torch.float64) + 3.0 * (2 * y - 1)[:, None], y


def test_the_hard_margin_machine_is_a_kkt_point_and_its_neighbours_are_not() -> None:
    """min ½‖w‖² with y_i ⟨w, x_i⟩ ≥ 1, by a solver that knows nothing of multipliers."""
    x, y = separable()
    rows = (x * (2 * y - 1)[:, None]).numpy()
    solved = minimize(
        lambda w: w @ w / 2,
        rows.mean(0),
        jac=lambda w: w,
        constraints={"type": "ineq", "fun": lambda w: rows @ w - 1, "jac": lambda _: rows},
        options={"ftol": 1e-14},
    )
    net = nn.Linear(3, 1, bias=False).double()
    with torch.no_grad():
        net.weight.copy_(torch.from_numpy(solved.x)[None])
    found = kkt(net, x, y)
    assert found.residual == pytest.approx(0.0, abs=1e-5)
    assert found.slackness == pytest.approx(0.0, abs=1e-5)
    assert int((found.multipliers > 1e-6).sum()) <= 3
    with torch.no_grad():
        net.weight += torch.tensor([[0.3, -0.3, 0.0]]) * net.weight.norm()
    moved = kkt(net, x, y)
    assert moved.residual + moved.slackness > 0.05


@pytest.mark.parametrize(("loss", "outputs"), [("logistic", 1), ("bce", 1), ("cross-entropy", 3)])
def test_residual_is_that_of_gradients_one_by_one(loss: Loss, outputs: int) -> None:
    x, y = separable(12, 4)
    y = y if outputs == 1 else torch.arange(12) % 3
    generator = torch.Generator().manual_seed(0)
    net: Any = two_layer(
        inputs=4, width=6, outputs=outputs, init=Gaussian(1.0), bias="hidden", generator=generator
    )
    net.double()
    rows, margins = [], []
    for sample, label in zip(x, y, strict=True):
        scores = net(sample[None])[0]
        others = [s for j, s in enumerate(scores) if j != label]
        q = scores[0] * (2 * label - 1) if outputs == 1 else scores[label] - torch.stack(others).max()
        gradient = torch.autograd.grad(q, [net.hidden.weight, net.hidden.bias])
        rows.append(torch.cat([g.flatten() for g in gradient]))
        margins.append(q.detach())
    theta = torch.cat([net.hidden.weight.detach().flatten(), net.hidden.bias.detach()])
    size, q = theta.norm(), torch.stack(margins)
    columns = torch.cat([torch.stack(rows).T, ((q - q.min()) / size)[None]])
    multipliers, _ = nnls(columns.numpy(), torch.cat([theta / size, torch.zeros(1)]).numpy())
    left = float((theta / size - torch.from_numpy(multipliers) @ torch.stack(rows)).norm())
    found = kkt(net, x, y, loss=loss, parameters=["hidden"])
    assert found.residual == pytest.approx(left, abs=1e-9)
    assert torch.allclose(found.margins, q)
    assert found.multipliers.tolist() == pytest.approx(multipliers.tolist(), abs=1e-9)
    assert 0 <= found.residual <= 1


def test_nothing_changes_when_a_homogeneous_network_is_scaled() -> None:
    x, y = separable()
    net = nn.Sequential(nn.Linear(3, 5, bias=False), nn.ReLU(), nn.Linear(5, 1, bias=False)).double()
    before = kkt(net, x, y)
    with torch.no_grad():
        for weight in net.parameters():
            weight.mul_(3.0)
    after = kkt(net, x, y)
    assert after.residual == pytest.approx(before.residual, abs=1e-9)
    assert after.slackness == pytest.approx(before.slackness, abs=1e-9)
    # However small the loss is, its gradient has a direction.
    with torch.no_grad():
        for weight in net.parameters():
            weight.mul_(100.0)
    assert 0 <= kkt(net, x, y).misalignment <= 2


def test_misalignment_is_with_the_descent_of_the_loss() -> None:
    """One point, one linear logit: gradient descent goes along y x, whatever the weights are."""
    x, y, net = torch.tensor([[3.0, 4.0]]), torch.tensor([0]), nn.Linear(2, 1, bias=False)
    for weight, expected in (([-6.0, -8.0], 0.0), ([3.0, 4.0], 2.0), ([-1.0, 0.0], 1 - 3 / 5)):
        with torch.no_grad():
            net.weight.copy_(torch.tensor([weight]))
        assert kkt(net, x, y).misalignment == pytest.approx(expected, abs=1e-9)


def test_what_cannot_be_tested_is_told() -> None:
    x, y = separable()
    net = nn.Linear(3, 1).double()
    with pytest.raises(InputError, match="weight, bias"):
        kkt(net, x, y, parameters=["hidden"])
    with torch.no_grad():
        net.weight.zero_()
        net.bias.zero_()
    with pytest.raises(ModelError, match="no direction"):
        kkt(net, x, y)
