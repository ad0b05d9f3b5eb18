"""The measure ``growth`` in a probe: its readings are those of the theory, and a resumed tracker gives the same."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from undertow.core.errors import ConfigError, ModelError
from undertow.measures import measure
from undertow.measures.co_correlation_growth import Growth, GrowthTracker
from undertow.measures.collaboration import collaboration
from undertow.models import Scaled, two_layer
from undertow.probe.probe import Probe
from undertow.training import StepTaken

RATE = 0.3


def make(activation: str, dtype: torch.dtype = torch.float64) -> tuple[nn.Module, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(4)
    net = two_layer(
        inputs=6, width=10, activation=activation, init=Scaled(q=0.25), dtype=dtype, generator=generator
    )
    x = torch.randn(30, 6, generator=generator, dtype=dtype)
    y = (x[:, 0] > 0).to(dtype)
    return net, x / x.norm(dim=1, keepdim=True), y


def step(net: nn.Module, x: Tensor, y: Tensor) -> None:
    loss = nn.functional.binary_cross_entropy_with_logits(net(x).flatten(), y)
    weight = net.get_parameter("hidden.weight")
    (gradient,) = torch.autograd.grad(loss, [weight])
    weight.data.sub_(RATE * gradient)


def readings(tracker: GrowthTracker, net: nn.Module, x: Tensor) -> dict[str, float]:
    return {key: value for key, value, _ in tracker.read(net, x, None)}


@pytest.mark.parametrize("activation", ["linear", "relu", "tanh"])
def test_over_training_the_exact_rate_adds_up_to_the_growth_of_co_correlation(activation: str) -> None:
    net, x, y = make(activation)
    tracker = Growth(points=9).begin(net, x, y, learning_rate=RATE)
    taken = [readings(tracker, net, x)]
    for _ in range(20):
        step(net, x, y)
        tracker.observe(net, StepTaken(RATE))
        taken.append(readings(tracker, net, x))
    first, last = taken[0], taken[-1]
    assert last["co_correlation"] == pytest.approx(
        collaboration(net, x[:9], seam="activation", method="exact").co_correlation
    )
    assert last["flow_time"] == pytest.approx(20 * RATE)
    grown = math.log(last["co_correlation"] / first["co_correlation"])
    rates = [each["exact"] for each in taken]
    integral = RATE * (sum(rates) - (rates[0] + rates[-1]) / 2)
    assert integral == pytest.approx(grown, rel=1e-2)
    along = sum(math.log1p(RATE * each["measured"]) for each in taken[:-1])
    assert along == pytest.approx(grown, rel=1e-9)
    assert first["main"] == 0
    assert "update_gap" not in first
    assert max(each["update_gap"] for each in taken[1:]) < 1e-12
    assert all(each["cosine_least"] <= each["cosine_first"] + 1e-12 for each in taken)
    assert first["cosine_first"] == pytest.approx(1.0)
    assert last["steepest"] <= 1
    assert last["start_norm"] == first["start_norm"]


def test_minibatches_are_not_the_steps_that_the_lemma_speaks_of() -> None:
    net, x, y = make("relu")
    tracker = Growth(points=4).begin(net, x, y, learning_rate=RATE)
    readings(tracker, net, x)
    step(net, x[:10], y[:10])
    tracker.observe(net, StepTaken(RATE))
    assert readings(tracker, net, x)["update_gap"] > 0.01


@pytest.mark.parametrize("activation", ["linear", "gelu"])
def test_a_resumed_tracker_reads_the_same(activation: str) -> None:
    net, x, y = make(activation)
    options = Growth(points=5, refresh=3)
    tracker = options.begin(net, x, y, learning_rate=RATE)
    again = options.begin(net, x, y, learning_rate=RATE)  # begins where training begins, as after a restart
    for _ in range(4):
        step(net, x, y)
        tracker.observe(net, StepTaken(RATE))
    readings(tracker, net, x)
    state = tracker.state()
    saved = {name: tensor.clone() for name, tensor in state.items()}
    for _ in range(3):
        step(net, x, y)
        tracker.observe(net, StepTaken(RATE))
    assert all(
        torch.equal(state[name], saved[name]) for name in state
    )  # a state does not move with the training
    expected = readings(tracker, net, x)
    rewound, *_ = make(activation)
    for _ in range(4):
        step(rewound, x, y)
    again.restore(state)
    for _ in range(3):
        step(rewound, x, y)
        again.observe(rewound, StepTaken(RATE))
    assert readings(again, rewound, x) == expected


def test_in_a_probe_on_a_float32_network() -> None:
    net, x, y = make("leaky-relu", torch.float32)
    probe = Probe(
        net, x[:3], y[:3].long(), measures=[measure("growth", points=6)], every=2, training=(x, y, RATE)
    )
    for _ in range(4):
        step(net, x, y)
        probe.step()
    found = {(record.step, record.key): record.value for record in probe.records}
    assert {at for at, _ in found} == {0, 2, 4}
    assert found[4, "update_gap"] < 1e-4  # what float32 leaves of a difference of weights
    parts = ("main", "replacement", "remaining", "inequality", "dropped")
    assert sum(found[4, part] for part in parts) == pytest.approx(found[4, "exact"])


def test_a_head_that_was_trained_is_told() -> None:
    net, x, y = make("relu")
    tracker = Growth(points=4).begin(net, x, y, learning_rate=RATE)
    step(net, x, y)
    tracker.observe(net, StepTaken(RATE))
    readings(tracker, net, x)
    with torch.no_grad():
        net.get_parameter("output.weight").mul_(1.01)
    with pytest.raises(ModelError, match="holds the head fixed"):
        readings(tracker, net, x)


def test_options_and_networks_it_cannot_take_are_told() -> None:
    with pytest.raises(ConfigError, match=r"growth.points = 0: should be greater than or equal to 1"):
        measure("growth", points=0)
    with pytest.raises(ConfigError, match="did you mean 'refresh'"):
        measure("growth", refesh=2)
    deep = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    with pytest.raises(ModelError, match="about two-layer networks"):
        Growth().begin(deep, torch.zeros(3, 6), torch.zeros(3), learning_rate=0.1)


def test_a_checkpoint_from_when_rates_could_not_change_is_taken_up() -> None:
    net, x, y = make("tanh")
    options = Growth(points=5)
    tracker, again = (options.begin(net, x, y, learning_rate=RATE) for _ in range(2))
    for _ in range(3):
        step(net, x, y)
        tracker.observe(net, StepTaken(RATE))
    older = {name: tensor for name, tensor in tracker.state().items() if name not in ("flow", "rate")}
    again.restore(older)
    assert readings(again, net, x) == readings(tracker, net, x)
