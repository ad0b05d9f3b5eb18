"""A probe: measures on a schedule inside anyone's training loop."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from undertow.core.errors import InputError
from undertow.core.outputs import OutputChoice
from undertow.measures.reading import Measure, TrackingMeasure
from undertow.probe.affording import Affording, tell_unpaid
from undertow.probe.budget import Budget
from undertow.probe.checks import check_measures, check_points, check_sinks, check_training
from undertow.probe.costs import Costs, ReadingCost
from undertow.probe.faults import Faults, OnError
from undertow.probe.measured_network import MeasuredNetwork, in_dtype
from undertow.probe.observing import Observing
from undertow.probe.prepared_measures import begun, points_of, with_standard_error
from undertow.probe.probe_state import check_state, memory_of, records_of, restored, rows_of, weights_of
from undertow.probe.ranks import gathered, measures_here, ranks
from undertow.probe.records import Record
from undertow.probe.schedule import Every, Schedule
from undertow.probe.sinks import Sink
from undertow.probe.taking import take
from undertow.probe.tracking import remembers
from undertow.training.taken import StepTaken

if TYPE_CHECKING:
    import polars

__all__ = ["Probe"]


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
    measured as a copy in ``dtype``, float32 by default. Where several processes train together, rank 0 measures.

    ``step()``, ``epoch_end()`` and ``training_end()`` return the records that are new. For the usual trainers there are
    adapters that call them (``undertow.probe.adapters``).

    Args:
        net: the network in training, compiled or wrapped in DistributedDataParallel as it may be.
        x: the points that it is measured on, (N, …), or token ids.
        y: their labels, where a measure wants them.
        measures: what is measured, each with a schedule of its own or without.
        every: the schedule of the others.
        trial: written into every record.
        at_start: whether the network is measured before training.
        training: (x, y, learning rate), for measures that follow the training.
        dtype: the precision to measure in, on a copy.
        output: which of the network's outputs is meant: a name, a place, a function; by default the obvious one.
        extras: what the network takes beside x, by name, a row for each point.
        sinks: where records go besides ``records``: ``undertow.probe.sinks``.
        budget: at most this share of training time is spent on measuring, from the start: nothing is measured before
            training has paid for it. Fewer points are then measured, or less often; records of a measure "budget" say
            how many points each reading is on, and where the measure knows it a key "standard_error" what that means.
        spread: where several processes train together, whether they take the measures in turn, each on its own points,
            and all have all records; every process has to tell its probe of the same steps.
        on_error: "warn" where a measure that fails after the first step is to be a warning, "raise" where it is to end
            the training. What cannot be measured before training is refused at once.

    >>> import torch
    >>> from undertow.probe import Accuracy, StableRank
    >>> net = nn.Linear(1, 1, bias=False)
    >>> _ = nn.init.ones_(net.weight)
    >>> x, y = torch.tensor([[2.0], [-1.0]]), torch.tensor([1, 1])
    >>> probe = Probe(net, x, y, measures=[Accuracy(), (StableRank(), "end")])
    >>> _ = probe.epoch_end()
    >>> [(record.epoch, record.measure, record.value) for record in probe.records]
    [(0, 'accuracy', 0.5), (1, 'accuracy', 0.5)]
    >>> [record.measure for record in probe.training_end()]
    ['stable-rank']
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
        output: OutputChoice = None,
        extras: Mapping[str, Any] | None = None,
        sinks: Sequence[Sink] = (),
        budget: float | None = None,
        spread: bool = False,
        on_error: OnError = "warn",
    ) -> None:
        check_points(net, x, y)
        check_measures(measures)
        check_sinks(sinks)
        check_training(training)
        self.measured = MeasuredNetwork(net, x, y, dtype=dtype, output=output, extras=extras)
        self.net, self.x, self.y = self.measured.net, self.measured.x, y
        self.sinks = tuple(sinks)
        self.spread = spread and ranks()[1] > 1
        pairs = [each if isinstance(each, tuple) else (each, every) for each in measures]
        if training is not None:
            training = (in_dtype(self.measured.dtype, training[0]), *training[1:])
        if budget is not None:
            pairs = [(with_standard_error(measure), own) for measure, own in pairs]
        self._given, self._training = [measure for measure, _ in pairs], training
        start = self.measured.seen()
        # A training that goes on in another process needs its trackers to have begun at the same start.
        self._start = weights_of(start) if any(map(remembers, self._given)) else {}
        self.measures = tuple(begun(measure, start, training) for measure in self._given)
        self.schedules = tuple(Schedule(own) for _, own in pairs)
        for schedule in self.schedules:
            if schedule.level is not None:
                raise InputError(
                    f"every = {schedule.every!r} goes by the training loss, which a probe is not told: call the probe "
                    "itself, probe(step=…), whenever the loss has passed a power of ten."
                )
        self._counts = [points_of(measure, len(self.x)) for measure in self._given]
        self._mine = [index for index in range(len(pairs)) if measures_here(index, spread=self.spread)]
        self._affording = Affording(self.measures, self._counts)
        names = [self._affording.names[index] for index in self._mine]
        self.budget = None if budget is None else Budget(budget, measures=names)
        self._costs = Costs([measure.name for measure in self.measures])
        self._faults = Faults(on_error)
        self._observing = Observing(self.measures, self._mine, self._faults)
        self.trial = trial
        self.records: list[Record] = []
        self._step = self._epoch = 0
        self._rate = math.nan if training is None else training[2]
        self._measured = [-1] * len(pairs)  # the step at which each was last taken
        self._next = self._next_due()
        if at_start:
            self._take(index for index, schedule in enumerate(self.schedules) if schedule.due(0))
        self._faults.training = True

    def __call__(self, *, step: int | None = None, epoch: int | None = None) -> list[Record]:
        """Measure now and return the new records; ``step`` and ``epoch``, where given, set the counters."""
        if step is not None:
            self._observing.miss(self._step + 1, step)
        self._step = self._step if step is None else step
        self._next = self._next_due()
        self._epoch = self._epoch if epoch is None else epoch
        return self._take(range(len(self.measures)))

    def step(self, *, rate: float | None = None, made: int = 1) -> list[Record]:
        """One optimiser step was made, or several; ``rate`` is the learning rate, where that is not the one before."""
        before, self._step = self._step, self._step + made
        self._rate = self._rate if rate is None else rate
        if self._observing.following:
            self._observing.miss(before + 1, self._step - 1)
            self._observing.show(self.measured, StepTaken(self._rate), self._step)
        if self._step < self._next:
            return []  # most steps: this is all that they cost
        self._next = self._next_due()
        return self._take(
            index
            for index, schedule in enumerate(self.schedules)
            if schedule.every != "epoch" and schedule.next(before) <= self._step
        )

    def __repr__(self) -> str:
        names, count = ", ".join(measure.name for measure in self.measures), len(self.records)
        return f"Probe of {names} at step {self._step}, epoch {self._epoch}: {count} records"

    @property
    def costs(self) -> Mapping[str, ReadingCost]:
        """What every measure's last reading took: ``costs["energy"].seconds``, and on how many ``points`` it was."""
        return self._costs.last

    def _next_due(self) -> float:
        """The first step after this one at which something is due.

        What is due at the end of an epoch waits for ``epoch_end``, which also counts it.
        """
        steps = [schedule.next(self._step) for schedule in self.schedules if schedule.every != "epoch"]
        return min(steps, default=math.inf)

    def epoch_end(self) -> list[Record]:
        """One pass over the data is complete."""
        self._epoch += 1
        return self._take(index for index, schedule in enumerate(self.schedules) if schedule.every == "epoch")

    def training_end(self) -> list[Record]:
        """Training is over: every measure that has not been taken at this step is taken."""
        left = (index for index, step in enumerate(self._measured) if step != self._step)
        found = self._take(left, last=True)
        for sink in self.sinks if ranks()[0] == 0 else ():
            with self._faults.told(f"{type(sink).__name__} could not end"):
                getattr(sink, "training_end", lambda: None)()
        return found

    def _take(self, due: Iterable[int], *, last: bool = False) -> list[Record]:
        """The readings of the measures that are due, in the order in which they were given."""
        due = list(due)
        # What a budget has left for the end each rank knows of its own measures alone, and all have to gather.
        if not due and not (last and self.spread):
            return []  # between two measurements a step costs nothing, however large the network
        if self.budget is not None:
            self.budget.steps = self._step
        here = [index for index in due if index in self._mine and index not in self._observing.missed]
        found = self._readings(here, last=last)
        self._costs.tell()
        if last and self.budget is not None and not self.measured.diverged:
            tell_unpaid([self.measures[index].name for index in here if self._measured[index] != self._step])
        for index in set(due) - set(here):
            self._measured[index] = self._step
        new = gathered(found) if self.spread else [record for _, record in found]
        self.records += new
        for sink in self.sinks if new and ranks()[0] == 0 else ():
            failing = f"{type(sink).__name__} could not take the records of step {self._step}"
            with self._faults.told(failing, once=id(sink)):
                sink(new)
        return new

    def _readings(self, due: Sequence[int], *, last: bool) -> list[tuple[int, Record]]:
        """Records of the measures that are due, each with its measure's index; none of a network that has diverged."""
        affordable = [index for index in due if self._affording.possible(self.budget, index, last=last)]
        found: list[tuple[int, Record]] = []
        if not affordable:
            return found
        with self._faults.told(f"nothing could be measured at step {self._step}", once="copy"):
            seen = self.measured.seen()
            if self.measured.finite(seen, self._step):
                for index in affordable:
                    name = self.measures[index].name
                    with self._faults.told(f"{name} could not be measured at step {self._step}", once=name):
                        found += [(index, record) for record in self._read(seen, index, last=last)]
        return found

    def _read(self, seen: nn.Module, index: int, *, last: bool) -> list[Record]:
        """A measure's records; none where its budget allows no more than learning its price."""

        def taken(points: int) -> list[Record]:
            self._measured[index] = self._step
            with self._costs.timing(index, points):
                found = self._taken(seen, index, points)
            key = f"{self.measures[index].name}:points"
            told = Record(self.trial, self._step, self._epoch, "budget", key, float(points))
            return found if self.budget is None else [*found, told]

        pilot = partial(self._taken, seen, index)
        return self._affording.paid(self.budget, index, taken, pilot=pilot, last=last) or []

    def _taken(self, seen: nn.Module, index: int, points: int) -> list[Record]:
        net, x, y = self.measured.now(seen, points, of=self._counts[index])
        when = {"step": self._step, "epoch": self._epoch, "trial": self.trial}
        return take(net, x, y, measures=[self.measures[index]], **when)  # type: ignore[arg-type]

    def state_dict(self) -> dict[str, Any]:
        """What the probe remembers, for ``torch.save`` beside a checkpoint: counters, records, what trackers keep."""
        return {
            "step": self._step,
            "epoch": self._epoch,
            "rate": self._rate,
            "measures": [measure.name for measure in self.measures],
            "measured": list(self._measured),
            "missed": self._observing.not_to_save,
            "records": rows_of(self.records),
            "start": {name: tensor.clone() for name, tensor in self._start.items()},
            "memory": memory_of(self.measures),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``state_dict()`` gave: in a training that goes on, of a probe with ``at_start=False``."""
        check_state(state, self.measures)
        self.measures = restored(self._given, self.measured.seen(), self._training, state)
        self._observing = Observing(self.measures, self._mine, self._faults, missed=state.get("missed", ()))
        self._start = dict(state.get("start", self._start))
        self._step, self._epoch = state["step"], state["epoch"]
        self._rate = state.get("rate", self._rate)
        self._measured = list(state.get("measured", self._measured))
        self.records[:] = records_of(state.get("records", ()))
        for sink in self.sinks:
            getattr(sink, "resumed", lambda _: None)(self.records)
        self._next = self._next_due()

    def frame(self) -> polars.DataFrame:
        """The records as a polars frame."""
        from undertow.probe.record_frame import frame_of_records  # polars, which nobody needs to measure

        return frame_of_records(self.records)
