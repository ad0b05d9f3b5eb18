"""Records as packed arrays: what the grid browser of a report draws its curves from.

A *series* is one measure and key of one trial over its moments. Trials of a grid are measured at the same moments,
so those are written once; values and error bounds are float32, one series after the other.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars
from numpy.typing import NDArray

__all__ = ["BUDGET", "Grid", "pack_grid", "points_that_fit"]

BUDGET = 600_000
"""How many numbers a report carries at most: about 5 MB with their error bounds."""


@dataclass(frozen=True)
class Grid:
    """The series of one grid: ``names`` are (measure, key), ``moments`` lists of (step, epoch).

    ``index`` has three whole numbers for each series: trial, name, moments. ``errors`` are NaN where a measure
    gives none, and empty where none does.
    """

    names: list[tuple[str, str]]
    moments: list[list[tuple[int, int]]]
    index: NDArray[np.int32]
    values: NDArray[np.float32]
    errors: NDArray[np.float32]

    def document(self) -> dict[str, Any]:
        """As plain data, the arrays in base64."""
        return {
            "names": self.names,
            "moments": self.moments,
            "index": _base64(self.index),
            "values": _base64(self.values),
            "errors": _base64(self.errors),
        }


def pack_grid(frame: polars.DataFrame, trials: Sequence[str], *, points: int | None = None) -> Grid:
    """The series of ``trials`` in a frame of records, each thinned out to at most ``points`` moments.

    >>> import polars
    >>> rows = {"trial": ["a", "a"], "measure": "loss", "key": "mean", "step": [0, 9], "epoch": [0, 1]}
    >>> grid = pack_grid(polars.DataFrame({**rows, "value": [2.0, 1.0], "error": [None, None]}), ["a"])
    >>> grid.names, grid.moments, grid.values.tolist()
    ([('loss', 'mean')], [[(0, 0), (9, 1)]], [2.0, 1.0])
    """
    order = polars.DataFrame({"trial": list(trials), "place": range(len(trials))})
    rows = (
        frame.join(order, on="trial")
        .group_by("place", "measure", "key", maintain_order=True)
        .agg("step", "epoch", "value", polars.col("error").cast(polars.Float64))
    )
    names: dict[tuple[str, str], int] = {}
    moments: dict[tuple[tuple[int, int], ...], int] = {}
    index, values, errors = [], [], []
    for place, measure, key, steps, epochs, value, error in rows.iter_rows():
        chosen = _thinned(len(steps), points)
        times = tuple((steps[i], epochs[i]) for i in chosen)
        index += [
            place,
            names.setdefault((measure, key), len(names)),
            moments.setdefault(times, len(moments)),
        ]
        values += [value[i] for i in chosen]
        errors += [math.nan if error[i] is None else error[i] for i in chosen]
    given = not all(map(math.isnan, errors))
    with np.errstate(over="ignore"):  # beyond float32 is infinite, and drawn as such
        return Grid(
            list(names),
            [list(times) for times in moments],
            np.array(index, dtype=np.int32),
            np.array(values, dtype=np.float32),
            np.array(errors if given else [], dtype=np.float32),
        )


def points_that_fit(lengths: Sequence[int], *, budget: int = BUDGET) -> int | None:
    """To how many points each series must be thinned out so that all fit; None when they do as they are.

    >>> points_that_fit([10, 10], budget=20), points_that_fit([10, 2], budget=7)
    (None, 5)
    """
    if sum(lengths) <= budget:
        return None
    low, high = 2, max(lengths)
    while high - low > 1:
        middle = (low + high) // 2
        fits = sum(min(length, middle) for length in lengths) <= budget
        low, high = (middle, high) if fits else (low, middle)
    return low


def _thinned(length: int, points: int | None) -> list[int]:
    """Places spread evenly over a series, the first and the last among them."""
    if points is None or length <= points:
        return list(range(length))
    return [round(i * (length - 1) / (points - 1)) for i in range(points)]


def _base64(array: NDArray[Any]) -> str:
    little = array.astype(array.dtype.newbyteorder("<"))
    return base64.b64encode(little.tobytes()).decode()
