"""Adversarial training: a plain loop, and closed forms for linear networks, as oracles."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from tests.training import cases
from tests.training.cases import data, recipe, trained, weights
from undertow.core.errors import ConfigError
from undertow.training import Recipe, Trainer
from undertow.training.adversarial import AdversarialTraining, worst_nearby
from undertow.training.batches import epoch_order
from undertow.training.stacking import stack_networks

HOW = AdversarialTraining(eps=0.5, steps=3)


def ascended(net: nn.Module, x: Tensor, y: Tensor, how: AdversarialTraining) -> Tensor:
    """One sample after the other, as the paper has it."""
    found = []
    for sample, label in zip(x, y, strict=True):
        here = sample.clone()
        for _ in range(how.steps):
            leaf = here.clone().requires_grad_()
            loss = nn.functional.cross_entropy(net(leaf[None]), label[None])
            (slope,) = torch.autograd.grad(loss, leaf)
            step = slope.sign() if how.norm == "inf" else slope / slope.norm().clamp(min=1e-300)
            delta = here + how.length * step - sample
            if how.norm == "inf":
                delta = delta.clamp(-how.eps, how.eps)
            elif delta.norm() > how.eps:
                delta = delta * how.eps / delta.norm()
            here = sample + delta
            if how.box:
                here = here.clamp(*how.box)
        found.append(here)
    return torch.stack(found)


@pytest.mark.parametrize("norm", ["2", "inf"])
@pytest.mark.parametrize("architecture", ["dense-relu", "convolutional"])
def test_a_group_trains_as_a_plain_loop_would(architecture: str, norm: str) -> None:
    x, y = data(20)
    how = AdversarialTraining(eps=0.3, norm=norm, steps=2, box=(-1.5, 1.5))  # type: ignore[arg-type]
    hows = [recipe(seed=seed, adversary=how, epochs=2) for seed in range(3)]
    networks = [cases.ARCHITECTURES[architecture](seed) for seed in range(3)]
    together = trained(Trainer(networks, x, y, hows))
    for index, own in enumerate(hows):
        net = copy.deepcopy(networks[index]).double()
        for epoch in range(own.epochs):
            for rows in torch.split(epoch_order(len(x), seeds=[own.seed], epoch=epoch), 8):
                worst = ascended(net, x[rows].double(), y[rows], how)
                slopes = torch.autograd.grad(
                    nn.functional.cross_entropy(net(worst), y[rows]), list(net.parameters())
                )
                with torch.no_grad():
                    for parameter, slope in zip(net.parameters(), slopes, strict=True):
                        parameter.sub_(slope, alpha=own.learning_rate)
        for name, weight in weights(net).items():
            torch.testing.assert_close(weights(together.network(index))[name], weight, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("norm", ["2", "inf"])
def test_of_a_linear_network_one_step_is_the_worst_there_is(norm: str) -> None:
    """The loss of one logit falls with y wᵀx: the worst δ is −ε y w/‖w‖₂, or −ε y sign w."""
    net = nn.Linear(4, 1, bias=False).double()
    ensemble = stack_networks([net], frozen=[], dtype=torch.float64, device=torch.device("cpu"))
    x, y = torch.randn(5, 4, dtype=torch.float64), torch.tensor([1.0, -1, 1, 1, -1]).double()
    how = AdversarialTraining(eps=0.7, norm=norm, steps=1)  # type: ignore[arg-type]
    found = worst_nearby(how, ensemble, x, y, "logistic", own=False)[0]
    w = net.weight.detach()[0]
    direction = w.sign() if norm == "inf" else w / w.norm()
    torch.testing.assert_close(found, x - 0.7 * y[:, None] * direction)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_samples_stay_within_the_ball_also_where_the_slope_underflows(scale: float) -> None:
    net = cases.dense("relu")(0)
    with torch.no_grad():
        net.get_parameter("output.weight").mul_(1e3)  # some losses are below 1e-30
        net.get_parameter("hidden1.weight").div_(scale)
    x, y = data(12)
    ensemble = stack_networks([net], frozen=[], dtype=torch.float32, device=torch.device("cpu"))
    how = AdversarialTraining(eps=0.5 * scale, steps=4)
    delta = worst_nearby(how, ensemble, x * scale, y, "cross-entropy", own=False)[0] - x * scale
    assert bool(delta.isfinite().all())
    assert float(delta.flatten(1).norm(dim=1).max()) <= 0.5 * scale * (1 + 1e-5)


def test_it_buys_robustness() -> None:
    x, y = data(60)
    x[:, 0, 0, 0] += 1.5 * y  # one coordinate says it, and the others can be learned by heart
    nets = [
        trained(
            Trainer([cases.dense("relu")(0)], x, y, [recipe(learning_rate=0.1, epochs=60, adversary=how)])
        )
        for how in (None, HOW)
    ]
    worst = [ascended(each.network(0), x.double(), y, HOW) for each in nets]
    hits = [
        (each.network(0)(near).argmax(1) == y).sum().item() for each, near in zip(nets, worst, strict=True)
    ]
    assert hits[1] > hits[0] + 3


def test_settings_in_words() -> None:
    told = Recipe(adversary={"eps": 0.5, "box": [0.0, 1.0]}).model_dump(mode="json")
    assert told["adversary"] == {"eps": 0.5, "norm": "2", "steps": 5, "box": [0.0, 1.0]}
    assert "adversary" not in Recipe().model_dump()
    for wrong, told_of in (({"eps": 0.0}, "eps"), ({"eps": 1.0, "box": [1.0, 0.0]}, "smaller")):
        with pytest.raises(ConfigError, match=told_of):
            Recipe(adversary=wrong)
    with pytest.raises(ConfigError, match="an adversary raises it"):
        Recipe(adversary={"eps": 0.5}, objective="log-loss")
