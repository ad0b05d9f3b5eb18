"""A training that goes on in another process: the probe reads what it would have read in one."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from undertow.core.errors import InputError
from undertow.measures.co_correlation_growth import Growth
from undertow.measures.step_geometry import StepGeometry
from undertow.measures.weight_direction import DirectionOfWeights
from undertow.probe import Accuracy, Collaboration, Energy, Probe
from undertow.probe.state_files import read_state, write_state
from undertow.store.store import Store
from undertow.training.taken import StepTaken


def _network() -> nn.Module:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 6, bias=False), nn.Tanh(), nn.Linear(6, 1, bias=False)).double()
    with torch.no_grad():
        net[2].weight.copy_(torch.tensor([1.0, -1.0] * 3) / math.sqrt(6))  # type: ignore[union-attr,operator]
    net[2].requires_grad_(False)
    return net


X = torch.randn(10, 4, generator=torch.Generator().manual_seed(0)).double()
Y = 2 * (X[:, 0] > 0).long() - 1


def _train(net: nn.Module, probe: Probe, steps: int) -> None:
    optimizer = torch.optim.SGD([each for each in net.parameters() if each.requires_grad], lr=0.5)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.softplus(-Y * net(X)[:, 0]).mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        probe.step()


MEASURES = [Accuracy(), Growth(), DirectionOfWeights(), StepGeometry(), Collaboration(seam="1")]


def _probe(net: nn.Module, *, measures: Sequence[Any] = MEASURES, **options: Any) -> Probe:
    return Probe(net, X, Y, measures=measures, every=2, training=(X, Y, 0.5), **options)


def test_a_probe_that_is_saved_goes_on_to_the_very_same_records() -> None:
    net = _network()
    whole = _probe(net)
    _train(net, whole, 8)
    whole.epoch_end()
    whole.training_end()

    net = _network()
    again = _probe(net)
    _train(net, again, 4)
    for _ in range(2):
        file = io.BytesIO()
        torch.save({"net": net.state_dict(), "probe": again.state_dict()}, file)
        file.seek(0)
        saved = torch.load(file, weights_only=True)  # plain numbers, words and tensors
        net = _network()
        net.load_state_dict(saved["net"])
        again = _probe(net, at_start=False)
        again.load_state_dict(saved["probe"])
        _train(net, again, 2)
    again.epoch_end()
    again.training_end()
    assert again.records == whole.records
    assert [record.step for record in again.records if record.measure == "accuracy"] == [0, 2, 4, 6, 8]


def test_a_state_is_the_same_from_a_file(tmp_path: Path) -> None:
    net = _network()
    probe = _probe(net)
    _train(net, probe, 3)
    path = tmp_path / "probe.safetensors"
    write_state(path, probe.state_dict())
    found, state = read_state(path), probe.state_dict()
    assert found is not None
    for part in ("start", "memory"):
        assert found[part].keys() == state[part].keys()
        assert all(torch.equal(found[part][name], tensor) for name, tensor in state[part].items())
        del found[part], state[part]
    assert found == state
    path.write_bytes(path.read_bytes()[:-8])
    assert read_state(path) is None
    assert read_state(tmp_path / "none.safetensors") is None


def test_a_state_of_another_probe_is_refused() -> None:
    probe = _probe(_network())
    with pytest.raises(InputError, match=r"no state of a probe: give what probe\.state_dict\(\)"):
        probe.load_state_dict({"weight": X})
    narrow = nn.Sequential(nn.Linear(4, 2, bias=False), nn.Tanh(), nn.Linear(2, 1, bias=False)).double()
    with pytest.raises(InputError, match="the training of another network"):
        _probe(narrow, measures=[DirectionOfWeights()]).load_state_dict(
            _probe(_network(), measures=[DirectionOfWeights()]).state_dict()
        )
    other = _probe(_network(), measures=[Accuracy(), Energy()])
    with pytest.raises(InputError, match="measured accuracy, energy, and this one measures accuracy, growth"):
        probe.load_state_dict(other.state_dict())
    with pytest.raises(InputError, match=r"growth, direction.* follows the training from its first step"):
        probe.load_state_dict({"step": 100, "epoch": 3})
    other.load_state_dict({"step": 100, "epoch": 3})
    assert [(record.step, record.epoch) for record in other.step() + other.step()] == [(102, 3)] * 2


@dataclass(frozen=True)
class FailsAt:
    """A measure with a memory that cannot take in one of the steps: half of it, and then an error."""

    name: ClassVar[str] = "fails"
    step: int
    error: type[BaseException] = ValueError

    def begin(self, start: nn.Module, x: Tensor, y: Tensor, *, learning_rate: float) -> _Fails:  # noqa: ARG002
        return _Fails(self)


class _Fails:
    def __init__(self, options: FailsAt) -> None:
        self.options, self.steps = options, 0

    def observe(self, net: nn.Module, taken: StepTaken) -> None:  # noqa: ARG002
        self.steps += 1
        if self.steps == self.options.step:
            raise self.options.error("my own")

    def read(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[tuple[str, float, float | None]]:  # noqa: ARG002
        yield "steps", float(self.steps), None

    def state(self) -> dict[str, Tensor]:
        return {"steps": torch.tensor(self.steps)}

    def restore(self, state: Any) -> None:
        self.steps = int(state["steps"])


def test_a_tracker_that_misses_a_step_is_measured_no_more_and_training_goes_on() -> None:
    net = _network()
    probe = _probe(net, measures=[FailsAt(3), FailsAt(5), Accuracy()], spread=False)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        _train(net, probe, 8)
        probe.training_end()
    told = [str(each.message).partition(":")[0] for each in said]
    assert told == ["fails could not follow step 3", "fails could not follow step 5"]
    assert all(each.filename == __file__ for each in said)
    assert [record.step for record in probe.records if record.measure == "fails"] == [0, 0, 2, 2, 4]
    assert [record.step for record in probe.records if record.measure == "accuracy"] == [0, 2, 4, 6, 8]
    again = _probe(_network(), measures=[FailsAt(9), FailsAt(9), Accuracy()], at_start=False)
    with pytest.warns(UserWarning, match="fails had missed a step when this state was saved"):
        again.load_state_dict(probe.state_dict())  # what it has missed it does not get back
    _train(net, again, 2)
    assert [record.measure for record in again.records if record.step == 10] == ["accuracy"]


def test_a_tracker_that_misses_a_step_ends_the_training_where_that_is_asked_for() -> None:
    net = _network()
    probe = _probe(net, measures=[FailsAt(3)], on_error="raise")
    with pytest.raises(ValueError, match="my own"):
        _train(net, probe, 4)


def test_a_tracker_that_is_interrupted_by_hand_has_missed_the_step() -> None:
    net = _network()
    probe = _probe(net, measures=[FailsAt(3, KeyboardInterrupt), Accuracy()])
    with pytest.raises(KeyboardInterrupt):
        _train(net, probe, 4)
    _train(net, probe, 3)
    assert [record.step for record in probe.records if record.measure == "fails"] == [0, 2]


def test_a_tracker_that_was_not_told_of_steps_is_measured_no_more() -> None:
    net = _network()
    probe = _probe(net, measures=[FailsAt(100), DirectionOfWeights(), Accuracy()])
    _train(net, probe, 2)
    with pytest.warns(UserWarning, match=r"not shown steps 3 to 10, without which fails would be half true"):
        found = probe(step=10)
    assert {record.measure for record in found} == {
        "direction",
        "accuracy",
    }  # a direction needs the start alone


def test_several_steps_at_once_are_measured_as_the_last_of_them() -> None:
    net = _network()
    probe = _probe(net, measures=[FailsAt(100), Accuracy(), (Energy(), 3)])
    with pytest.warns(UserWarning, match="not shown steps 1 to 2"):
        found = probe.step(made=3)
    assert [(record.step, record.measure) for record in found] == [(3, "accuracy"), (3, "energy")]
    assert [record.step for record in probe.step()] == [4]
    assert probe.step(made=3)[0].step == 7


class Full:
    """A place for records that has no room left after the first."""

    def __init__(self) -> None:
        self.taken = 0

    def __call__(self, records: Sequence[Any]) -> None:  # noqa: ARG002
        if self.taken:
            raise OSError("no space left on device")
        self.taken += 1

    def training_end(self) -> None:
        raise OSError("no space left on device")


def test_a_sink_that_fails_does_not_end_the_training() -> None:
    net = _network()
    told: list[Any] = []
    probe = _probe(net, measures=[Accuracy()], sinks=[Full(), told.extend])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        _train(net, probe, 4)
        probe.training_end()
    assert [str(each.message).partition(":")[0] for each in said] == [
        "Full could not take the records of step 2",
        "Full could not end",
    ]
    assert told == probe.records
    strict = _probe(net, measures=[Accuracy()], sinks=[Full()], on_error="raise")
    with pytest.raises(OSError, match="no space"):
        _train(net, strict, 2)


def test_a_trial_of_a_training_that_was_interrupted_has_all_of_it(tmp_path: Path) -> None:
    net, store = _network(), Store(tmp_path / "runs")
    first = _probe(net, measures=[Accuracy()], sinks=[store.sink("interrupted")])
    _train(net, first, 4)
    saved = first.state_dict()  # the process dies, and with it what the first sink had
    again = _probe(net, measures=[Accuracy()], sinks=[store.sink("interrupted")], at_start=False)
    again.load_state_dict(saved)
    _train(net, again, 4)
    again.training_end()
    assert store.frame()["step"].to_list() == [0, 2, 4, 6, 8]
