"""Penalties by leading vectors: dense singular values, differentiated by autograd in float64, as oracles."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, nn

from tests.model_cases import Residual
from tests.training import cases
from tests.training.cases import data, generator, recipe, trained, weights
from undertow import collaboration
from undertow.core.errors import ConfigError, InputError, SeamError
from undertow.jacobian.cutting import split
from undertow.training import CollaborationPenalty, EnergyPenalty, JacobianPenalty, Recipe, Trainer
from undertow.training.penalties import Penalty, Vectors

CASES = [
    ("dense-relu", "activation1"),
    ("dense-tanh", "activation2"),
    ("convolutional", "2"),
    ("shallow", "activation"),
]


def network(architecture: str) -> nn.Module:
    return cases.ARCHITECTURES[architecture](3).double()


def dense_squares(f: nn.Module, x: Tensor) -> Tensor:
    """‖J(x_i)‖₂² of every sample by a dense SVD, differentiable."""
    found = []
    for sample in x.unbind():
        jacobian = torch.autograd.functional.jacobian(
            lambda z: f(z[None])[0].flatten(), sample, create_graph=True
        )
        found.append(torch.linalg.matrix_norm(jacobian.flatten(1), 2) ** 2)  # type: ignore[union-attr]
    return torch.stack(found)


def dense_co_correlation(net: nn.Module, seam: str, x: Tensor) -> Tensor:
    """ϱ², where the tail's point of evaluation depends on its weights too."""
    head, tail = split(net, seam, x=x)
    middle = tail(x)
    heads = []
    for place in range(len(x)):

        def one(h: Tensor) -> Tensor:
            return head(h[None])[0].flatten()  # type: ignore[no-any-return]

        rows = [
            torch.autograd.grad(one(middle[place])[k], middle, create_graph=True)[0][place].flatten()
            for k in range(net(x[:1]).shape[1])
        ]
        heads.append(torch.linalg.matrix_norm(torch.stack(rows), 2) ** 2)
    return dense_squares(net, x).sum() / (torch.stack(heads) * dense_squares(tail, x)).sum()


def settled(penalty: Penalty, net: nn.Module, x: Tensor, times: int = 250) -> tuple[Tensor, Vectors]:
    memory: Vectors = {}
    rows = torch.arange(len(x))
    for _ in range(times):
        value = penalty(net, x, rows=rows, memory=memory, generator=generator(0))
    return value, memory


def gradients(value: Tensor, net: nn.Module) -> list[Tensor]:
    return list(torch.autograd.grad(value, list(net.parameters()), allow_unused=True, materialize_grads=True))


@pytest.mark.parametrize(("architecture", "seam"), CASES)
def test_settled_vectors_give_the_dense_value_and_gradient(architecture: str, seam: str) -> None:
    net, x = network(architecture), data(4)[0].double()
    ours, _ = settled(CollaborationPenalty(seam, 0.3), net, x)
    theirs = 0.3 * dense_co_correlation(net, seam, x)
    torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=0)
    torch.testing.assert_close(gradients(ours, net), gradients(theirs, net), rtol=1e-4, atol=1e-6)
    assert ours.item() == pytest.approx(0.3 * collaboration(net, x, seam=seam).co_correlation ** 2, rel=1e-6)


@pytest.mark.parametrize(("architecture", "seam"), CASES)
def test_the_energy_and_its_gradient(architecture: str, seam: str) -> None:  # noqa: ARG001
    net, x = network(architecture), data(4)[0].double()
    ours, _ = settled(EnergyPenalty(0.3), net, x)
    theirs = 0.3 * dense_squares(net, x).mean()
    torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=0)
    torch.testing.assert_close(gradients(ours, net), gradients(theirs, net), rtol=1e-4, atol=1e-6)


def test_the_energy_comes_from_below_and_no_step_goes_back() -> None:
    net, x = network("dense-relu"), data(6)[0].double()
    truth, rows = dense_squares(net, x).mean().item(), torch.arange(6)
    memory: Vectors = {}
    found = [
        EnergyPenalty(1.0)(net, x, rows=rows, memory=memory, generator=generator(1)).item() for _ in range(30)
    ]
    assert all(later >= earlier * (1 - 1e-12) for earlier, later in itertools.pairwise(found))
    assert found[0] < truth * 0.98
    assert found[-1] <= truth * (1 + 1e-12)
    assert JacobianPenalty(1.0, projections="all")(net, x).item() >= truth


def test_one_output_is_exact_without_a_memory() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(32, 5), nn.Tanh(), nn.Linear(5, 1)).double()
    x = data(5)[0].double()
    torch.testing.assert_close(EnergyPenalty(1.0)(net, x), dense_squares(net, x).mean())


def test_rows_are_remembered_whatever_their_order() -> None:
    net, x = network("dense-relu"), data(8)[0].double()
    penalty, memory = EnergyPenalty(1.0), dict[str, Tensor]()
    for _ in range(150):
        for rows in (torch.tensor([5, 0, 7]), torch.tensor([1, 2]), torch.tensor([6, 4, 3])):
            penalty(net, x[rows], rows=rows, memory=memory, generator=generator(2))
    mixed = torch.randperm(8, generator=generator(3))
    value = penalty(net, x[mixed], rows=mixed, memory=memory)
    torch.testing.assert_close(value, dense_squares(net, x).mean(), rtol=1e-8, atol=0)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_co_correlation_knows_no_units(scale: float) -> None:
    net, x = network("dense-relu"), data(4)[0].double()
    penalty = CollaborationPenalty("activation1", 1.0, steps=50)
    before = penalty(net, x, generator=generator(0)).item()
    with torch.no_grad():
        net.get_parameter("hidden1.weight").mul_(scale)
        net.get_parameter("hidden1.bias").mul_(scale)
        net.get_parameter("output.weight").mul_(scale)
    assert penalty(net, x, generator=generator(0)).item() == pytest.approx(before, rel=1e-6)


def test_a_constant_network_has_no_collaboration_and_a_finite_gradient() -> None:
    net, x = network("dense-relu"), data(4)[0].double()
    with torch.no_grad():
        net.get_parameter("hidden1.bias").fill_(-1e6)  # no neuron is active
    value = CollaborationPenalty("activation1", 1.0)(net, x)
    assert value.item() == 0
    assert all(bool(gradient.isfinite().all()) for gradient in gradients(value, net))


def test_a_place_that_is_bypassed_is_refused() -> None:
    net, x = Residual().double().eval(), torch.randn(2, 2, 4, 4, dtype=torch.float64)
    with pytest.raises(SeamError, match="bypassed"):
        CollaborationPenalty("conv2", 1.0)(net, x)
    with pytest.raises(SeamError, match="activation1"):
        CollaborationPenalty("activaton1", 1.0)(network("dense-relu"), data(2)[0].double())
    with pytest.raises(InputError, match="both rows"):
        EnergyPenalty(1.0)(net, x, rows=torch.arange(2))
    with pytest.raises(ConfigError, match="seam"):
        Recipe(penalty={"name": "collaboration", "weight": 1.0})


@pytest.mark.parametrize("architecture", ["dense-relu", "convolutional"])
@pytest.mark.parametrize("kind", ["energy", "collaboration"])
def test_a_group_trains_as_each_network_alone_and_after_a_restart(architecture: str, kind: str) -> None:
    x, y = data(20)
    seam = "activation1" if architecture == "dense-relu" else "2"
    penalty = EnergyPenalty(0.1) if kind == "energy" else CollaborationPenalty(seam, 0.1)
    networks = [cases.ARCHITECTURES[architecture](seed) for seed in range(3)]
    hows = [recipe(seed=seed, penalty=penalty) for seed in range(3)]
    half = Trainer(networks, x, y, hows)
    half.advance(4)
    together = Trainer(networks, x, y, hows)
    together.restore(half.state())
    trained(together)
    for index, (net, how) in enumerate(zip(networks, hows, strict=True)):
        alone = trained(Trainer([net], x, y, [how]))
        for name, weight in weights(alone.network(0)).items():
            torch.testing.assert_close(weights(together.network(index))[name], weight, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("architecture", ["dense-relu", "convolutional"])
def test_the_trainer_takes_the_step_of_a_plain_loop(architecture: str) -> None:
    """Settled vectors in both, so that random starts do not matter: then one step of gradient descent."""
    x, y = data(6)
    seam = "activation1" if architecture == "dense-relu" else "2"
    net, penalty = network(architecture), CollaborationPenalty(seam, 2.0, steps=200)
    value = nn.functional.cross_entropy(net(x.double()), y) + penalty(net, x.double())
    expected = [p - 0.02 * g for p, g in zip(net.parameters(), gradients(value, net), strict=True)]
    trainer = Trainer([net], x, y, [recipe(optimizer="gd", epochs=1, penalty=penalty)])
    ours = list(trained(trainer).network(0).parameters())
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("kind", ["energy", "collaboration"])
def test_training_holds_it_down(kind: str) -> None:
    x, y = data()
    penalty = EnergyPenalty(0.3) if kind == "energy" else CollaborationPenalty("activation1", 3.0)
    hows = (recipe(epochs=40), recipe(epochs=40, penalty=penalty))
    nets = [trained(Trainer([cases.dense("relu")(0)], x, y, [how])).network(0) for how in hows]
    found = [collaboration(net, x.double(), seam="activation1") for net in nets]
    values = [each.energy if kind == "energy" else each.co_correlation for each in found]
    assert values[1] < 0.8 * values[0]
