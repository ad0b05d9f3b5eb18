"""Probes: in a loop nobody here wrote, on schedule, without a trace."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from undertow.core.errors import ConfigError, InputError, ModelError
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.rank import stable_rank
from undertow.probe import (
    Accuracy,
    Collaboration,
    Energy,
    Loss,
    Probe,
    RobustAccuracy,
    Schedule,
    SeamProfile,
    Sharpness,
    StableRank,
    measure,
    take,
)
from undertow.training import StepTaken


def make(*, outputs: int = 3) -> tuple[nn.Module, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.ReLU(), nn.Dropout(0.5), nn.Linear(7, outputs))
    return net.double(), torch.randn(20, 5, generator=generator).double(), torch.arange(20) % max(outputs, 2)


@dataclass(frozen=True)
class Meddling:
    """A measure that draws random numbers, leaves gradients and then may fail."""

    name: ClassVar[str] = "meddling"
    fail: bool = False

    def __call__(
        self,
        net: nn.Module,
        x: Tensor,
        y: Tensor | None,  # noqa: ARG002
    ) -> Iterator[tuple[str, float, float | None]]:
        torch.rand(10)
        net(x).sum().backward()
        assert not net.training
        yield "", 1.0, None
        if self.fail:
            raise RuntimeError("on purpose")


@pytest.mark.parametrize("fail", [False, True])
@pytest.mark.parametrize("with_gradients", [False, True])
def test_measuring_leaves_no_trace(fail: bool, with_gradients: bool) -> None:
    net, x, _ = make()
    net.train()
    net[1].eval()  # type: ignore[index]
    if with_gradients:
        net(x).square().sum().backward()
    modes = [module.training for module in net.modules()]
    grads = [None if p.grad is None else p.grad.clone() for p in net.parameters()]
    objects = [p.grad for p in net.parameters()]
    state = torch.get_rng_state()
    buffers = {name: value.clone() for name, value in net.state_dict().items()}
    if fail:
        with pytest.raises(RuntimeError):
            take(net, x, measures=[Meddling(fail=True)])
    else:
        take(net, x, measures=[Meddling()])
    assert [module.training for module in net.modules()] == modes
    assert torch.equal(torch.get_rng_state(), state)
    assert all(p.grad is old for p, old in zip(net.parameters(), objects, strict=True))
    for parameter, gradient in zip(net.parameters(), grads, strict=True):
        if gradient is not None:
            assert parameter.grad is not None
            assert torch.equal(parameter.grad, gradient)
    assert all(torch.equal(value, buffers[name]) for name, value in net.state_dict().items())


@pytest.mark.parametrize(
    ("every", "steps"),
    [("epoch", [0, 5, 10, 15, 20]), (6, [0, 6, 12, 18]), ("log", Schedule("log").upto(20))],
)
def test_any_loop_is_measured_on_schedule(every: int | str, steps: list[int]) -> None:
    net, x, y = make()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    probe = Probe(net, x, y, measures=[Loss(), StableRank()], every=every)  # type: ignore[arg-type]
    for _ in range(4):
        for batch in range(5):
            net.train()
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[4 * batch :][:4]), y[4 * batch :][:4]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            probe.step()
        probe.epoch_end()
    assert sorted({record.step for record in probe.records}) == steps
    frame = probe.frame()
    assert frame.columns == ["trial", "step", "epoch", "measure", "key", "value", "error"]
    assert len(frame) == len(probe.records) == 4 * len(steps)
    assert frame.filter(frame["measure"] == "loss")["error"].is_null().all()


def test_a_notebook_shows_what_a_probe_has() -> None:
    net, x, y = make()
    probe = Probe(net, x, y, measures=[Accuracy(), (Loss(), "end")])
    probe.step()
    assert repr(probe) == "Probe of accuracy, loss at step 1, epoch 0: 1 records"


def test_a_call_measures_at_once() -> None:
    net, x, y = make()
    probe = Probe(net, x, y, measures=[Accuracy()], at_start=False)
    assert probe.records == []
    (record,) = probe(step=7, epoch=2)
    assert (record.step, record.epoch, record.measure) == (7, 2, "accuracy")


def test_readings_agree_with_the_functions_behind_them() -> None:
    net, x, y = make()
    net.eval()
    readings = {
        (record.measure, record.key): record
        for record in take(
            net, x, y, measures=[StableRank(), Loss(), Accuracy(), Energy(), Collaboration(seam="1")]
        )
    }
    for key, rank in stable_rank(net).items():
        reading = readings["stable-rank", key]
        assert reading.value == pytest.approx(rank.value, rel=1e-9)
        assert reading.error is not None
        assert reading.error < 1e-4 * rank.value
    loss = nn.functional.cross_entropy(net(x), y).item()
    assert readings["loss", "mean"].value == pytest.approx(loss, rel=1e-12)
    assert readings["loss", "log10"].value == pytest.approx(math.log10(loss), rel=1e-12)
    assert readings["accuracy", ""].value == (net(x).argmax(1) == y).double().mean().item()
    whole = torch.func.jacrev(lambda z: net(z).sum(0))(x)
    jacobians = whole.permute(1, 0, 2)
    exact = torch.linalg.matrix_norm(jacobians, ord=2).square().mean().sqrt().item()
    assert readings["energy", ""].value == pytest.approx(exact, rel=1e-6)
    assert 0 <= readings["collaboration", "1:co_correlation"].value <= 1
    assert readings["collaboration", "1:energy"].value == pytest.approx(exact, rel=1e-5)


def test_one_logit_and_tiny_losses() -> None:
    net = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(net.weight, 2000.0)
    x, y = torch.tensor([[1.0], [1.0]]).double(), torch.tensor([1, 1])
    for kind in ("logistic", "exponential"):
        found = {r.key: r.value for r in take(net, x, y, measures=[Loss(kind=kind)])}
        assert found["mean"] == 0.0
        assert found["log10"] == pytest.approx(-2000 / math.log(10), rel=1e-12)
    wrong = {r.key: r.value for r in take(net, x, torch.tensor([0, 0]), measures=[Loss(), Accuracy()])}
    assert wrong["mean"] == pytest.approx(2000.0)
    assert wrong[""] == 0.0


def test_every_loss_by_its_name() -> None:
    x, y = torch.tensor([[0.3], [-0.2], [1.0]]), torch.tensor([1, 1, 0])
    signs = 2.0 * y - 1
    one = nn.Identity()
    expected = {
        "bce": nn.functional.binary_cross_entropy_with_logits(x[:, 0], y.float()),
        "logistic": nn.functional.softplus(-signs * x[:, 0]).mean(),
        "exponential": torch.exp(-signs * x[:, 0]).mean(),
    }
    for kind, value in expected.items():
        (mean, _) = measure("loss", kind=kind)(one, x, y)
        assert mean[1] == pytest.approx(value.item(), rel=1e-6)
    pair = torch.cat([torch.zeros(3, 1), x], dim=1)
    assert next(iter(Loss(kind="cross-entropy")(one, pair, y)))[1] == pytest.approx(
        expected["bce"].item(), rel=1e-6
    )
    with pytest.raises(ConfigError, match="did you mean 'cross-entropy'"):
        Loss(kind="cross_entropy")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="reads one logit"):
        list(Loss(kind="logistic")(one, pair, y))


def test_mistakes_are_sentences() -> None:
    net, x, y = make()
    with pytest.raises(InputError, match="give one"):
        Probe(net, x, y, measures=[])
    with pytest.raises(InputError, match="did you mean 'epoch'"):
        Probe(net, x, y, measures=[Loss()], every="epochs")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="1 or more"):
        Probe(net, x, y, measures=[Loss()], every=0)
    with pytest.raises(InputError, match="'ends', 'end', 'decade' or a number"):
        Probe(net, x, y, measures=[(Loss(), 2.5)])  # type: ignore[list-item]
    with pytest.raises(InputError, match="loss needs labels"):
        Probe(net, x, measures=[Loss()])
    with pytest.raises(ConfigError, match="did you mean 'seam'"):
        measure("collaboration", seem="1")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"net": lambda x: x}, "put the function into a module's forward"),
        ({"x": [[1.0]]}, r"next\(iter\(loader\)\)"),
        ({"x": torch.zeros(0, 5), "y": torch.zeros(0)}, r"shape \(0, 5\), which holds no points"),
        ({"y": [0, 1]}, r"torch.as_tensor\(y\)"),
        ({"y": torch.zeros(3)}, r"x has shape \(20, 5\) and y \(3,\): give one label for each sample"),
        ({"y": torch.full((20,), 7)}, r"wants classes 0 … 2; y holds 7"),
        ({"y": torch.zeros(20, 3)}, "pass one label per sample"),
        ({"training": (torch.zeros(20, 5), torch.zeros(20))}, r"training=\(x, y, 0.1\)"),
        ({"training": ([[1.0]], torch.zeros(1), 0.1)}, "two tensors and a number"),
        ({"dtype": torch.float16}, r"torch.float32 or torch.float64, not torch.float16"),
        ({"measures": Accuracy()}, r"write measures=\[…\]"),
        ({"measures": [Accuracy]}, r"make one of it, Accuracy\(\)"),
        ({"measures": ["accuracy"]}, r"undertow.probe.measure\('accuracy'\)"),
        ({"measures": [len]}, "it needs a name"),
    ],
)
def test_what_a_probe_cannot_use_is_refused_in_a_sentence(given: dict[str, Any], says: str) -> None:
    net, x, y = make()
    usable: dict[str, Any] = {"net": net, "x": x, "y": y, "measures": [Accuracy()]}
    with pytest.raises(InputError, match=says):
        Probe(**usable | given)


@pytest.mark.parametrize("made", [Accuracy, Loss, Energy, Sharpness, RobustAccuracy, SeamProfile])
def test_points_of_the_wrong_shape_or_precision_are_told_in_a_sentence(made: Any) -> None:
    net, x, y = make()
    with pytest.raises(ModelError, match=r"cannot take x of shape \(20, 7\)"):
        Probe(net, torch.randn(20, 7, dtype=x.dtype), y, measures=[made()])
    if made is not RobustAccuracy:  # which takes points to the network's precision
        with pytest.raises(
            InputError, match=r"x has dtype torch.float32 but the network holds torch.float64"
        ):
            Probe(net, x.float(), y, measures=[made()])


def test_a_mistake_inside_a_measure_stays_what_it_is() -> None:
    class Mistaken:
        name = "mistaken"

        def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Any:  # noqa: ARG002
            raise RuntimeError("my own")

    net, x, y = make()
    with pytest.raises(RuntimeError, match="my own"):
        Probe(net, x, y, measures=[Mistaken()])


def test_a_network_without_one_output_is_refused_in_a_sentence() -> None:
    class Several(nn.Module):
        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"logits": x}

    with pytest.raises(ModelError, match=r"returns dict, not one tensor: probe a torch.nn.Module around it"):
        take(Several(), torch.ones(2, 3), torch.tensor([0, 1]), measures=[Accuracy()])


def test_half_precision_is_measured_as_a_copy_in_the_dtype_asked_for() -> None:
    net, x, y = make()
    half, points = net.to(torch.bfloat16), x.to(torch.bfloat16)
    unasked = Probe(half, points, y, measures=[Energy()]).records[0]
    assert unasked == take(copy.deepcopy(half).float(), points.float(), measures=[Energy()])[0]
    found = Probe(half, points, y, measures=[Energy()], dtype=torch.float64).records[0]
    exact = take(copy.deepcopy(half).double(), points.double(), measures=[Energy()])[0]
    assert found.value == exact.value
    assert {parameter.dtype for parameter in half.parameters()} == {torch.bfloat16}


def test_a_copy_in_another_dtype_reads_tokens_and_training_points() -> None:
    generator = torch.Generator().manual_seed(0)
    embedding, last = nn.Embedding(5, 3), nn.Linear(3, 2)
    half = nn.Sequential(embedding, last).to(torch.bfloat16)
    tokens, y = torch.arange(5), torch.tensor([0, 1, 0, 1, 0])
    (found,) = Probe(half, tokens, y, measures=[Accuracy()], dtype=torch.float32).records
    assert found.value == take(copy.deepcopy(half).float(), tokens, y, measures=[Accuracy()])[0].value

    logit = nn.Linear(4, 1).to(torch.bfloat16)
    x = torch.randn(30, 4, generator=generator).to(torch.bfloat16)
    labels = (x[:, 0] > 0).long()
    likeness = measure("linear-likeness")
    probe = Probe(logit, x, labels, measures=[likeness], training=(x, labels, 0.1), dtype=torch.float64)
    assert {record.key: record.value for record in probe.records}["linearity"] == pytest.approx(1.0)


class Experts(nn.Module):
    """One expert for each half of the features of a sample, by products of groups, or by ordinary ones."""

    def __init__(self, *, grouped: bool) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.matrices = nn.Parameter(torch.randn(2, 16, 16, generator=generator))
        self.grouped = grouped

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = torch.cat([x[:, :16], x[:, 16:]])
        if not self.grouped:
            parts = [half @ matrix for half, matrix in zip(rows.chunk(2), self.matrices, strict=True)]
            return torch.cat(parts, dim=1)
        ends = torch.tensor([len(x), 2 * len(x)], dtype=torch.int32)
        return torch.cat(nn.functional.grouped_mm(rows, self.matrices, offs=ends).chunk(2), dim=1)


def test_a_copy_in_float64_has_products_of_groups_too() -> None:
    x, y = torch.randn(5, 32, generator=torch.Generator().manual_seed(0)), torch.zeros(5, dtype=torch.long)
    found, plain = (
        Probe(Experts(grouped=grouped), x, y, measures=[Energy()], dtype=torch.float64).records[0].value
        for grouped in (True, False)
    )
    assert found == pytest.approx(plain, rel=1e-12)


def test_a_step_without_a_measurement_leaves_the_network_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    net, x, y = make()
    probe = Probe(net, x, y, measures=[Accuracy()], every=2)
    monkeypatch.setattr(net, "eval", lambda: pytest.fail("nothing is due"))
    probe.step()


def test_a_measure_may_have_its_own_schedule() -> None:
    net, x, y = make()
    probe = Probe(
        net,
        x,
        y,
        measures=[Loss(), (Accuracy(), 4), (StableRank(), "end"), (Energy(), "ends")],
        every="epoch",
    )
    for step in range(1, 10):
        probe.step()
        if step % 5 == 0:
            probe.epoch_end()
    probe.training_end()
    probe.training_end()  # nothing is taken twice at one step
    steps = {name: [] for name in ("loss", "accuracy", "stable-rank", "energy")}  # type: dict[str, list[int]]
    for record in probe.records:
        if record.key in ("", "mean", "0.weight"):
            steps[record.measure].append(record.step)
    assert steps == {
        "loss": [0, 5, 9],
        "accuracy": [0, 4, 8, 9],
        "stable-rank": [9],
        "energy": [0, 9],
    }


class Path(NamedMeasure):
    """How far the network has gone, step by step: a measure with a memory."""

    name: ClassVar[str] = "path"

    def begin(self, start: nn.Module, x: Tensor, y: Tensor, *, learning_rate: float) -> PathTracker:
        return PathTracker(start, x, y, learning_rate)


class PathTracker:
    def __init__(self, start: nn.Module, x: Tensor, y: Tensor, learning_rate: float) -> None:
        self.rate, self.samples = learning_rate, len(x) + 0 * len(y)
        self.last = nn.utils.parameters_to_vector(start.parameters()).detach().clone()
        self.length = torch.zeros((), dtype=torch.float64)

    def observe(self, net: nn.Module, taken: StepTaken) -> None:
        if not taken.accepted:
            return
        now = nn.utils.parameters_to_vector(net.parameters()).detach().clone()
        self.length = self.length + (now - self.last).double().norm()
        self.last = now

    def read(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[tuple[str, float, float | None]]:  # noqa: ARG002
        yield "length", self.length.item(), None
        yield "time", self.rate * self.samples, None

    def state(self) -> dict[str, Tensor]:
        return {"last": self.last, "length": self.length}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.last, self.length = state["last"], state["length"]


def test_a_measure_may_remember_the_training() -> None:
    net = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(net.weight)
    x, y = torch.ones(3, 1), torch.ones(3)
    probe = Probe(net, x, y, measures=[Path()], every=2, training=(x, y, 0.5))
    for change in (1.0, -2.0, 0.5):
        net.weight.data += change
        probe.step()
    probe.training_end()
    found = [(r.step, r.value) for r in probe.records if r.key == "length"]
    assert found == [(0, 0.0), (2, 3.0), (3, 3.5)]
    assert {r.value for r in probe.records if r.key == "time"} == {1.5}
    with pytest.raises(InputError, match=r"training=\(x, y, learning_rate\)"):
        Probe(net, x, y, measures=[Path()])


@pytest.mark.parametrize("every", ["epoch", "log", 1, 7, "ends", "end"])
def test_schedules_agree_with_themselves(every: int | str) -> None:
    schedule = Schedule(every, steps_per_epoch=3)  # type: ignore[arg-type]
    steps = schedule.upto(5000)
    assert [step for step in range(5001) if schedule.due(step)] == steps
    if every == "log":
        spaced = {math.floor(2 ** (j / 4) + 1e-9) for j in range(50)}
        assert steps == [0, *sorted(step for step in spaced if step <= 5000)]


def test_a_network_that_diverges_does_not_end_its_training() -> None:
    net, x, y = make()
    probe = Probe(net, x, y, measures=[StableRank(), Energy()], every=1)
    before = len(probe.records)
    kept = copy.deepcopy(net.state_dict())
    with torch.no_grad():
        next(net.parameters()).fill_(math.nan)
    with pytest.warns(UserWarning, match="at step 1"):
        probe.step()
    probe.step()  # told once
    assert len(probe.records) == before
    net.load_state_dict(kept)
    probe.step()
    assert [record.step for record in probe.records[before:]] == [3] * before


class FailsLater:
    """A measure that works before training, and fails once during it."""

    name = "fails-later"

    def __init__(self, at: int) -> None:
        self.at, self.calls = at, 0

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Any:  # noqa: ARG002
        self.calls += 1
        if self.calls == self.at:
            raise ValueError("my own")
        return [("", float(self.calls), None)]


def test_a_measure_that_fails_does_not_end_the_training() -> None:
    net, x, y = make()
    net.train()
    probe = Probe(net, x, y, measures=[FailsLater(2), Accuracy()], every=1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(4):
            probe.step()
        probe.training_end()
    assert net.training
    assert [record.step for record in probe.records if record.measure == "fails-later"] == [0, 2, 3, 4]
    assert [record.step for record in probe.records if record.measure == "accuracy"] == [0, 1, 2, 3, 4]
    (told,) = said
    assert "fails-later could not be measured at step 1: ValueError: my own" in str(told.message)
    assert told.filename == __file__


def test_a_measure_that_fails_ends_the_training_where_that_is_asked_for() -> None:
    net, x, y = make()
    probe = Probe(net, x, y, measures=[FailsLater(2)], every=1, on_error="raise")
    with pytest.raises(ValueError, match="my own"):
        probe.step()
    with pytest.raises(InputError, match="'warn' or 'raise'"):
        Probe(net, x, y, measures=[Accuracy()], on_error="ignore")  # type: ignore[arg-type]


def test_outputs_that_are_not_finite_do_not_end_the_training() -> None:
    net, x, y = make()
    probe = Probe(net, x, y, measures=[Energy()], every=1)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(1e200)
    with pytest.warns(UserWarning, match=r"energy could not be measured at step 1: .*NaN or Inf"):
        assert probe.step() == []
    assert probe.step() == []
