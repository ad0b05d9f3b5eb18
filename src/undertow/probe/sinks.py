"""Where a probe's records go besides its own list: a CSV file, TensorBoard, any function of a dictionary.

``undertow.Store(path).sink(name)`` is another: they become a trial of a store.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from undertow.probe.records import COLUMNS, Record

__all__ = ["Csv", "Log", "Sink", "TensorBoard", "metric_name"]


class Sink(Protocol):
    """Whatever takes the records of one moment, as soon as they are there.

    One that has ``training_end()`` is told when there will be no more. One that keeps them until then has
    ``resumed(records)``, and is given those from before a training went on in another process.
    """

    def __call__(self, records: Sequence[Record]) -> None: ...


def metric_name(record: Record) -> str:
    """A name that nests in folders, as TensorBoard and its like group them.

    >>> metric_name(Record("", 0, 0, "collaboration", "layer4:co_correlation", 0.5))
    'undertow/collaboration/layer4/co_correlation'
    """
    parts = ["undertow", record.measure, *record.key.split(":")]
    return "/".join(part for part in parts if part)


class Csv:
    """Rows ``trial, step, epoch, measure, key, value, error`` at the end of a file, each moment's at once.

    A file that is there already is gone on with.

    Args:
        path: of the file; folders on the way are made.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "records.csv"
    >>> Csv(path)([Record("", 7, 1, "accuracy", "", 0.5)])
    >>> path.read_text().split()
    ['trial,step,epoch,measure,key,value,error', ',7,1,accuracy,,0.5,']
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __call__(self, records: Sequence[Record]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = not self.path.exists() or self.path.stat().st_size == 0
        with self.path.open("a", newline="") as file:
            rows = csv.DictWriter(file, COLUMNS)
            if new:
                rows.writeheader()
            rows.writerows(record.row() for record in records)


class TensorBoard:
    """Scalars of a ``SummaryWriter``, by step; numerical errors beside them as ``…/error``.

    Args:
        writer: ``torch.utils.tensorboard.SummaryWriter(folder)``, or another with its ``add_scalar`` and ``flush``.

    >>> class Writer:
    ...     def add_scalar(self, name, value, step): print(name, value, step)
    ...     def flush(self): pass
    >>> TensorBoard(Writer())([Record("", 7, 1, "energy", "", 0.5, 0.001)])
    undertow/energy 0.5 7
    undertow/energy/error 0.001 7
    """

    def __init__(self, writer: Any) -> None:
        self.writer = writer

    def __call__(self, records: Sequence[Record]) -> None:
        for record in records:
            self.writer.add_scalar(metric_name(record), record.value, record.step)
            if record.error is not None:
                self.writer.add_scalar(f"{metric_name(record)}/error", record.error, record.step)
        self.writer.flush()


class Log:
    """One dictionary for each moment to a function: its metrics by name, with ``step`` and ``epoch``.

    ``Log(wandb.log)``; ``Log(lambda found: mlflow.log_metrics(found, step=found.pop("step")))``.

    Args:
        function: is called with each dictionary.

    >>> Log(print)([Record("", 7, 1, "accuracy", "", 0.5)])
    {'step': 7, 'epoch': 1, 'undertow/accuracy': 0.5}
    """

    def __init__(self, function: Callable[[dict[str, Any]], Any]) -> None:
        self.function = function

    def __call__(self, records: Sequence[Record]) -> None:
        moments: dict[tuple[int, int], dict[str, Any]] = {}
        for record in records:
            when = (record.step, record.epoch)
            found = moments.setdefault(when, {"step": record.step, "epoch": record.epoch})
            found[metric_name(record)] = record.value
        for found in moments.values():
            self.function(found)
