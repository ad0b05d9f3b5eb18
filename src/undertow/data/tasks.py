"""Binary tasks made from data sets with more classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from torch import Tensor

from undertow.core.errors import InputError, nearest
from undertow.data.dataset import Dataset

__all__ = ["TASKS", "TaskName", "halves", "parity", "relabel"]


def parity(data: Dataset) -> Dataset:
    """Even classes become 0, odd classes 1; the labels as they were stay in ``details["label"]``.

    >>> import torch
    >>> digits = Dataset.of(torch.zeros(4, 1), torch.tensor([0, 3, 8, 9]), name="d", classes=10)
    >>> parity(digits).y.tolist()
    [0, 1, 0, 1]
    """
    return _binary(data, data.y % 2, "parity")


def halves(data: Dataset) -> Dataset:
    """The first half of the classes becomes 0, the second half 1, as digits 0–4 against 5–9.

    >>> import torch
    >>> digits = Dataset.of(torch.zeros(4, 1), torch.tensor([0, 4, 5, 9]), name="d", classes=10)
    >>> halves(digits).y.tolist()
    [0, 0, 1, 1]
    """
    if data.classes % 2:
        raise InputError(f"{data.name} has {data.classes} classes, which have no two halves; use parity.")
    return _binary(data, (data.y >= data.classes // 2).long(), "halves")


TaskName = Literal["parity", "halves", "low-high", "first-last"]

#: Names for configurations; "low-high" (digits) and "first-last" (CIFAR-10) are what papers call ``halves``.
TASKS: dict[str, Callable[[Dataset], Dataset]] = {
    "parity": parity,
    "halves": halves,
    "low-high": halves,
    "first-last": halves,
}


def relabel(data: Dataset, task: str | None) -> Dataset:
    """The task called ``task`` on ``data``; None leaves the labels as they are."""
    if task is None:
        return data
    if task not in TASKS:
        raise InputError(f"There is no task {task!r}; {nearest(task, TASKS)}")
    return TASKS[task](data)


def _binary(data: Dataset, y: Tensor, task: str) -> Dataset:
    if data.classes < 3:
        raise InputError(f"{data.name} has {data.classes} classes already; a task needs at least three.")
    return data.with_content(
        y=y,
        name=f"{data.name}/{task}",
        classes=2,
        details={**data.details, "label": data.y},
        aligned=data.aligned | {"label"},
    )
