"""The Jacobian penalty: dense Jacobians and torch's own loop as oracles."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from tests.training import cases
from tests.training.cases import data, generator, recipe, trained, weights
from undertow.core.errors import ConfigError, InputError
from undertow.training import JacobianPenalty, Recipe, Trainer
from undertow.training import step as step_module
from undertow.training.batches import epoch_order
from undertow.training.penalties.hashed_signs import hashed_signs

SMOOTH = ["dense-tanh", "dense-gelu", "polynomial"]


def dense_penalty(net: nn.Module, x: Tensor) -> Tensor:
    """Mean of ‖J(x_i)‖_F², sample by sample, differentiable."""
    per_sample = [
        torch.autograd.functional.jacobian(lambda z: net(z[None])[0], sample, create_graph=True)
        for sample in x
    ]
    return torch.stack([jacobian.square().sum() for jacobian in per_sample]).mean()  # type: ignore[union-attr]


def network(architecture: str) -> nn.Module:
    return cases.ARCHITECTURES[architecture](3).double()


def gradients(value: Tensor, net: nn.Module) -> list[Tensor]:
    return list(torch.autograd.grad(value, list(net.parameters()), allow_unused=True, materialize_grads=True))


@pytest.mark.parametrize("architecture", cases.ARCHITECTURES)
def test_the_exact_penalty_and_its_gradient_are_those_of_the_dense_jacobian(architecture: str) -> None:
    net, x = network(architecture), data(6)[0].double()
    ours, theirs = JacobianPenalty(0.7, projections="all")(net, x), 0.7 * dense_penalty(net, x)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=0)
    torch.testing.assert_close(gradients(ours, net), gradients(theirs, net), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("architecture", SMOOTH)
def test_the_gradient_is_that_of_finite_differences(architecture: str) -> None:
    net, x = network(architecture), data(4)[0].double()
    penalty = JacobianPenalty(1.0, projections=2)

    def value() -> Tensor:  # the same signs in every call
        return penalty(net, x, generator=generator(5))

    found = gradients(value(), net)
    shift = [
        torch.randn(p.shape, generator=generator(i), dtype=p.dtype) for i, p in enumerate(net.parameters())
    ]
    ends = []
    for sign in (1.0, -1.0):
        with torch.no_grad():
            for parameter, each in zip(net.parameters(), shift, strict=True):
                parameter.add_(each, alpha=sign * 1e-5)
        ends.append(value().item())
        with torch.no_grad():
            for parameter, each in zip(net.parameters(), shift, strict=True):
                parameter.sub_(each, alpha=sign * 1e-5)
    slope = sum(float((g * each).sum()) for g, each in zip(found, shift, strict=True))
    assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("projections", [1, 2])
def test_projections_are_unbiased_in_value_and_gradient(projections: int) -> None:
    """Over 1,000 draws the mean is within four standard errors of the dense one, and not because errors are large."""
    net, x = network("dense-tanh"), data(5)[0].double()
    penalty, draw = JacobianPenalty(1.0, projections=projections), generator(1)
    exact = dense_penalty(net, x)
    slope = gradients(exact, net)[0].flatten()
    drawn = [penalty(net, x, generator=draw) for _ in range(1000)]
    values = torch.stack(drawn).detach()
    slopes = torch.stack([gradients(value, net)[0].flatten() @ slope for value in drawn])
    for found, wanted in ((values, exact.detach()), (slopes, slope @ slope)):
        error = found.std() / len(found) ** 0.5
        assert abs(found.mean() - wanted) < 4 * error
        assert error < 0.02 * wanted


def test_the_variance_is_that_of_signs() -> None:
    """2(‖A‖_F² − Σ A_ii²) with A = JJᵀ, where directions of a Gaussian would have 2‖A‖_F²."""
    net, x = network("dense-relu"), data(1)[0].double()
    jacobian = torch.autograd.functional.jacobian(lambda z: net(z[None])[0], x[0]).flatten(1)  # type: ignore[union-attr]
    gram = jacobian @ jacobian.T
    wanted = 2 * (gram.square().sum() - gram.diagonal().square().sum())
    draw, penalty = generator(2), JacobianPenalty(1.0)
    found = torch.stack([penalty(net, x, generator=draw).detach() for _ in range(2000)]).var()
    assert float(found / wanted) == pytest.approx(1, abs=0.1)


def test_one_output_is_exact_with_any_number_of_projections() -> None:
    net, x = (
        nn.Sequential(nn.Flatten(), nn.Linear(32, 5), nn.Tanh(), nn.Linear(5, 1)).double(),
        data(5)[0].double(),
    )
    for projections in (1, 3):
        ours = JacobianPenalty(1.0, projections=projections)(net, x)
        torch.testing.assert_close(ours, dense_penalty(net, x))
    flat = nn.Sequential(*net, nn.Flatten(0))
    torch.testing.assert_close(JacobianPenalty(1.0)(flat, x), dense_penalty(net, x))


def test_the_network_is_taken_in_eval_mode_and_left_as_it_was() -> None:
    net, x = network("convolutional").train(), data(8)[0].double()
    net[2].eval()  # type: ignore[index]
    before = copy.deepcopy(net.state_dict())
    ours = JacobianPenalty(1.0, projections="all")(net, x)
    assert [module.training for module in net] == [True, True, False, True, True]  # type: ignore[attr-defined]
    torch.testing.assert_close(net.state_dict(), before, rtol=0, atol=0)
    torch.testing.assert_close(ours, dense_penalty(net.eval(), x))


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_units_of_the_input_only_rescale_it(scale: float) -> None:
    net, x = network("dense-relu"), data(6)[0].double()

    class Rescaled(nn.Module):
        def forward(self, z: Tensor) -> Tensor:
            outputs: Tensor = net(z / scale)
            return outputs

    ours = JacobianPenalty(1.0, projections="all")(Rescaled(), x * scale)
    torch.testing.assert_close(ours * scale**2, dense_penalty(net, x))


def by_torch(net: nn.Module, x: Tensor, y: Tensor, how: Recipe) -> nn.Module:
    """Loss and penalty in a plain loop, with the signs that the trainer draws."""
    net, penalty = copy.deepcopy(net).double(), how.penalty
    assert isinstance(penalty, JacobianPenalty)
    assert penalty.projections != "all"
    count = 0
    for epoch in range(how.epochs):
        for rows in torch.split(epoch_order(len(x), seeds=[how.seed], epoch=epoch), how.batch_size or len(x)):
            samples = x[rows].double().requires_grad_()
            outputs = net(samples)
            total = nn.functional.cross_entropy(outputs, y[rows])
            for draw in range(penalty.projections):
                seeds, when = torch.tensor([how.seed]), torch.tensor(count)
                signs = hashed_signs(outputs[None], seeds=seeds, count=when, draw=draw)[0]
                (pulled,) = torch.autograd.grad(outputs, samples, signs, create_graph=True)
                total = total + penalty.weight / penalty.projections * pulled.square().sum() / len(rows)
            with torch.no_grad():
                for parameter, gradient in zip(net.parameters(), gradients(total, net), strict=True):
                    parameter.sub_(gradient, alpha=how.learning_rate)
            count += 1
    return net


def assert_same(ours: nn.Module, theirs: nn.Module, rtol: float = 1e-10) -> None:
    for name, weight in weights(theirs).items():
        assert float((weights(ours)[name] - weight).norm() / weight.norm()) <= rtol, name


@pytest.mark.parametrize("architecture", ["dense-relu", "dense-gelu", "polynomial", "convolutional"])
def test_a_group_trains_as_each_network_would_in_a_plain_loop(architecture: str) -> None:
    x, y = data()
    networks = [cases.ARCHITECTURES[architecture](seed) for seed in range(3)]
    hows = [recipe(seed=seed, penalty=JacobianPenalty(0.05, projections=2)) for seed in range(3)]
    together = trained(Trainer(networks, x, y, hows))
    for index, (net, how) in enumerate(zip(networks, hows, strict=True)):
        assert_same(together.network(index), by_torch(net, x, y, how))


def test_parts_of_a_batch_and_a_restart_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = data()
    networks = [cases.dense("tanh")(seed) for seed in range(2)]
    hows = [recipe(optimizer="gd", seed=seed, penalty=JacobianPenalty(0.1)) for seed in range(2)]
    whole = trained(Trainer(networks, x, y, hows))
    monkeypatch.setitem(step_module._LARGEST, "cpu", 800)
    first = Trainer(networks, x, y, hows)
    first.advance(1)
    second = Trainer(networks, x, y, hows)
    second.restore(first.state())
    trained(second)
    for index in range(2):
        assert_same(second.network(index), whole.network(index))


def test_a_penalty_lowers_what_it_penalises() -> None:
    x, y = data()
    penalty = JacobianPenalty(1.0, projections="all")
    hows = (recipe(epochs=30), recipe(epochs=30, penalty=penalty))
    nets = [trained(Trainer([cases.dense("relu")(0)], x, y, [how])).network(0) for how in hows]
    ends = [penalty(net, x.double()).item() for net in nets]
    assert ends[1] < 0.5 * ends[0]


def test_settings_in_words() -> None:
    assert "penalty" not in Recipe().model_dump()
    told = Recipe(penalty={"name": "jacobian", "weight": 0.1})
    assert told.model_dump()["penalty"] == {"name": "jacobian", "weight": 0.1, "projections": 1}
    with pytest.raises(ConfigError, match="weight"):
        Recipe(penalty={"name": "jacobian", "weight": -1.0})
    with pytest.raises(ConfigError, match="jacobian"):
        Recipe(penalty={"name": "jacobain", "weight": 1.0})
    with pytest.raises(ConfigError, match="added to the loss itself"):
        Recipe(penalty={"name": "jacobian", "weight": 1.0}, objective="log-loss")
    with pytest.raises(InputError, match="at least one sample"):
        JacobianPenalty(1.0)(nn.Linear(3, 2), torch.empty(0, 3))


def test_hashed_signs_are_as_good_as_drawn_ones() -> None:
    """Balanced, and uncorrelated between entries, samples, steps, seeds and draws."""
    like = torch.empty(2, 64, 8, dtype=torch.float64)
    seeds = torch.tensor([0, 2**62 + 1])
    drawn = torch.stack(
        [
            hashed_signs(like, seeds=seeds, count=torch.tensor(step), draw=draw)
            for step in range(40)
            for draw in range(2)
        ]
    )
    rows = drawn.flatten(1)
    assert abs(rows.mean()) < 4 / rows.numel() ** 0.5
    between_draws = (rows @ rows.T / rows.shape[1]).fill_diagonal_(0)
    assert between_draws.abs().max() < 5.5 / rows.shape[1] ** 0.5
    columns = drawn.flatten(0, 2)
    between_outputs = (columns.T @ columns / len(columns)).fill_diagonal_(0)
    assert between_outputs.abs().max() < 5 / len(columns) ** 0.5
