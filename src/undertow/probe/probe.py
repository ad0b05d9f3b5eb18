"""A probe: measures on a schedule inside anyone's training loop."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from undertow.core.errors import InputError
from undertow.measures.reading import Measure, TrackingMeasure
from undertow.probe.checks import check_measures, check_points, readings_of
from undertow.probe.preserve_state import preserve_state
from undertow.probe.records import COLUMNS, Record
from undertow.probe.schedule import Every, Schedule
from undertow.probe.tracking import Tracked, follow, remembers
from undertow.training.taken import StepTaken

if TYPE_CHECKING:
    import polars

__all__ = ["Probe", "take"]


def take(
    net: nn.Module,
    x: Tensor,
    y: Tensor | None = None,
    *,
    measures: Sequence[Measure],
    step: int = 0,
    epoch: int = 0,
    trial: str = "",
) -> list[Record]:
    """Every measure's readings of the network at this moment, as records; the network is left as it was."""
    return list(_take(net, x, y, measures, step, epoch, trial))


def _take(
    net: nn.Module,
    x: Tensor,
    y: Tensor | None,
    measures: Sequence[Measure],
    step: int,
    epoch: int,
    trial: str,
) -> Iterator[Record]:
    with preserve_state(net):
        for measure in measures:
            for key, value, error in readings_of(measure, measure(net, x, y)):
                yield Record(trial, step, epoch, measure.name, key, value, error)


class Probe:
    """Attach measures to any training loop and collect records.

    Call ``step()`` after each optimiser step, ``epoch_end()`` after each epoch and ``training_end()`` after the
    last; the probe measures when ``every`` says so: ``"epoch"``, a number of steps, ``"log"`` for geometrically
    spaced steps, ``"ends"`` before and after training, ``"end"`` after it alone. A measure with a schedule of its
    own is a pair: ``measures=[Loss(), (RobustAccuracy(), "end")]``. At the end everything is measured. Calling
    the probe itself measures everything at once. The network before training is measured on construction, unless
    ``at_start=False``.

    Measures with a memory of the training want to know what is trained on, and how fast: ``training=(x, y,
    learning_rate)``. Where the rate changes, each step says its own: ``step(rate=…)``.

    A network that diverges is not measured any more, with a warning: numbers of it would tell nothing, and an error
    would end a training that may yet recover. A network in half precision, which is too coarse for error bounds, is
    measured as a copy in ``dtype``.

    >>> import torch
    >>> from undertow.probe import Accuracy, StableRank
    >>> net = nn.Linear(1, 1, bias=False)
    >>> _ = nn.init.ones_(net.weight)
    >>> x, y = torch.tensor([[2.0], [-1.0]]), torch.tensor([1, 1])
    >>> probe = Probe(net, x, y, measures=[Accuracy(), (StableRank(), "end")])
    >>> probe.epoch_end()
    >>> [(record.epoch, record.measure, record.value) for record in probe.records]
    [(0, 'accuracy', 0.5), (1, 'accuracy', 0.5)]
    >>> probe.training_end()
    >>> probe.records[-1].measure
    'stable-rank'
    """

    def __init__(
        self,
        net: nn.Module,
        x: Tensor,
        y: Tensor | None = None,
        *,
        measures: Sequence[Measure | TrackingMeasure | tuple[Measure | TrackingMeasure, Every]],
        every: Every = "epoch",
        trial: str = "",
        at_start: bool = True,
        training: tuple[Tensor, Tensor, float] | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_points(net, x, y)
        check_measures(measures)
        self.net, self.x, self.y, self.dtype = net, _in(dtype, x), y, dtype
        pairs = [each if isinstance(each, tuple) else (each, every) for each in measures]
        if training is not None:
            training = (_in(dtype, training[0]), *training[1:])
        start = self._seen()
        self.measures = tuple(_followed(measure, start, training) for measure, _ in pairs)
        self.schedules = tuple(Schedule(own) for _, own in pairs)
        for schedule in self.schedules:
            if schedule.level is not None:
                raise InputError(
                    f"every = {schedule.every!r} goes by the training loss, which a probe is not told: call the probe "
                    "itself, probe(step=…), whenever the loss has passed a power of ten."
                )
        self.trial = trial
        self.records: list[Record] = []
        self._step = self._epoch = 0
        self._rate = math.nan if training is None else training[2]
        self._measured = [-1] * len(pairs)  # the step at which each was last taken
        self._diverged = False
        if at_start:
            self._take(index for index, schedule in enumerate(self.schedules) if schedule.due(0))

    def __call__(self, *, step: int | None = None, epoch: int | None = None) -> list[Record]:
        """Measure now and return the new records; ``step`` and ``epoch``, where given, set the counters."""
        self._step = self._step if step is None else step
        self._epoch = self._epoch if epoch is None else epoch
        return self._take(range(len(self.measures)))

    def step(self, *, rate: float | None = None) -> None:
        """One optimiser step was made; ``rate`` is its learning rate, where that is not the one before it."""
        self._step += 1
        self._rate = self._rate if rate is None else rate
        observing = [each for each in self.measures if isinstance(each, Tracked) and each.observes]
        if observing:
            seen = self._seen()
            for measure in observing:
                with preserve_state(seen):
                    measure.tracker.observe(seen, StepTaken(self._rate))
        # What is due at the end of an epoch waits for ``epoch_end``, which also counts it.
        self._take(
            index
            for index, schedule in enumerate(self.schedules)
            if schedule.every != "epoch" and schedule.due(self._step)
        )

    def epoch_end(self) -> None:
        """One pass over the data is complete."""
        self._epoch += 1
        self._take(index for index, schedule in enumerate(self.schedules) if schedule.every == "epoch")

    def training_end(self) -> None:
        """Training is over: every measure that has not been taken at this step is taken."""
        self._take(index for index, step in enumerate(self._measured) if step != self._step)

    def _seen(self) -> nn.Module:
        """The network as it is measured: itself, or a copy in the dtype asked for."""
        return self.net if self.dtype is None else copy.deepcopy(self.net).to(self.dtype)

    def _take(self, due: Iterable[int]) -> list[Record]:
        """The readings of the measures that are due, in the order in which they were given."""
        due = list(due)
        if not due:
            return []  # between two measurements a step costs nothing, however large the network
        for index in due:
            self._measured[index] = self._step
        seen = self._seen()
        if not all(bool(torch.isfinite(parameter).all()) for parameter in seen.parameters()):
            if not self._diverged:
                warnings.warn(
                    f"the network has weights that are NaN or infinite, at step {self._step}: the probe measures "
                    "nothing while it has.",
                    UserWarning,
                    stacklevel=3,
                )
            self._diverged = True
            return []
        new = take(
            seen,
            self.x,
            self.y,
            measures=[self.measures[index] for index in due],
            step=self._step,
            epoch=self._epoch,
            trial=self.trial,
        )
        self.records += new
        return new

    def frame(self) -> polars.DataFrame:
        """The records as a polars frame."""
        import polars

        kinds: dict[str, Any] = {
            "trial": polars.String,
            "step": polars.Int64,
            "epoch": polars.Int64,
            "measure": polars.String,
            "key": polars.String,
            "value": polars.Float64,
            "error": polars.Float64,
        }
        return polars.DataFrame(
            [record.row() for record in self.records], schema={c: kinds[c] for c in COLUMNS}
        )


def _in(dtype: torch.dtype | None, points: Tensor) -> Tensor:
    """Points in the dtype asked for; whole numbers, such as tokens, stay what they are."""
    return points if dtype is None or not points.is_floating_point() else points.to(dtype)


def _followed(
    measure: Measure | TrackingMeasure, net: nn.Module, training: tuple[Tensor, Tensor, float] | None
) -> Measure:
    if not remembers(measure):
        return cast(Measure, measure)
    if training is None:
        raise InputError(
            f"{measure.name} follows the training: tell the probe what it is, training=(x, y, learning_rate)."
        )
    x, y, learning_rate = training
    return follow(measure, copy.deepcopy(net).eval(), x, y, learning_rate=learning_rate)
