"""A probe: measures on a schedule inside anyone's training loop."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from undertow.core.errors import InputError, UndertowError
from undertow.core.outputs import OutputChoice
from undertow.measures.reading import Measure, TrackingMeasure
from undertow.probe.budget import Budget
from undertow.probe.checks import check_measures, check_points, check_sinks
from undertow.probe.costs import Costs, ReadingCost
from undertow.probe.faults import Faults, OnError
from undertow.probe.measured_network import MeasuredNetwork, in_dtype
from undertow.probe.prepared_measures import begun, points_of, with_standard_error
from undertow.probe.preserve_state import preserve_state
from undertow.probe.ranks import gathered, measures_here, ranks
from undertow.probe.records import Record
from undertow.probe.schedule import Every, Schedule
from undertow.probe.sinks import Sink
from undertow.probe.taking import take
from undertow.probe.tracking import Tracked
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
        self.measured = MeasuredNetwork(net, x, y, dtype=dtype, output=output, extras=extras)
        self.net, self.x, self.y = self.measured.net, self.measured.x, y
        self.sinks = tuple(sinks)
        self.spread = spread and ranks()[1] > 1
        pairs = [each if isinstance(each, tuple) else (each, every) for each in measures]
        if training is not None:
            training = (in_dtype(self.measured.dtype, training[0]), *training[1:])
        start = self.measured.seen()
        self._counts = [points_of(measure, len(self.x)) for measure, _ in pairs]
        if budget is not None:
            pairs = [(with_standard_error(measure), own) for measure, own in pairs]
        self.measures = tuple(begun(measure, start, training) for measure, _ in pairs)
        self.schedules = tuple(Schedule(own) for _, own in pairs)
        mine = [index for index in range(len(pairs)) if measures_here(index, spread=self.spread)]
        names = [self._price(index)[0] for index in mine]
        self.budget = None if budget is None else Budget(budget, measures=names)
        for schedule in self.schedules:
            if schedule.level is not None:
                raise InputError(
                    f"every = {schedule.every!r} goes by the training loss, which a probe is not told: call the probe "
                    "itself, probe(step=…), whenever the loss has passed a power of ten."
                )
        self._costs = Costs([measure.name for measure in self.measures])
        self._faults = Faults(on_error)
        self.trial = trial
        self.records: list[Record] = []
        self._step = self._epoch = 0
        self._rate = math.nan if training is None else training[2]
        self._measured = [-1] * len(pairs)  # the step at which each was last taken
        self._diverged = False
        self._observing = [each for each in self.measures if isinstance(each, Tracked) and each.observes]
        self._next = self._next_due()
        if at_start:
            self._take(index for index, schedule in enumerate(self.schedules) if schedule.due(0))
        self._faults.training = True

    def __call__(self, *, step: int | None = None, epoch: int | None = None) -> list[Record]:
        """Measure now and return the new records; ``step`` and ``epoch``, where given, set the counters."""
        self._step = self._step if step is None else step
        self._next = self._next_due()
        self._epoch = self._epoch if epoch is None else epoch
        return self._take(range(len(self.measures)))

    def step(self, *, rate: float | None = None) -> list[Record]:
        """One optimiser step was made; ``rate`` is its learning rate, where that is not the one before it."""
        self._step += 1
        self._rate = self._rate if rate is None else rate
        if self._observing:
            seen = self.measured.seen()
            for measure in self._observing:
                with preserve_state(seen):
                    measure.tracker.observe(seen, StepTaken(self._rate))
        if self._step < self._next:
            return []  # most steps: this is all that they cost
        self._next = self._next_due()
        return self._take(
            index
            for index, schedule in enumerate(self.schedules)
            if schedule.every != "epoch" and schedule.due(self._step)
        )

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
            if hasattr(sink, "training_end"):
                sink.training_end()
        return found

    def _take(self, due: Iterable[int], *, last: bool = False) -> list[Record]:
        """The readings of the measures that are due, in the order in which they were given."""
        due = list(due)
        # What a budget has left for the end each rank knows of its own measures alone, and all have to gather.
        if not due and not (last and self.spread):
            return []  # between two measurements a step costs nothing, however large the network
        if self.budget is not None:
            self.budget.steps = self._step
        here = [index for index in due if measures_here(index, spread=self.spread)]
        found = self._readings(here, last=last)
        self._costs.tell()
        unpaid = [self.measures[index].name for index in here if last and self._measured[index] != self._step]
        if unpaid and not self._diverged:
            _tell_unpaid(unpaid)
        for index in set(due) - set(here):
            self._measured[index] = self._step
        new = gathered(found) if self.spread else [record for _, record in found]
        self.records += new
        for sink in self.sinks if new and ranks()[0] == 0 else ():
            sink(new)
        return new

    def _readings(self, due: Sequence[int], *, last: bool) -> list[tuple[int, Record]]:
        """Records of the measures that are due, each with its measure's index; none of a network that has diverged."""
        affordable = [index for index in due if self._affordable(index, last=last)]
        if not affordable:
            return []
        seen = self.measured.seen()
        if not all(bool(torch.isfinite(parameter).all()) for parameter in seen.parameters()):
            if not self._diverged:
                warnings.warn(
                    f"the network has weights that are NaN or infinite, at step {self._step}: the probe measures "
                    "nothing while it has.",
                    UserWarning,
                    stacklevel=4,
                )
            self._diverged = True
            return []
        found = []
        for index in affordable:
            with self._faults.told(self.measures[index].name, self._step):
                found += [(index, record) for record in self._read(seen, index, last=last)]
        return found

    def _price(self, index: int) -> tuple[str, int, int | None]:
        """A measure's name in the budget, its points, and how many of them it needs; None where it takes fewer."""
        count, measure = self._counts[index], self.measures[index]
        # One with a memory needs the same points every time.
        return f"{index}:{measure.name}", count, count if isinstance(measure, Tracked) else None

    def _affordable(self, index: int, *, last: bool) -> bool:
        if self.budget is None:
            return True
        name, count, fewest = self._price(index)
        if not last and fewest is None and self.budget.pilot(name, count) is not None:
            return True
        return self.budget.points(name, count, fewest=fewest, last=last) is not None

    def _read(self, seen: nn.Module, index: int, *, last: bool) -> list[Record]:
        """A measure's records; none where its budget allows no more than learning its price."""
        if self.budget is None:
            self._measured[index] = self._step
            with self._costs.timing(index, self._counts[index]):
                return self._taken(seen, index, self._counts[index])
        name, count, fewest = self._price(index)
        pilot = None if last or fewest is not None else self.budget.pilot(name, count)
        if pilot is not None:
            # Where so few points cannot be measured, a reading on more of them tells whether others can.
            with self.budget.spending(name, pilot), suppress(UndertowError):
                self._taken(seen, index, pilot)
        points = self.budget.points(name, count, fewest=fewest, last=last)
        if points is None:
            return []
        self._measured[index] = self._step
        with self.budget.spending(name, points), self._costs.timing(index, points):
            found = self._taken(seen, index, points)
        key = f"{self.measures[index].name}:points"
        return [*found, Record(self.trial, self._step, self._epoch, "budget", key, float(points))]

    def _taken(self, seen: nn.Module, index: int, points: int) -> list[Record]:
        net, x, y = self.measured.now(seen, points, of=self._counts[index])
        when = {"step": self._step, "epoch": self._epoch, "trial": self.trial}
        return take(net, x, y, measures=[self.measures[index]], **when)  # type: ignore[arg-type]

    def frame(self) -> polars.DataFrame:
        """The records as a polars frame."""
        from undertow.probe.record_frame import frame_of_records  # polars, which nobody needs to measure

        return frame_of_records(self.records)


def _tell_unpaid(names: Sequence[str]) -> None:
    warnings.warn(
        f"the training was too short to pay for {', '.join(names)} at its end: raise budget, or measure afterwards "
        "with undertow.probe.take, which has none.",
        UserWarning,
        stacklevel=4,
    )
