"""Directions: as torch.optim has them, the same alone and among others, and cheap to add."""

from __future__ import annotations

import copy
import json
import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tests.training import cases
from tests.training.cases import data, trained, weights
from undertow.core.errors import ConfigError
from undertow.core.polar_factor import polar_by_products, polar_factor
from undertow.models import Gaussian, mlp
from undertow.training import Recipe, Trainer
from undertow.training.batches import epoch_order
from undertow.training.directions import (
    DIRECTIONS,
    Adam,
    AdamW,
    CoordinateDescent,
    Direction,
    HeavyBall,
    Muon,
    NormalisedDescent,
    Sam,
    SignDescent,
    SpectralDescent,
    SteadyDescent,
    find_direction,
    names_of,
)

Update = Callable[[nn.Module, Tensor, Tensor], None]


def by_loop(network: nn.Module, how: Recipe, make: Callable[[nn.Module], Update]) -> nn.Module:
    """One network, batch after batch in the trainer's order, with an update that the caller writes."""
    network, (x, y) = copy.deepcopy(network).double(), data()
    update = make(network)
    for epoch in range(how.epochs):
        for rows in epoch_order(len(x), seeds=[how.seed], epoch=epoch).split(how.batch_size or len(x)):
            update(network, x[rows].double(), y[rows])
    return network


def torch_optimizer(
    kind: Callable[..., torch.optim.Optimizer], **options: object
) -> Callable[[nn.Module], Update]:
    def make(network: nn.Module) -> Update:
        optimizer = kind(network.parameters(), lr=0.02, **options)

        def update(network: nn.Module, x: Tensor, y: Tensor) -> None:
            optimizer.zero_grad()
            cross_entropy(network(x), y).backward()  # type: ignore[no-untyped-call]
            optimizer.step()

        return update

    return make


def sam_loop(radius: float) -> Callable[[nn.Module], Update]:
    """Sharpness-aware minimisation as its paper states it: ascend, take the gradient there, descend from here."""

    def update(network: nn.Module, x: Tensor, y: Tensor) -> None:
        own = list(network.parameters())
        first = torch.autograd.grad(cross_entropy(network(x), y), own)
        length = torch.cat([each.flatten() for each in first]).norm()
        with torch.no_grad():
            for parameter, gradient in zip(own, first, strict=True):
                parameter.add_(radius * gradient / length)
        second = torch.autograd.grad(cross_entropy(network(x), y), own)
        with torch.no_grad():
            for parameter, ascent, gradient in zip(own, first, second, strict=True):
                parameter.sub_(radius * ascent / length + 0.02 * gradient)

    return lambda network: update  # noqa: ARG005


def uncorrected_adam(network: nn.Module) -> Update:
    memory = [(torch.zeros_like(each), torch.zeros_like(each)) for each in network.parameters()]

    def update(network: nn.Module, x: Tensor, y: Tensor) -> None:
        gradients = torch.autograd.grad(cross_entropy(network(x), y), list(network.parameters()))
        with torch.no_grad():
            for weight, gradient, (first, second) in zip(
                network.parameters(), gradients, memory, strict=True
            ):
                first.mul_(0.9).add_(gradient, alpha=0.1)
                second.mul_(0.999).add_(gradient**2, alpha=0.001)
                weight.sub_(0.02 * first / (second.sqrt() + 1e-8))

    return update


REFERENCES: dict[str, tuple[Direction, Callable[[nn.Module], Update]]] = {
    "heavy-ball": (HeavyBall(momentum=0.8), torch_optimizer(torch.optim.SGD, momentum=0.8)),
    "decayed": (
        HeavyBall(momentum=0.5, weight_decay=0.1),
        torch_optimizer(torch.optim.SGD, momentum=0.5, weight_decay=0.1),
    ),
    "sgd with decay": (
        HeavyBall(momentum=0.0, weight_decay=0.1),
        torch_optimizer(torch.optim.SGD, weight_decay=0.1),
    ),
    "adam": (
        Adam(beta1=0.8, beta2=0.9, epsilon=1e-4),
        torch_optimizer(torch.optim.Adam, betas=(0.8, 0.9), eps=1e-4),
    ),
    "adam without correction": (Adam(bias_correction=False), uncorrected_adam),
    "adamw": (AdamW(weight_decay=2.0), torch_optimizer(torch.optim.AdamW, weight_decay=2.0)),
    "sam": (Sam(radius=0.3), sam_loop(0.3)),
}


def geometry(
    direct: Callable[[list[Tensor]], list[Tensor]], *, momentum: float = 0.0, weight_decay: float = 0.0
) -> Callable[[nn.Module], Update]:
    """Steps w ← w − 0.02 (u + λw), with u from the gradients, or from their running mean, by a formula."""

    def make(network: nn.Module) -> Update:
        means = [torch.zeros_like(each) for each in network.parameters()]

        def update(network: nn.Module, x: Tensor, y: Tensor) -> None:
            gradients = torch.autograd.grad(cross_entropy(network(x), y), list(network.parameters()))
            with torch.no_grad():
                for mean, gradient in zip(means, gradients, strict=True):
                    mean.mul_(momentum).add_(gradient, alpha=1 - momentum)
                for weight, u in zip(network.parameters(), direct(means), strict=True):
                    weight.sub_(0.02 * (u + weight_decay * weight))

        return update

    return make


def normalised(gradients: list[Tensor]) -> list[Tensor]:
    length = torch.cat([each.flatten() for each in gradients]).norm()
    return [each / length for each in gradients]


def equal_falls(gradients: list[Tensor]) -> list[Tensor]:
    square = torch.cat([each.flatten() for each in gradients]).square().sum()
    return [each / square for each in gradients]


def steepest_coordinate(gradients: list[Tensor]) -> list[Tensor]:
    largest = torch.cat([each.flatten() for each in gradients]).abs().max()
    return [each.sign() * (each.abs() == largest) for each in gradients]


def polar(gradients: list[Tensor]) -> list[Tensor]:
    found = []
    for gradient in gradients:
        matrix = gradient.flatten(1) if gradient.dim() > 1 else gradient[:, None]
        left, values, right = torch.linalg.svd(matrix, full_matrices=False)
        rank = int((values > 1e-10 * values[0]).sum())  # class gradients add up to zero: rank k − 1
        found.append((left[:, :rank] @ right[:rank]).view_as(gradient))
    return found


def muon_loop(*, exact: bool) -> Callable[[nn.Module], Update]:
    """Jordan's loop for matrices, or with the SVD's polar factors, and torch's Adam for the rest."""

    def make(network: nn.Module) -> Update:
        matrices = [each for each in network.parameters() if each.dim() > 1]
        others = [each for each in network.parameters() if each.dim() == 1]
        adam = torch.optim.Adam(others, lr=0.02) if others else None
        buffers = [torch.zeros_like(each) for each in matrices]

        def update(network: nn.Module, x: Tensor, y: Tensor) -> None:
            network.zero_grad()
            cross_entropy(network(x), y).backward()  # type: ignore[no-untyped-call]
            if adam is not None:
                adam.step()
            with torch.no_grad():
                for weight, buffer in zip(matrices, buffers, strict=True):
                    assert weight.grad is not None
                    buffer.mul_(0.95).add_(weight.grad)
                    g = (weight.grad + 0.95 * buffer).flatten(1)
                    z = polar([g])[0] if exact else newton_schulz(g)
                    weight.sub_(0.02 * max(1, g.shape[0] / g.shape[1]) ** 0.5 * z.view_as(weight))

        return update

    return make


def newton_schulz(g: Tensor) -> Tensor:
    z = g / g.norm()
    for _ in range(5):
        gram = z @ z.T
        z = 3.4445 * z + (-4.7750 * gram + 2.0315 * gram @ gram) @ z
    return z


REFERENCES |= {
    "normalised": (NormalisedDescent(), geometry(normalised)),
    "steady": (SteadyDescent(longest=1e6), geometry(equal_falls)),
    "sign": (SignDescent(), geometry(lambda gradients: [each.sign() for each in gradients])),
    "signum": (
        SignDescent(momentum=0.9, weight_decay=0.1),
        geometry(lambda means: [each.sign() for each in means], momentum=0.9, weight_decay=0.1),
    ),
    "coordinate": (CoordinateDescent(), geometry(steepest_coordinate)),
    "spectral": (SpectralDescent(), geometry(polar)),
    "muon": (Muon(), muon_loop(exact=False)),
    "muon, exact": (Muon(exact=True), muon_loop(exact=True)),
}
SHAPES = {"matrix": (4, 3), "vector": (5,), "convolution": (2, 3, 3, 3)}
TOLERANCE = {
    "spectral": 1e-8,
    "muon, exact": 1e-7,
}  # singular values that rounding leaves in place of zeros are not quite 0


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("build", [cases.dense("relu"), cases.convolutional], ids=["stacked", "mapped"])
def test_a_direction_is_what_its_paper_says(build: cases.Build, name: str) -> None:
    direction, make = REFERENCES[name]
    how = Recipe(
        optimizer=direction,
        learning_rate=0.02,
        epochs=13,
        loss="cross-entropy",
        batch_size=8,
        seed=5,
        dtype="float64",
    )
    ours = trained(Trainer([build(0)], *data(), [how])).network(0)
    theirs = by_loop(build(0), how, make)
    for key, weight in weights(theirs).items():
        torch.testing.assert_close(weights(ours)[key], weight, rtol=0, atol=TOLERANCE.get(name, 1e-11))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("members", [1, 4])
def test_a_direction_is_the_same_on_cuda(name: str, members: int) -> None:
    """65 steps, captured as a graph, of one network and of four as one batch."""
    direction, make = REFERENCES[name]
    recipes = [
        Recipe(
            optimizer=direction,
            learning_rate=0.02,
            epochs=13,
            loss="cross-entropy",
            batch_size=8,
            seed=seed,
            dtype="float64",
        )
        for seed in range(members)
    ]
    nets = [cases.dense("tanh")(seed) for seed in range(members)]
    ours = trained(Trainer(nets, *data(), recipes, device="cuda"))
    for member, (net, how) in enumerate(zip(nets, recipes, strict=True)):
        for key, weight in weights(by_loop(net, how, make)).items():
            found = weights(ours.network(member))[key].cpu()
            torch.testing.assert_close(found, weight, rtol=0, atol=1e-6)


def small(direction: Direction, seed: int, **changes: object) -> Recipe:
    options: dict[str, object] = {
        "optimizer": direction,
        "learning_rate": 0.01 * (seed + 1),
        "epochs": 2,
        "loss": "cross-entropy",
        "batch_size": 8,
        "seed": seed,
        "dtype": "float64",
        **changes,
    }
    return Recipe(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    [
        "decayed",
        "adamw",
        "sam",
        "normalised",
        "steady",
        "signum",
        "coordinate",
        "spectral",
        "muon",
        "muon, exact",
    ],
)
def test_members_step_as_each_does_alone(name: str) -> None:
    direction = REFERENCES[name][0]
    nets = [cases.dense("tanh")(seed) for seed in range(4)]
    together = trained(Trainer(nets, *data(), [small(direction, seed) for seed in range(4)]))
    for seed, net in enumerate(nets):
        alone = trained(Trainer([net], *data(), [small(direction, seed)]))
        for key, weight in weights(alone.network(0)).items():
            close = TOLERANCE.get(name, 1e-11)
            torch.testing.assert_close(weights(together.network(seed))[key], weight, rtol=0, atol=close)


@pytest.mark.parametrize("name", ["adamw", "sam"])
def test_a_second_gradient_and_a_decay_resume_bit_for_bit(name: str) -> None:
    def make() -> Trainer:
        recipes = [small(REFERENCES[name][0], seed, dtype="float32") for seed in range(2)]
        return Trainer([cases.convolutional(seed) for seed in range(2)], *data(), recipes)

    first, undisturbed, second = make(), make(), make()
    first.advance(7)
    second.restore(first.state())
    for key, tensor in trained(undisturbed).state().items():
        assert torch.equal(trained(second).state()[key], tensor), key


@pytest.mark.parametrize(
    "direction",
    [
        *(find_direction(name) for kind in DIRECTIONS for name in names_of(kind)),
        SignDescent(momentum=0.9),
    ],
)
def test_a_member_that_waits_stays_exactly_where_it_is(direction: Direction) -> None:
    """Its gradient is zero and its rate is zero."""
    generator = cases.generator(0)
    held = {"w": torch.randn(2, 3, 4, generator=generator)}
    before, gradients = held["w"].clone(), {"w": torch.randn(2, 3, 4, generator=generator)}
    gradients["w"][0] = 0
    memory = direction.start(held)
    for _ in range(3):
        ahead = direction.ahead(gradients)
        assert ahead is None or bool((ahead["w"][0] == 0).all())
        direction.step(held, gradients, memory, torch.tensor([0.0, 0.1]))
    assert torch.equal(held["w"][0], before[0])
    assert not torch.equal(held["w"][1], before[1])
    assert all(tensor.isfinite().all() for tensor in memory.values())


NEW_FILE = '''
"""Steepest descent in L∞."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from undertow.core.sections import Fraction
from undertow.training.directions.direction import Direction, Memory, move

if TYPE_CHECKING:
    from torch import Tensor


class Signum(Direction):
    name: Literal["signum"] = "signum"
    momentum: Fraction = 0.0

    def step(self, weights, gradients, memory, rates):
        for name, gradient in gradients.items():
            move(weights[name], gradient.sign(), rates)
'''


def test_a_new_optimiser_is_one_file_and_one_line(tmp_path: Path) -> None:
    """The file is put beside the others and its line into the registry, and a TOML file can ask for it."""
    (tmp_path / "signum.py").write_text(NEW_FILE)
    (tmp_path / "study.toml").write_text(
        '[data]\nname = "kou-mixture"\nn = 4\nd = 6\n[model]\nname = "two-layer"\nwidth = 3\n'
        '[training]\nepochs = 2\nloss = "logistic"\noptimizer = {name = "signum", momentum = 0.5}\n'
        "[grid]\nlearning_rate = [0.1, 0.2]\n"
    )
    code = f"""
import sys; sys.path.insert(0, {str(tmp_path)!r})
import undertow.training.directions as directions
from signum import Signum
directions.DIRECTIONS = (*directions.DIRECTIONS, Signum)  # the line
assert "torch" not in sys.modules
from pathlib import Path
from undertow.execution.engines.here import Here
from undertow.store.store import Store
from undertow.execution.sweep import sweep
from undertow.config.study_files import load_study
study = load_study(Path({str(tmp_path / "study.toml")!r}))
store = Store({str(tmp_path / "runs")!r})
assert sweep(store, study, engine=Here()).complete
import json; print(json.dumps(store.trial(store.finished()[0]).settings["training"]["optimizer"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"name": "signum", "momentum": 0.5}


def test_the_registry_holds_every_file_of_the_folder_once() -> None:
    folder = Path(sys.modules[Direction.__module__].__file__ or "").parent
    files = {path.stem for path in folder.glob("*.py")} - {"__init__", "direction", "memoryless"}
    assert {kind.__module__.rpartition(".")[2] for kind in DIRECTIONS} == files
    names: Sequence[str] = [name for kind in DIRECTIONS for name in names_of(kind)]
    assert len(names) == len(set(names)) == len(files) + 1  # gradient descent has two


def test_momentum_beside_another_optimiser_is_refused() -> None:
    with pytest.raises(ConfigError, match="adamw has its own momentum, or none: leave momentum out"):
        Recipe(optimizer="adamw", momentum=0.5, learning_rate=0.1, epochs=1, loss="cross-entropy")
    with pytest.raises(ConfigError, match="did you mean 'adam'"):
        Recipe(optimizer="adamv", learning_rate=0.1, epochs=1, loss="cross-entropy")


@pytest.mark.parametrize("shape", [(4, 7), (7, 4), (5, 5), (6, 1)])
def test_a_polar_factor_is_the_svds_whatever_its_units(shape: tuple[int, int]) -> None:
    generator = cases.generator(3)
    matrices = torch.randn(3, *shape, generator=generator, dtype=torch.float64)
    matrices[1] = matrices[1, :, :1] @ matrices[1, :1]  # rank one
    if min(shape) > 1:
        left, values, right = torch.linalg.svd(matrices[2], full_matrices=False)
        values[-1] = 1e-7 * values[0]
        matrices[2] = left @ values.diag() @ right
    for unit in (1e-200, 1.0, 1e200):
        for ours, matrix in zip(polar_factor(unit * matrices), matrices, strict=True):
            torch.testing.assert_close(ours, polar([matrix])[0], rtol=0, atol=1e-6)
    tall = matrices.mT if shape[1] > shape[0] else matrices
    for ours, matrix in zip(polar_by_products(tall), tall, strict=True):  # as a GPU has it
        torch.testing.assert_close(ours, polar([matrix])[0], rtol=0, atol=1e-6)
    assert torch.equal(polar_factor(torch.zeros(1, *shape)), torch.zeros(1, *shape))


def test_products_make_every_singular_value_above_a_hundred_millionth_one() -> None:
    values = torch.logspace(-8, 0, 4000, dtype=torch.float64)
    matrices = torch.diag_embed(torch.stack([torch.ones_like(values), values], dim=1))
    found = polar_by_products(matrices / matrices.flatten(1).norm(dim=1)[:, None, None])
    torch.testing.assert_close(found, torch.eye(2, dtype=torch.float64).expand_as(found), rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", DIRECTIONS, ids=lambda kind: kind.__name__)
def test_a_gradient_that_is_no_number_is_seen_in_its_network_and_in_no_other(kind: type[Direction]) -> None:
    draw, rates = cases.generator(6), torch.full((2,), 0.1, dtype=torch.float64)
    weights_ = {name: torch.randn(2, *shape, generator=draw).double() for name, shape in SHAPES.items()}
    gradients = {
        name: torch.randn(weight.shape, generator=draw).double() for name, weight in weights_.items()
    }
    alone = {name: weight[1:].clone() for name, weight in weights_.items()}
    direction = kind.model_validate({"name": kind.model_fields["name"].default})
    memory, own = direction.start(weights_), direction.start(alone)
    gradients["matrix"][0, 1, 2] = torch.nan
    direction.step(weights_, gradients, memory, rates)
    direction.step(alone, {name: gradient[1:] for name, gradient in gradients.items()}, own, rates[1:])
    assert weights_["matrix"][0].isnan().any()
    for name, weight in alone.items():
        torch.testing.assert_close(weights_[name][1:], weight)


def assert_steps_are(
    direction: Direction,
    weight: dict[str, Tensor],
    theirs: Callable[[list[nn.Parameter]], torch.optim.Optimizer],
    gradients_at: Callable[[int], dict[str, Tensor]],
    rtol: float,
    atol: float,
) -> None:
    """Fifty steps of two networks at once are those of an optimiser of torch's for each."""
    own = [[nn.Parameter(each[member].clone()) for each in weight.values()] for member in range(2)]
    loops = [theirs(parameters) for parameters in own]
    memory, rates = direction.start(weight), torch.full((2,), 0.02, dtype=torch.float64)
    for step in range(50):
        gradients = gradients_at(step)
        for member, (parameters, loop) in enumerate(zip(own, loops, strict=True)):
            for parameter, gradient in zip(parameters, gradients.values(), strict=True):
                parameter.grad = gradient[member].clone()
            loop.step()
        direction.step(weight, gradients, memory, rates)
    for member, parameters in enumerate(own):
        for parameter, each in zip(parameters, weight.values(), strict=True):
            torch.testing.assert_close(each[member], parameter.detach(), rtol=rtol, atol=atol)


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this PyTorch has no Muon")
@pytest.mark.parametrize(
    "settings", [{}, {"momentum": 0.5, "nesterov": False}, {"weight_decay": 0.7, "steps": 3}]
)
def test_muon_is_torchs_own(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """For matrices, which is what torch's takes, in float64: its products are in bfloat16 otherwise."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)
    direction, draw = Muon(**settings), cases.generator(2)
    weight = {
        name: torch.randn(2, *shape, generator=draw).double()
        for name, shape in (("w", (5, 3)), ("v", (3, 7)))
    }
    options: dict[str, Any] = {"momentum": direction.momentum, "nesterov": direction.nesterov}
    options |= {"lr": 0.02, "ns_steps": direction.steps, "weight_decay": direction.weight_decay}

    def gradients_at(_: int) -> dict[str, Tensor]:
        return {name: torch.randn(each.shape, generator=draw).double() for name, each in weight.items()}

    assert_steps_are(
        direction, weight, lambda own: torch.optim.Muon(own, **options), gradients_at, rtol=0, atol=1e-10
    )


ODD = [
    {"beta1": 0.0, "beta2": 0.0},
    {"beta1": 0.99, "beta2": 0.1, "epsilon": 1.0},
    {"beta1": 0.5, "beta2": 0.999, "epsilon": 1e-12},
]


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("settings", ODD)
@pytest.mark.parametrize("decay", [None, 0.0, 3.0])
def test_adam_is_torchs_own_with_odd_settings(
    settings: dict[str, Any], decay: float | None, scale: float
) -> None:
    """Gradients over seven decades, half of them zero, all of them zero once; matrices, vectors and convolutions."""
    draw = cases.generator(9)
    direction = Adam(**settings) if decay is None else AdamW(weight_decay=decay, **settings)
    weight = {name: torch.randn(2, *shape, generator=draw).double() for name, shape in SHAPES.items()}
    options: dict[str, Any] = {
        "lr": 0.02,
        "betas": (direction.beta1, direction.beta2),
        "eps": direction.epsilon,
    }

    def theirs(own: list[nn.Parameter]) -> torch.optim.Optimizer:
        return (
            torch.optim.Adam(own, **options)
            if decay is None
            else torch.optim.AdamW(own, weight_decay=decay, **options)
        )

    def gradients_at(step: int) -> dict[str, Tensor]:
        size = 0.0 if step == 5 else scale * 10.0 ** -(step % 7)
        return {
            name: size
            * torch.randn(each.shape, generator=draw).double()
            * (torch.rand(each.shape, generator=draw) < 0.5)
            for name, each in weight.items()
        }

    assert_steps_are(direction, weight, theirs, gradients_at, rtol=1e-12, atol=1e-12)


def test_a_gradient_that_is_not_finite_spoils_its_own_network_alone() -> None:
    matrices = torch.randn(3, 4, 5, generator=cases.generator(4), dtype=torch.float64)
    matrices[1, 2, 3] = torch.inf
    found = polar_factor(matrices)
    assert found[1].isnan().all()
    torch.testing.assert_close(found[[0, 2]], polar_factor(matrices[[0, 2]]))


def test_steady_steps_lower_the_log_loss_by_their_rate_and_keep_the_time() -> None:
    """On one point with one weight log L = −w nearly, and t = Σ η/L is known."""
    x, y = torch.ones(1, 1), torch.ones(1)
    net = mlp(
        inputs=1, widths=[], outputs=1, init=Gaussian(0.0), generator=torch.Generator(), dtype=torch.float64
    )
    with torch.no_grad():
        next(net.parameters()).fill_(50.0)
    how = Recipe(
        optimizer=SteadyDescent(longest=1.0),
        learning_rate=0.5,
        epochs=8,
        loss="exponential",
        dtype="float64",
        objective="log-loss",
    )
    ours = trained(Trainer([net], x, y, [how]))
    assert float(ours.log_loss()) == pytest.approx(-54.0)
    assert ours.log_time()[0] == pytest.approx(math.log(sum(0.5 * math.exp(50 + 0.5 * k) for k in range(8))))
    short = Recipe(**{**how.model_dump(), "optimizer": SteadyDescent(longest=1e-3), "epochs": 1})
    moved = trained(Trainer([net], x, y, [short])).network(0).get_parameter("output.weight")
    assert float(moved.detach()) == pytest.approx(50 * 1.001)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_network_that_has_ended_stays_where_steady_steps_left_it(dtype: str) -> None:
    """Its gradient and its rate are 0, and 0/0 is no number. What records say of its rate is that of its last step."""
    x, y = data()
    x, y = x.flatten(1), 2.0 * (y > 0) - 1
    start = torch.Generator().manual_seed(0)
    networks = [mlp(inputs=x.shape[1], widths=[8], outputs=1, generator=start) for _ in range(2)]

    def make() -> Trainer:
        rates = {"optimizer": "steady-gd", "objective": "log-loss", "stop_below": -1.0, "epochs": 120}
        hows = [
            Recipe(learning_rate=rate, loss="logistic", dtype=dtype, **rates)  # type: ignore[arg-type]
            for rate in (0.5, 0.001)
        ]
        return Trainer(networks, x, y, hows)

    one = make()
    while not one.finished()[0]:
        one.advance(8)
    state, rate = one.state(), one.told()[0]["log10_rate"]
    two = make()
    two.restore(state)
    for each in (one, two):
        each.advance(3)
        assert each.members()[0].status == "finished"
        assert each.told() == one.told()
    for name, tensor in one.state().items():
        assert torch.equal(tensor, two.state()[name])
        if name.startswith("weights."):
            assert torch.equal(tensor[0], state[name][0])
    assert math.isfinite(rate)
