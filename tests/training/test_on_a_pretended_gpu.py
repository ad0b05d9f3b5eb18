"""Training as a GPU does it, one replayed graph a step, on a GPU that is pretended: nothing is asked of the host."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from tests.pretended_gpu import pretended_gpu
from tests.training import cases
from tests.training.cases import generator
from undertow.models.cnn import cnn
from undertow.models.diagonal import DiagonalNetwork
from undertow.models.resnet import resnet
from undertow.training import CollaborationPenalty, EnergyPenalty, JacobianPenalty, Recipe, Trainer
from undertow.training.adversarial import AdversarialTraining
from undertow.training.capture import capture
from undertow.training.directions import (
    Adam,
    AdamW,
    CoordinateDescent,
    Direction,
    HeavyBall,
    Muon,
    Nesterov,
    NormalisedDescent,
    Sam,
    SignDescent,
    SpectralDescent,
    SteadyDescent,
)
from undertow.training.rates import LossBased, Power, Scheduled

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="there is a GPU, which need not be pretended"
)

Data = Tensor | Sequence[Tensor]
SAMPLES = 19  # two full batches and a partial one


def trained(build: cases.Build, x: Data, y: Data, device: str, *, members: int, **how: object) -> Trainer:
    settings = {"optimizer": "sgd", "epochs": 2, "batch_size": 8, "loss": "cross-entropy", "dtype": "float64"}
    recipes = [
        Recipe(**{**settings, "learning_rate": 0.02 * (seed + 1), "seed": seed, **how})  # type: ignore[arg-type]
        for seed in range(members)
    ]
    return cases.trained(Trainer([build(seed) for seed in range(members)], x, y, recipes, device=device))


def check(
    build: cases.Build,
    x: Data,
    y: Data,
    *,
    members: int = 2,
    graphs: int = 1,
    close: float = 1e-10,
    **how: object,
) -> None:
    """The networks are those of the CPU, from as many graphs, of which none asked for what a graph cannot have."""
    expected = trained(build, x, y, "cpu", members=members, **{**how, "compiled": False})
    with pretended_gpu() as gpu:
        found = trained(build, x, y, "cuda", members=members, **how)
        assert gpu.refused == []
        assert len(gpu.graphs) == graphs
        assert all(graph.replays > 0 for graph in gpu.graphs)
        ends = [
            {name: weight.cpu() for name, weight in found.network(member).state_dict().items()}
            for member in range(members)
        ]
    for member, end in enumerate(ends):
        for name, value in expected.network(member).state_dict().items():
            torch.testing.assert_close(end[name], value, rtol=close, atol=close)


def flat() -> tuple[Tensor, Tensor]:
    x, y = cases.data(SAMPLES)
    return x.flatten(1), y


def signs() -> tuple[Tensor, Tensor]:
    x, y = flat()
    return x, (y % 2 * 2 - 1).double()


DIRECTIONS: list[Direction] = [
    HeavyBall(weight_decay=0.1), Nesterov(), Adam(), Adam(epsilon=0.0), AdamW(), Sam(), NormalisedDescent(),
    SignDescent(momentum=0.5), CoordinateDescent(), SteadyDescent(), Muon(),
]  # fmt: skip


@pytest.mark.parametrize("direction", DIRECTIONS, ids=lambda direction: direction.name)
def test_every_direction(direction: Direction) -> None:
    check(cases.dense(), *flat(), optimizer=direction, epochs=1)


@pytest.mark.parametrize(
    "direction", [HeavyBall(), Adam(), Sam(), SteadyDescent()], ids=lambda direction: direction.name
)
def test_directions_of_losses_without_a_float(direction: Direction) -> None:
    objective = "framed-loss" if direction.forgetting is not None else "log-loss"
    check(cases.dense(), *flat(), optimizer=direction, objective=objective, epochs=1)


def test_directions_by_polar_factors() -> None:
    """Which come from products there; of gradients whose small singular values are no rounding."""
    check(cases.dense("tanh"), *flat(), optimizer=SpectralDescent(), batch_size=None, epochs=4, close=1e-6)


LOSS_BASED = {"rate": LossBased(frame_at_start=3.0), "learning_rate": 0.3, "epochs": 3}
RATES: dict[str, dict[str, object]] = {
    "loss-based": LOSS_BASED,
    "loss-based, of which every second try fails": {**LOSS_BASED, "learning_rate": 3.0, "epochs": 4},
    "loss-based, to a loss": {**LOSS_BASED, "stop_below": -0.3},
    "scheduled": {"rate": Scheduled(warmup=1.0)},
    "power": {"rate": Power()},
    "to a loss": {"stop_below": -0.3, "epochs": 4},
    "logarithms below a loss": {"objective": "log-loss", "log_below": -1.0},
    "float32": {"dtype": "float32", "close": 1e-4},
    "float32, Adam's one kernel": {"dtype": "float32", "optimizer": "adam", "close": 1e-4},
    "float32, loss-based": {**LOSS_BASED, "dtype": "float32", "close": 1e-4},
    "in order": {"shuffle": False},
    "frozen": {"frozen": ("hidden1.weight",)},
}


@pytest.mark.parametrize("rate", RATES)
def test_every_rate(rate: str) -> None:
    check(cases.dense(), *flat(), **RATES[rate])  # type: ignore[arg-type]


ADDED: dict[str, dict[str, object]] = {
    "jacobian": {"penalty": JacobianPenalty(0.1)},
    "energy": {"penalty": EnergyPenalty(0.1)},
    "collaboration": {"penalty": CollaborationPenalty("activation1", 0.1)},
    "adversary": {"adversary": AdversarialTraining(eps=0.2, steps=2)},
    "adversary in a box": {"adversary": AdversarialTraining(eps=0.2, norm="inf", steps=1, box=(-2.0, 2.0))},
    "noise on labels": {"loss": "square", "label_noise": 0.1},
}


@pytest.mark.parametrize("added", ADDED)
def test_what_is_added_to_a_loss(added: str) -> None:
    check(cases.dense(), *flat(), epochs=1, **ADDED[added])  # type: ignore[arg-type]


def small_cnn(seed: int) -> nn.Module:
    return cnn(image=(2, 4, 4), stages=[(3,)], kernels=(3,), dense=(6,), outputs=3, generator=generator(seed))


def residual(seed: int) -> nn.Module:
    return resnet(image=(2, 4, 4), channels=(4,), outputs=3, generator=generator(seed))


@pytest.mark.parametrize(
    "build", [cases.polynomial, small_cnn, residual], ids=["mapped", "cnn", "by the batch"]
)
def test_other_architectures(build: cases.Build) -> None:
    check(build, *flat())


def test_statistics_of_batches_until_they_are_frozen() -> None:
    check(residual, *flat(), batch_statistics_epochs=1, graphs=2)


def test_branches_of_a_graph() -> None:
    check(small_cnn, *flat(), compiled=True)
    check(small_cnn, *flat(), compiled=True, members=1, **LOSS_BASED)  # type: ignore[arg-type]


def test_gradients_in_closed_form() -> None:
    check(lambda _: DiagonalNetwork(32, 0.5), *signs(), loss="logistic")


def test_data_of_ones_own_and_the_span_of_samples() -> None:
    own = [torch.randn(SAMPLES, 32, generator=generator(seed)) for seed in range(2)]
    check(cases.dense(), own, [flat()[1]] * 2)
    check(cases.dense(), own, [flat()[1]] * 2, optimizer="gd", batch_size=None, coordinates="span")


def test_training_goes_on_from_a_checkpoint_bit_for_bit() -> None:
    """Tensors of a checkpoint are on the CPU, and are put where the networks are."""
    x, y = flat()
    recipes = [
        Recipe(optimizer="adam", batch_size=8, loss="cross-entropy", seed=seed, **LOSS_BASED)  # type: ignore[arg-type]
        for seed in range(2)
    ]

    def begun() -> Trainer:
        return Trainer([cases.dense()(seed) for seed in range(2)], x, y, recipes, device="cuda")

    with pretended_gpu() as gpu:
        first, second = begun(), begun()
        first.advance(4)
        state = first.state()
        assert not any(tensor.is_cuda for tensor in state.values())
        second.restore(state)
        ends = [cases.trained(each).network(1).state_dict() for each in (first, second)]
        assert all(torch.equal(value, ends[1][name]) for name, value in ends[0].items())
        assert gpu.refused == []


def test_captures_are_on_a_stream_of_the_networks_gpu() -> None:
    """Without one they are on the GPU of the first capture, and graphs of networks on another one are empty."""
    with pretended_gpu() as gpu:
        tensor = torch.zeros(2, device="cuda")
        for _ in range(2):
            assert capture(lambda: tensor.add_(1), changed=[tensor]) is not None  # type: ignore[arg-type, return-value]
        first, second = (graph.stream for graph in gpu.graphs)
        assert first is not None
        assert first.device == tensor.device
        assert first is second  # PyTorch keeps memory of a product for every stream
