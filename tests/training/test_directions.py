"""Directions: as torch.optim has them, the same alone and among others, and cheap to add."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tests.training import cases
from tests.training.cases import data, trained, weights
from undertow.core.errors import ConfigError
from undertow.training import Recipe, Trainer
from undertow.training.batches import epoch_order
from undertow.training.directions import (
    DIRECTIONS,
    Adam,
    AdamW,
    Direction,
    HeavyBall,
    Memory,
    Sam,
    find_direction,
    move,
    names_of,
    per_member,
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


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("build", [cases.dense("relu"), cases.convolutional], ids=["stacked", "mapped"])
def test_a_direction_is_what_its_paper_says(build: cases.Build, name: str) -> None:
    direction, make = REFERENCES[name]
    how = Recipe(
        optimizer=direction,
        learning_rate=0.02,
        epochs=3,
        loss="cross-entropy",
        batch_size=8,
        seed=5,
        dtype="float64",
    )
    ours = trained(Trainer([build(0)], *data(), [how])).network(0)
    theirs = by_loop(build(0), how, make)
    for key, weight in weights(theirs).items():
        torch.testing.assert_close(weights(ours)[key], weight, rtol=1e-9, atol=1e-11)


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


@pytest.mark.parametrize("name", ["decayed", "adamw", "sam"])
def test_members_step_as_each_does_alone(name: str) -> None:
    direction = REFERENCES[name][0]
    nets = [cases.dense("tanh")(seed) for seed in range(4)]
    together = trained(Trainer(nets, *data(), [small(direction, seed) for seed in range(4)]))
    for seed, net in enumerate(nets):
        alone = trained(Trainer([net], *data(), [small(direction, seed)]))
        for key, weight in weights(alone.network(0)).items():
            torch.testing.assert_close(weights(together.network(seed))[key], weight, rtol=1e-9, atol=1e-12)


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


# What the study of optimisers will add, written here: the interface must be enough for it.


class SignDescent(Direction):
    """Steepest descent in L∞."""

    name: Literal["sign"] = "sign"

    def step(
        self,
        weights: Mapping[str, Tensor],
        gradients: Mapping[str, Tensor],
        memory: Memory,  # noqa: ARG002
        rates: Tensor,
    ) -> None:
        for name, gradient in gradients.items():
            move(weights[name], gradient.sign(), rates)


class CoordinateDescent(Direction):
    """Steepest descent in L1: the one largest entry over all parameters of a network."""

    name: Literal["coordinate"] = "coordinate"

    def step(
        self,
        weights: Mapping[str, Tensor],
        gradients: Mapping[str, Tensor],
        memory: Memory,  # noqa: ARG002
        rates: Tensor,
    ) -> None:
        largest = torch.stack([g.abs().flatten(1).amax(1) for g in gradients.values()]).amax(0)
        for name, gradient in gradients.items():
            move(weights[name], gradient.where(gradient.abs() == per_member(largest, gradient), 0.0), rates)


class SpectralDescent(Direction):
    """Steepest descent in the spectral norm of every matrix: the polar factor of its gradient."""

    name: Literal["spectral"] = "spectral"

    def step(
        self,
        weights: Mapping[str, Tensor],
        gradients: Mapping[str, Tensor],
        memory: Memory,  # noqa: ARG002
        rates: Tensor,
    ) -> None:
        for name, gradient in gradients.items():
            left, values, right = torch.linalg.svd(gradient.flatten(2), full_matrices=False)
            large = values > 1e-10 * values.amax(
                1, keepdim=True
            )  # class gradients add up to zero: rank k − 1
            polar = (left * large[:, None, :]) @ right
            move(weights[name], polar.view(gradient.shape), rates)


def test_the_interface_carries_other_geometries() -> None:
    nets = [cases.shallow(seed) for seed in range(3)]
    x, y = data()
    for direction in (SignDescent(), CoordinateDescent(), SpectralDescent()):
        recipes = [small(direction, seed, batch_size=None, epochs=1) for seed in range(3)]
        trainer = trained(Trainer(nets, x, y, recipes))
        for seed, net in enumerate(nets):
            rate, own = 0.01 * (seed + 1), copy.deepcopy(net).double()
            gradients = torch.autograd.grad(cross_entropy(own(x.double()), y), list(own.parameters()))
            largest = max(float(each.abs().max()) for each in gradients)
            for (key, weight), gradient in zip(weights(own).items(), gradients, strict=True):
                u = gradient.sign()
                if direction.name == "coordinate":
                    u = gradient * (gradient.abs() == largest)
                elif direction.name == "spectral":
                    left, values, right = torch.linalg.svd(gradient, full_matrices=False)
                    rank = int((values > 1e-10 * values[0]).sum())
                    u = left[:, :rank] @ right[:rank]
                moved = weights(trainer.network(seed))[key]
                torch.testing.assert_close(moved, weight - rate * u, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    "direction",
    [
        *(find_direction(name) for kind in DIRECTIONS for name in names_of(kind)),
        SignDescent(),
        CoordinateDescent(),
        SpectralDescent(),
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
    files = {path.stem for path in folder.glob("*.py")} - {"__init__", "direction"}
    assert {kind.__module__.rpartition(".")[2] for kind in DIRECTIONS} == files
    names: Sequence[str] = [name for kind in DIRECTIONS for name in names_of(kind)]
    assert len(names) == len(set(names)) == len(files) + 1  # gradient descent has two


def test_momentum_beside_another_optimiser_is_refused() -> None:
    with pytest.raises(ConfigError, match="adamw has its own momentum, or none: leave momentum out"):
        Recipe(optimizer="adamw", momentum=0.5, learning_rate=0.1, epochs=1, loss="cross-entropy")
    with pytest.raises(ConfigError, match="did you mean 'adam'"):
        Recipe(optimizer="adamv", learning_rate=0.1, epochs=1, loss="cross-entropy")
