"""Curves over training in a line of text."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import polars

from undertow.measures.bounds import sign_of_bound

__all__ = ["Line", "main_curves", "sparkline"]

_BLOCKS = "▁▂▃▄▅▆▇█"
_MOST_MEASURES = 6
_MOST_KINDS = 5


def sparkline(values: Sequence[float], *, width: int = 32) -> str:
    """The values as a row of blocks, the smallest lowest; averaged where there are more than ``width``.

    A change of less than a hundredth of the values' size does not fill the height: it would be rounding writ large.

    >>> sparkline([0, 1, 2, 3, 4, 5, 6, 7])
    '▁▂▃▄▅▆▇█'
    >>> sparkline([5, 5, float("nan"), 5])
    '▁▁ ▁'
    """
    count = min(width, len(values))
    edges = [i * len(values) // max(count, 1) for i in range(count + 1)]
    means = [_mean(values[start:end]) for start, end in itertools.pairwise(edges)]
    known = [mean for mean in means if mean is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    span = max(high - low, 0.01 * max(abs(low), abs(high)))
    top = len(_BLOCKS) - 1
    return "".join(
        " " if mean is None else _BLOCKS[round(top * (mean - low) / span) if span else 0] for mean in means
    )


def _mean(values: Sequence[float]) -> float | None:
    finite = [value for value in values if math.isfinite(value)]
    return math.fsum(finite) / len(finite) if finite else None


@dataclass(frozen=True)
class Line:
    """A measure over training: its mean over ``trials`` trials of one ``kind`` at each moment.

    ``sign`` stands before every value, where they are bounds of unknown error.
    """

    measure: str
    key: str
    kind: str
    trials: int
    values: tuple[float, ...]
    sign: str


def main_curves(frame: polars.DataFrame, axes: Sequence[str]) -> list[Line]:
    """The first key of each measure over training, mean over seeds, from a frame of one part's records.

    Trials of different kinds are averaged apart: by all axes of the grid but the seed while that gives few lines,
    else by the first such axis that does, else not at all.
    """
    if frame.is_empty():
        return []
    whole = frame.filter(polars.col("status") == "finished")
    firsts = whole.unique("measure", keep="first", maintain_order=True).select("measure", "key")
    firsts = firsts.filter(polars.col("measure") != "steps")  # a count of tries, which can only rise
    by = _kinds(whole, [axis for axis in axes if axis != "seed" and axis in whole.columns])
    found = []
    for measure, key in firsts.head(_MOST_MEASURES).iter_rows():
        chosen = whole.filter((polars.col("measure") == measure) & (polars.col("key") == key))
        if chosen["step"].n_unique() < 2:
            continue  # measured once: no curve
        sign = sign_of_bound(measure, key) if chosen["error"].is_null().all() else ""
        groups = chosen.partition_by(by, maintain_order=True) if by else [chosen]
        for group in groups:
            kind = ", ".join(f"{axis} {_shown(group[axis][0])}" for axis in by)
            finite = group.filter(polars.col("value").is_finite())
            means = finite.group_by("step").agg(polars.col("value").mean()).sort("step")["value"]
            trials = group["trial"].n_unique()
            found.append(Line(measure, key, kind, trials, tuple(means.to_list()), sign))
    return found


def _kinds(frame: polars.DataFrame, axes: list[str]) -> list[str]:
    varying = [axis for axis in axes if not frame[axis].dtype.is_nested() and frame[axis].n_unique() > 1]
    if varying and frame.select(varying).n_unique() <= _MOST_KINDS:
        return varying
    return next(([axis] for axis in varying if frame[axis].n_unique() <= _MOST_KINDS), [])


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
