"""Training together: the same as torch.optim, the same as alone, stoppable anywhere."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.training import cases
from tests.training.cases import data, recipe, trained, weights
from undertow.core.errors import ConfigError, InputError, ModelError, StoreError
from undertow.models import mlp
from undertow.training import LossBased, Recipe, Trainer, log_mean_loss
from undertow.training import step as step_module
from undertow.training.batches import Batches, epoch_order
from undertow.training.ensemble import Ensemble
from undertow.training.stacked import StackedMLP, dense_layers
from undertow.training.stacking import stack_networks
from undertow.training.step import Step


def by_torch(network: nn.Module, x: Tensor, y: Tensor, how: Recipe) -> nn.Module:
    """One network, one batch after the other, with torch's own loss and optimiser."""
    network = copy.deepcopy(network).double()
    for name in how.frozen:
        network.get_parameter(name).requires_grad_(False)
    free = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer: torch.optim.Optimizer
    if how.optimizer.name == "adam":
        optimizer = torch.optim.Adam(free, lr=how.learning_rate)
    else:
        optimizer = torch.optim.SGD(free, lr=how.learning_rate, momentum=how.momentum)
    size = how.batch_size or len(x)
    for epoch in range(how.epochs):
        order = epoch_order(len(x), seeds=[how.seed], epoch=epoch) if how.shuffle else torch.arange(len(x))
        for rows in torch.split(order, size):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(x[rows].double()), y[rows]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        if epoch + 1 == how.batch_statistics_epochs:
            network.eval()
    return network


def assert_same(ours: nn.Module, theirs: nn.Module, *, rtol: float) -> None:
    for name, weight in weights(theirs).items():
        difference = (weights(ours)[name].double() - weight.double()).norm() / weight.double().norm()
        assert float(difference) <= rtol, f"{name} differs by {float(difference):.1e}"


@pytest.mark.parametrize("optimizer", cases.OPTIMIZERS)
@pytest.mark.parametrize("architecture", cases.ARCHITECTURES)
def test_one_network_as_torch_trains_it(architecture: str, optimizer: str) -> None:
    network, (x, y) = cases.ARCHITECTURES[architecture](0), data()
    how = recipe(optimizer=optimizer, seed=5)
    trainer = trained(Trainer([network], x, y, [how]))
    assert_same(trainer.network(0), by_torch(network, x, y, how), rtol=1e-10)
    assert trainer.epoch == how.epochs
    assert [member.status for member in trainer.members()] == ["finished"]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("optimizer", cases.OPTIMIZERS)
@pytest.mark.parametrize("architecture", ["dense-relu", "shallow", "convolutional"])
def test_together_is_the_same_as_alone(architecture: str, optimizer: str, shuffle: bool, dtype: str) -> None:
    x, y = data()
    networks = [cases.ARCHITECTURES[architecture](seed) for seed in range(4)]
    recipes = [
        recipe(optimizer=optimizer, shuffle=shuffle, dtype=dtype, learning_rate=0.01 * (i + 1), seed=i)
        for i in range(4)
    ]
    together = trained(Trainer(networks, x, y, recipes))
    for index, (network, how) in enumerate(zip(networks, recipes, strict=True)):
        alone = trained(Trainer([network], x, y, [how]))
        rtol = 1e-10 if dtype == "float64" else 1e-4
        assert_same(together.network(index), alone.network(0), rtol=rtol)
        samples = x.to(how.torch_dtype)
        torch.testing.assert_close(
            together.network(index)(samples), alone.network(0)(samples), rtol=rtol, atol=rtol
        )
        torch.testing.assert_close(together.log_loss()[index], alone.log_loss()[0], rtol=rtol, atol=rtol)


@pytest.mark.parametrize("loss", ["logistic", "exponential", "bce"])
def test_losses_of_one_logit(loss: str) -> None:
    x, labels = data()
    y = (labels > 0).long() if loss == "bce" else (labels > 0).long() * 2 - 1
    network = mlp(inputs=32, widths=[6], outputs=1, generator=cases.generator(0)).double()
    trainer = trained(Trainer([network], x, y, [recipe(optimizer="gd", loss=loss, epochs=4)]))
    reference = copy.deepcopy(network)
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.02)
    for _ in range(4):
        q = reference(x.double()).squeeze(1) * (2 * y - 1 if loss == "bce" else y)
        value = torch.exp(-q).mean() if loss == "exponential" else torch.log1p(torch.exp(-q)).mean()
        optimizer.zero_grad()
        value.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert_same(trainer.network(0), reference, rtol=1e-10)


def test_hand_written_gradients_are_finite_differences() -> None:
    x, y = data(9)
    network = cases.dense("gelu")(0)
    how = recipe(optimizer="gd", epochs=1, learning_rate=1.0)
    moved = weights(trained(Trainer([network], x, y, [how])).network(0))
    for name, start in weights(network.double()).items():
        gradient = (start - moved[name]).flatten()
        for entry in range(0, gradient.numel(), max(1, gradient.numel() // 5)):
            values = []
            for shift in (1e-5, -1e-5):
                other = copy.deepcopy(network)
                other.get_parameter(name).data.view(-1)[entry] += shift
                values.append(log_mean_loss(other(x.double()), y, "cross-entropy").exp().item())
            assert (values[0] - values[1]) / 2e-5 == pytest.approx(float(gradient[entry]), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(
    "frozen", [("output.weight",), ("hidden.weight",), ("hidden.weight", "output.weight")]
)
def test_frozen_parameters_stay(frozen: tuple[str, ...]) -> None:
    x, y = data()
    network = cases.shallow(0)
    how = recipe(optimizer="adam", frozen=frozen)
    after = trained(Trainer([network], x, y, [how])).network(0)
    for name, weight in weights(network).items():
        assert torch.equal(weights(after)[name], weight.double()) == (name in frozen)
    if len(frozen) == 1:
        assert_same(after, by_torch(network, x, y, how), rtol=1e-10)


@pytest.mark.parametrize("size", [1, 5, 36])
def test_a_batch_cut_in_parts_is_the_same(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = data()
    networks = [cases.shallow(seed) for seed in range(2)]
    recipes = [recipe(optimizer="gd"), recipe(optimizer="gd", learning_rate=0.1)]
    whole = trained(Trainer(networks, x, y, recipes))
    monkeypatch.setitem(
        step_module._LARGEST, "cpu", 2 * 13 * size
    )  # two members, 10 hidden and 3 output units
    parts = trained(Trainer(networks, x, y, recipes))
    for index in range(2):
        assert_same(parts.network(index), whole.network(index), rtol=1e-12)
    torch.testing.assert_close(parts.log_loss(), whole.log_loss(), rtol=1e-12, atol=0)


def test_a_step_added_to_the_weights_in_place_is_the_same() -> None:
    """The way a GPU takes, checked where there is none."""
    x, y = data()
    results = []
    for in_place in (True, False):
        networks = [cases.dense("leaky-relu")(seed).double() for seed in range(3)]
        layers = dense_layers(networks[0])
        assert layers is not None
        stack: Ensemble = StackedMLP(
            networks, layers, frozen=(), dtype=torch.float64, device=torch.device("cpu")
        )
        hows = [recipe(learning_rate=rate) for rate in (0.1, 0.02, 1e12)]  # the last diverges
        batches = Batches(x.double(), y, size=8, seeds=None)
        step = Step(stack, hows, batches, in_place=in_place)
        with torch.no_grad():
            for number in range(2 * batches.per_epoch):
                step.take(*batches.at(number))
        results.append(stack)
        assert step.watch.diverged() == [False, False, True]
    for name, weight in results[0].weights.items():
        torch.testing.assert_close(weight, results[1].weights[name], rtol=1e-12, atol=1e-14)
        assert not torch.equal(weight[0], weights(cases.dense("leaky-relu")(0))[name].double())


@pytest.mark.parametrize("settings", [{"rate": LossBased()}, {"objective": "log-loss"}, {}])
@pytest.mark.parametrize("architecture", ["dense-tanh", "convolutional"])
def test_weights_moved_where_the_gradient_is_computed_move_as_others_do(
    architecture: str, settings: dict[str, Any]
) -> None:
    """Also in the log domain and where epochs may be taken back, as a GPU does it."""
    x, y = data()
    results = []
    for in_place in (True, False):
        stack = stack_networks(
            [cases.ARCHITECTURES[architecture](seed) for seed in range(3)],
            frozen=(),
            dtype=torch.float64,
            device=torch.device("cpu"),
        )
        batches = Batches(x.double(), y, size=8, seeds=None)
        hows = [recipe(learning_rate=rate, **settings) for rate in (0.1, 0.02, 0.5)]
        step = Step(stack, hows, batches, in_place=in_place)
        with torch.no_grad():
            for number in range(2 * batches.per_epoch):
                step.take(*batches.picked(step.count) if batches.full(number) else batches.at(number))
        results.append((stack.weights, step.log_time()))
    for name, weight in results[0][0].items():
        torch.testing.assert_close(weight, results[1][0][name], rtol=1e-11, atol=1e-13)
        assert not torch.equal(weight[0], weights(cases.ARCHITECTURES[architecture](0))[name].double())
    torch.testing.assert_close(results[0][1], results[1][1])


@pytest.mark.full
def test_a_compiled_step_is_the_step_up_to_rounding() -> None:
    x, y = data()
    networks = [cases.ARCHITECTURES["convolutional"](seed) for seed in range(2)]
    ours, theirs = (
        trained(Trainer(networks, x, y, [recipe(seed=1, compiled=compiled)] * 2))
        for compiled in (True, False)
    )
    for name, weight in weights(ours.network(1)).items():
        torch.testing.assert_close(weight, weights(theirs.network(1))[name], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("optimizer", cases.OPTIMIZERS)
@pytest.mark.parametrize("architecture", ["dense-tanh", "convolutional"])
@pytest.mark.parametrize("stop", [0, 1, 7, 14])
def test_restored_training_goes_on_bit_for_bit(architecture: str, optimizer: str, stop: int) -> None:
    x, y = data()
    networks = [cases.ARCHITECTURES[architecture](seed) for seed in range(3)]
    recipes = [recipe(optimizer=optimizer, dtype="float32", seed=seed) for seed in range(3)]
    undisturbed = trained(Trainer(networks, x, y, recipes))

    first = Trainer(networks, x, y, recipes)
    first.advance(stop)
    state = {name: tensor.clone() for name, tensor in first.state().items()}
    trained(first)  # what was saved does not change with the trainer it came from
    second = Trainer([cases.ARCHITECTURES[architecture](9)] * 3, x, y, recipes)
    second.restore(state)
    assert second.step == min(stop, second.total_steps)
    for index in range(3):
        for name, weight in weights(trained(second).network(index)).items():
            assert torch.equal(weight, weights(undisturbed.network(index))[name])
    assert torch.equal(second.log_loss(), undisturbed.log_loss())


def test_advancing_by_steps_is_the_same_as_by_epochs() -> None:
    x, y = data()
    by_epochs = trained(Trainer([cases.shallow(0)], x, y, [recipe()]))
    by_steps = Trainer([cases.shallow(0)], x, y, [recipe()])
    seen = []
    while not by_steps.done:
        by_steps.advance(4)
        seen.append((by_steps.step, by_steps.epoch))
    assert seen == [(4, 0), (8, 1), (12, 2), (15, 3)]
    assert torch.equal(*(weights(t.network(0))["hidden.weight"] for t in (by_epochs, by_steps)))
    by_steps.run_epoch()
    assert by_steps.step == 15  # there is nothing left to do


def test_every_member_has_its_own_order() -> None:
    x, y = data()
    same = [recipe(seed=1), recipe(seed=1)]
    different = [recipe(seed=1), recipe(seed=2)]
    first, second = (
        [
            weights(trained(Trainer([cases.shallow(0)] * 2, x, y, r)).network(i))["hidden.weight"]
            for i in range(2)
        ]
        for r in (same, different)
    )
    assert torch.equal(first[0], first[1])
    assert not torch.equal(second[0], second[1])
    torch.testing.assert_close(second[0], first[0], rtol=1e-12, atol=1e-14)


def test_orders_are_permutations_that_differ_by_epoch_and_seed() -> None:
    orders = [epoch_order(100, seeds=[seed], epoch=epoch) for seed in range(3) for epoch in range(3)]
    for order in orders:
        assert sorted(order.tolist()) == list(range(100))
    assert len({tuple(order.tolist()) for order in orders}) == 9


def test_log_loss_below_the_smallest_float() -> None:
    network = mlp(inputs=1, widths=[], outputs=1, generator=cases.generator(0))
    network.get_parameter("output.weight").data.fill_(2028.0)
    trainer = Trainer(
        [network],
        torch.tensor([[1.0], [-1.0]]),
        torch.tensor([1, -1]),
        [recipe(optimizer="gd", loss="logistic")],
    )
    assert trainer.log_loss().tolist() == [-2028.0]


def test_the_networks_given_and_the_data_are_left_alone() -> None:
    x, y = data()
    network, before = cases.shallow(0), weights(cases.shallow(0))
    kept = x.clone()
    trainer = trained(Trainer([network], x, y, [recipe(dtype="float32")]))
    assert all(torch.equal(weight, before[name]) for name, weight in weights(network).items())
    assert torch.equal(x, kept)
    copied = trainer.network(0)
    copied.get_parameter("hidden.weight").data.zero_()
    assert float(weights(trainer.network(0))["hidden.weight"].norm()) > 0
    assert not copied.training


def test_failures_name_the_way_out() -> None:
    x, y = data()
    net = cases.shallow(0)
    with pytest.raises(ModelError, match=r"did you mean 'output\.weight'"):
        Trainer([net], x, y, [recipe(frozen=("output.weigth",))])
    with pytest.raises(ConfigError, match="share batch_size; member 0 has 8, member 1 has 9"):
        Trainer([net, net], x, y, [recipe(), recipe(batch_size=9)])
    with pytest.raises(InputError, match="1 networks and 2 recipes"):
        Trainer([net], x, y, [recipe(), recipe()])
    with pytest.raises(ConfigError, match="nothing to train"):
        Trainer([], x, y, [])
    with pytest.raises(InputError, match=r"labels \(N,\)"):
        Trainer([net], x, y[:5], [recipe()])
    with pytest.raises(ModelError, match="member 1 differs"):
        Trainer([cases.dense("relu")(0), cases.dense("tanh")(0)], x, y, [recipe(), recipe()])
    with pytest.raises(ModelError, match="'1' is a Dropout in train mode"):
        Trainer([nn.Sequential(nn.Flatten(), nn.Dropout(), nn.Linear(32, 3))], x, y, [recipe()])
    with pytest.raises(ModelError, match=r"shape \(N, k\)"):
        Trainer([nn.Sequential(nn.Flatten(), nn.Linear(32, 3), nn.Flatten(0))], x, y, [recipe()])
    with pytest.raises(StoreError, match="another training run: 'moments"):
        Trainer([net], x, y, [recipe()]).restore(Trainer([net], x, y, [recipe(optimizer="adam")]).state())
    with pytest.raises(InputError, match="would go back"):
        Trainer([net], x, y, [recipe()]).advance(-1)


def normalised(seed: int) -> nn.Sequential:
    """A network of linear layers with BatchNorm between them, in train mode."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers = (nn.Flatten(), nn.Linear(32, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))
        return nn.Sequential(*layers).double().train()


def test_a_run_taken_back_normalises_as_its_step_does() -> None:
    x, y = data()
    hows = [recipe(optimizer="sgd", batch_statistics_epochs=1)]
    trainer = Trainer([normalised(0)], x, y, hows)
    start = trainer.state()
    once = trained(trainer).state()
    trainer.restore(start)
    assert all(torch.equal(tensor, once[name]) for name, tensor in trained(trainer).state().items())


def test_every_module_trains_in_the_mode_it_was_given_in() -> None:
    """A Dropout in eval mode stays off, and a BatchNorm keeps its statistics, whatever is in train mode around them."""
    x, y = data()
    network = normalised(0)
    network.insert(5, nn.Dropout(0.9).eval())
    network.insert(6, nn.BatchNorm1d(3).double().eval())
    how = recipe(optimizer="sgd")
    ours = trained(Trainer([network], x, y, [how])).network(0)
    theirs = by_torch(network, x, y, how)
    for name, tensor in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], tensor, rtol=1e-9, atol=1e-11)
    network[2].eval()
    once, again = (trained(Trainer([network], x, y, [how])) for _ in range(2))
    assert torch.equal(once.log_loss(), again.log_loss())


@pytest.mark.parametrize("epochs", [None, 1])
@pytest.mark.parametrize("make", [normalised, lambda seed: cases.convolutional(seed).double().train()])
def test_batch_norm_in_train_mode_is_trained_as_torch_does_and_only_by_steps(
    make: Callable[[int], nn.Module], epochs: int | None
) -> None:
    """Through all epochs, or in eval mode after the first; a restored run is in the mode of its step."""
    x, y = data()
    networks = [make(seed) for seed in range(2)]
    hows = [
        recipe(optimizer="sgd", momentum=0.9, seed=seed, batch_statistics_epochs=epochs) for seed in range(2)
    ]
    trainer = Trainer(networks, x, y, hows)
    halfway = trainer.total_steps // 2
    trainer.advance(halfway)
    state = trainer.state()
    trainer.log_loss()  # with the running statistics, which it leaves alone
    trainer.network(0)(x.double())
    assert all(torch.equal(tensor, state[name]) for name, tensor in trainer.state().items())
    again = Trainer(networks, x, y, hows)
    again.restore(state)
    for each in (trainer, again):
        trained(each)
    for index, network in enumerate(networks):
        theirs = by_torch(network, x, y, hows[index]).state_dict()
        ours = trainer.network(index).state_dict()
        assert any("running_mean" in name for name in theirs)
        for name, tensor in theirs.items():
            torch.testing.assert_close(ours[name], tensor, rtol=1e-9, atol=1e-11)
            assert torch.equal(ours[name], again.network(index).state_dict()[name])
        assert not trainer.network(index).training


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": "hinge"}, "loss = 'hinge' is not known"),
        ({"dtype": "float16"}, "did you mean 'float"),
        ({"learning_rate": 0.0}, "learning_rate = 0.0: should be greater than 0"),
        ({"learning_rate": math.nan}, "learning_rate = nan: should be a finite number"),
        ({"epochs": -1}, "epochs = -1"),
        ({"batch_size": 0}, "batch_size = 0"),
        ({"momentum": 1.0}, "momentum = 1.0"),
        ({"seed": -1}, "seed = -1"),
        ({"frozen": "output.weight"}, "frozen = 'output.weight' must be a list"),
        ({"optimizer": "gd", "batch_size": 8}, "leave batch_size out"),
        ({"optimizer": "adam", "momentum": 0.9}, "its own momentum"),
    ],
)
def test_recipes_that_make_no_sense_are_refused(change: dict[str, object], message: str) -> None:
    sensible: dict[str, object] = {"optimizer": "sgd", "learning_rate": 0.1, "epochs": 1, "loss": "bce"}
    with pytest.raises(ConfigError, match=message):
        Recipe(**{**sensible, **change})  # type: ignore[arg-type]


class _Tied(nn.Module):
    """Two layers on one weight, a buffer, and a bias beside them."""

    shift: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3, bias=False)
        self.second.weight = self.first.weight
        self.register_buffer("shift", torch.tensor([1.0]))
        self.register_buffer("passing", torch.zeros(2), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.second(self.first(x).tanh()) + self.shift
        return outputs


def test_a_members_weights_by_name_are_its_state_dict() -> None:
    draw = torch.Generator().manual_seed(0)
    nets: list[nn.Module] = [_Tied() for _ in range(2)]
    x, y = torch.randn(6, 3, generator=draw), torch.randint(0, 3, (6,), generator=draw)
    trainer = Trainer(nets, x, y, [Recipe(learning_rate=0.1, epochs=3)] * 2)
    trainer.advance(2)
    for index in range(2):
        found, wanted = trainer.state_of(index), trainer.network(index).state_dict()
        assert list(found) == list(wanted)
        assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    kept = trainer.state_of(0)["first.weight"].clone()
    held = trainer.state_of(0)
    trainer.advance(1)
    assert torch.equal(held["first.weight"], kept)  # a copy: later steps do not reach it
    assert not torch.equal(trainer.state_of(0)["first.weight"], kept)
