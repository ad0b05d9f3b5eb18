"""A probe: measures on a schedule inside anyone's training loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from undertow.errors import InputError
from undertow.probe.measures import Measure
from undertow.probe.records import COLUMNS, Record
from undertow.probe.schedule import Every, Schedule
from undertow.probe.untouched import untouched

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
    """Every measure's readings of the network at this moment, as records; the network is left untouched."""
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
    with untouched(net):
        for measure in measures:
            for key, value, error in measure(net, x, y):
                yield Record(trial, step, epoch, measure.name, key, value, error)


class Probe:
    """Attach measures to any training loop and collect records.

    Call ``step()`` after each optimiser step and ``epoch_end()`` after each epoch; the probe measures when
    ``every`` says so: ``"epoch"``, a number of steps, or ``"log"`` for geometrically spaced steps. Calling
    the probe itself measures at once. The network before training is measured on construction, unless
    ``at_start=False``.

    >>> import torch
    >>> from undertow.probe import Accuracy
    >>> net = nn.Linear(1, 1, bias=False)
    >>> _ = nn.init.ones_(net.weight)
    >>> probe = Probe(net, torch.tensor([[2.0], [-1.0]]), torch.tensor([1, 1]), measures=[Accuracy()])
    >>> probe.epoch_end()
    >>> [(record.epoch, record.measure, record.value) for record in probe.records]
    [(0, 'accuracy', 0.5), (1, 'accuracy', 0.5)]
    """

    def __init__(
        self,
        net: nn.Module,
        x: Tensor,
        y: Tensor | None = None,
        *,
        measures: Sequence[Measure],
        every: Every = "epoch",
        trial: str = "",
        at_start: bool = True,
    ) -> None:
        if not measures:
            raise InputError("a probe without measures records nothing: give one, e.g. StableRank().")
        self.net, self.x, self.y = net, x, y
        self.measures = tuple(measures)
        self.schedule = Schedule(every)
        self.trial = trial
        self.records: list[Record] = []
        self._step = self._epoch = 0
        if at_start:
            self()

    def __call__(self, *, step: int | None = None, epoch: int | None = None) -> list[Record]:
        """Measure now and return the new records; ``step`` and ``epoch``, where given, set the counters."""
        self._step = self._step if step is None else step
        self._epoch = self._epoch if epoch is None else epoch
        new = take(
            self.net,
            self.x,
            self.y,
            measures=self.measures,
            step=self._step,
            epoch=self._epoch,
            trial=self.trial,
        )
        self.records += new
        return new

    def step(self) -> None:
        """One optimiser step was made."""
        self._step += 1
        if self.schedule.every != "epoch" and self.schedule.due(self._step):
            self()

    def epoch_end(self) -> None:
        """One pass over the data is complete."""
        self._epoch += 1
        if self.schedule.every == "epoch":
            self()

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
