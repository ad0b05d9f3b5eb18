from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from tests.adversary.cases import Sine, decisions, digits, mlp, points
from undertow.adversary import Classifier, adversarial_risk, pairs_grid, risk_bound
from undertow.core.errors import ConfigError, InputError


def test_risk_of_a_linear_logit_in_closed_form() -> None:
    """sup over the ball of log(1 + e^{−q}) is log(1 + e^{−q + r‖w‖})."""
    net = nn.Sequential(nn.Linear(5, 1)).double().requires_grad_(False)
    x, y = points(1, 30, 5), torch.arange(30) % 2
    margins = net(x)[:, 0] * (2 * y - 1)
    weight = net[0].weight
    assert isinstance(weight, torch.Tensor)
    radii = [0.5, 0.0, 0.1]
    found = adversarial_risk(net, x, y, eps=radii)
    expected = [nn.functional.softplus(-margins + r * weight.norm()).mean() for r in radii]
    assert torch.allclose(torch.as_tensor(found.value), torch.stack(expected), rtol=1e-5)
    assert float(torch.as_tensor(found.value)[1]) == pytest.approx(float(found.clean), rel=1e-12)


def test_zero_one_risk_is_one_minus_robust_accuracy_and_grows_with_eps() -> None:
    net, x, y = digits()
    x, y = x[:60], y[:60]
    risk = torch.as_tensor(
        adversarial_risk(net, x, y, eps=[0.0, 0.2, 0.4], loss="zero-one", bounds=(0.0, 1.0)).value
    )
    assert float(risk[0]) == pytest.approx(float((net(x).argmax(1) != y).double().mean()))
    assert bool((risk.diff() > 0).all())


def test_the_bound_of_theorem_4_1_for_a_linear_logit() -> None:
    """For small r the mean slope is below the root mean square, so the bound holds; S is √E‖∇L‖²."""
    net = nn.Sequential(nn.Linear(5, 1)).double().requires_grad_(False)
    x, y = points(2, 50, 5), torch.arange(50) % 2
    found = risk_bound(net, x, y, radii=[1e-3, 1e-2, 10.0], resamples=200)
    leaf = x.clone().requires_grad_(True)
    loss = nn.functional.softplus(-net(leaf)[:, 0] * (2 * y - 1))
    (slope,) = torch.autograd.grad(loss.sum(), leaf)
    assert float(found.energy) == pytest.approx(float(slope.norm(dim=1).square().mean().sqrt()), rel=1e-6)
    assert float(found.risk) == pytest.approx(float(loss.detach().mean()), rel=1e-6)
    assert torch.allclose(found.gap, found.bound - found.adversarial)
    assert float(found.gap[0]) > 0
    assert float(found.gap[2]) < 0  # far away the loss is steeper than at the samples
    assert float(found.holds_up_to) == pytest.approx(1e-2)
    assert bool(((found.lower <= found.gap) & (found.gap <= found.upper)).all())


def test_several_members_and_a_loss_of_ones_own() -> None:
    nets = [mlp(seed) for seed in range(2)]
    x = points(0, 10)
    y = decisions(nets[0], x)
    found = risk_bound(
        nets,
        x,
        y,
        radii=[0.01, 0.1],
        loss=lambda s, t: -s.gather(-1, t.unsqueeze(-1)).squeeze(-1),
        resamples=20,
    )
    assert found.gap.shape == (2, 2)
    with pytest.raises(ConfigError, match="differentiable"):
        risk_bound(nets, x, y, radii=[0.1], loss="zero-one")
    with pytest.raises(ConfigError, match="did you mean 'cross-entropy'"):
        adversarial_risk(nets, x, y, eps=0.1, loss="crossentropy")


def test_logits_of_a_thousand_do_not_hide_the_risk() -> None:
    net, x, y = digits()
    right = net(x).argmax(1) == y
    x, y = x[right][:40], y[right][:40]
    risk = adversarial_risk(lambda v: 1e4 * net(v), x, y, eps=0.6, bounds=(0.0, 1.0))
    assert float(risk.clean) < 1e-2
    assert float(risk.value) > 1e3


def test_pairs_are_drawn_with_their_difference() -> None:
    x = torch.rand(3, 1, 5, 5, generator=torch.Generator().manual_seed(0))
    moved = x.clone()
    moved[0, 0, 2, 2] = 0.0
    grid = pairs_grid(x, moved, columns=3, gap=2)
    assert grid.shape == (1, 19, 19)
    assert torch.equal(grid[:, :5, :5], x[0])
    assert torch.equal(grid[:, 7:12, :5], moved[0])
    assert float(grid[0, 14 + 2, 2]) == 0.0  # the one pixel that was lowered
    assert float(grid[0, 14, 0]) == 0.5
    with pytest.raises(InputError, match="one shape"):
        pairs_grid(x, moved[:, :, :4])
    assert math.isclose(float(grid[0, 5, 0]), 1.0)


def plane(seed: int, outputs: int, *, samples: int = 20) -> tuple[nn.Sequential, Tensor, Tensor]:
    """A network of twelve neurons in the plane, with a third of its labels wrong."""
    net = mlp(seed, inputs=2, width=12, outputs=outputs)
    x = 2 * torch.randn(samples, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    y = decisions(net, x)
    y[::3] = (y[::3] + 1) % max(outputs, 2)
    return net, x, y


def on_a_grid(net: nn.Module, x: Tensor, y: Tensor, eps: float, norm: float) -> Tensor:
    """The largest cross-entropy (N,) on 40,000 points of each ball: a lower bound of the truth, nearly closed."""
    if norm == math.inf:
        line = torch.linspace(-1, 1, 201, dtype=torch.float64)
        ball = torch.cartesian_prod(line, line)
    else:
        angle = torch.linspace(0, 2 * math.pi, 721, dtype=torch.float64)[:-1]
        around = torch.stack([angle.cos(), angle.sin()], 1)
        ball = (torch.linspace(0, 1, 56, dtype=torch.float64)[:, None, None] * around).flatten(0, 1)
    worst = []
    for point, label in zip(x, y, strict=True):
        out = net(point + eps * ball)
        scores = torch.cat([torch.zeros_like(out), out], 1) if out.shape[1] == 1 else out
        worst.append(nn.functional.cross_entropy(scores, label.expand(len(ball)), reduction="none").max())
    return torch.stack(worst)


@pytest.mark.parametrize("eps", [0.3, 3.0, 10.0])
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("norm", [2, math.inf])
def test_both_sides_of_the_risk_against_a_dense_grid_in_the_plane(
    norm: float, outputs: int, eps: float
) -> None:
    for seed in range(2):
        net, x, y = plane(seed, outputs)
        truth = on_a_grid(net, x, y, eps, norm)
        found = adversarial_risk(net, x, y, eps=eps, norm=norm)
        assert float(found.value) > 0.98 * float(truth.mean())
        assert float((found.losses > 0.97 * truth).double().mean()) >= 0.9
        assert bool((found.upper_losses >= torch.maximum(truth, found.losses) * (1 - 1e-9)).all())
        assert float(found.upper) < (1.1 if eps < 1 else 6) * float(truth.mean())
        exponential = adversarial_risk(net, x, y, eps=eps, norm=norm, loss="exponential")
        assert bool((exponential.upper_losses >= exponential.losses * (1 - 1e-9)).all())
        wrong = adversarial_risk(net, x, y, eps=eps, norm=norm, loss="zero-one")
        assert bool((wrong.upper_losses >= wrong.losses).all())


def test_the_upper_bound_is_the_risk_of_a_linear_network_and_infinite_where_nothing_can_be_read() -> None:
    net = nn.Sequential(mlp(1, inputs=5, width=1)[0])
    x, y = points(1, 30, 5), torch.arange(30) % 2
    found = adversarial_risk(net, x, y, eps=[0.0, 0.5])
    assert torch.allclose(found.upper_losses, found.losses, rtol=1e-6)
    assert torch.allclose(torch.as_tensor(found.upper), torch.as_tensor(found.value), rtol=1e-6)
    hidden, _, head = mlp(0, inputs=5, outputs=1)
    unknown = nn.Sequential(hidden, Sine(), head)
    unread = (
        adversarial_risk(unknown, x, y, eps=0.5),
        adversarial_risk(net, x, y, eps=0.5, certify=False),
        adversarial_risk(Classifier(net, unit_norm=True), x, y, eps=0.5),  # the graph has other scores
        adversarial_risk(net, x, y, eps=0.5, loss=lambda s, t: s.gather(-1, t.unsqueeze(-1)).squeeze(-1)),
    )
    assert all(each.upper == math.inf for each in unread)
    several = adversarial_risk([net, net], x, y, eps=[0.1, 0.5])
    assert torch.as_tensor(several.upper).shape == (2, 2)
    both = risk_bound(net, x, y, radii=[0.1], resamples=10)
    assert torch.allclose(both.gap_proved, both.gap, atol=1e-6)


def test_the_order_of_the_samples_does_not_matter_to_the_risk() -> None:
    net, x, y = plane(0, 3)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    plain, moved = adversarial_risk(net, x, y, eps=3.0), adversarial_risk(net, x[order], y[order], eps=3.0)
    assert torch.allclose(moved.losses, plain.losses[order], rtol=1e-9)
