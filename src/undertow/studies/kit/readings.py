"""Tables of what was measured: a row per network, or per network and moment, from the records of a study.

The frames that claims and figures get are long: one row per number. Here they become what one writes about: curves of
one number over training, its values before and after, all numbers of a measure side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars

from undertow.core.errors import InputError

__all__ = [
    "after_fitting",
    "after_training",
    "at_levels",
    "before_and_after",
    "compared",
    "curves",
    "interpolated",
    "largest",
    "measured",
    "present",
    "side_by_side",
    "smallest",
    "split_key",
    "stacked",
]


def measured(
    frame: polars.DataFrame, measure: str, key: str | None = None, *, what: str = "", **axes: Any
) -> polars.DataFrame:
    """The records of a measure, of one key or of all, where ``axes`` have the values given.

    An ``InputError`` says that there are none, of ``what``; so it does where no record has such an axis.
    """
    absent = InputError(f"no record of {what or key or measure}")
    if not set(axes).issubset(frame.columns):
        raise absent
    chosen = polars.col("measure") == measure
    if key is not None:
        chosen &= polars.col("key") == key
    for axis, value in axes.items():
        chosen &= polars.col(axis) == value
    rows = frame.filter(chosen)
    if rows.is_empty():
        raise absent
    return rows


def curves(
    frame: polars.DataFrame, measure: str, key: str, *, by: Sequence[str], what: str = "", time: str = "epoch"
) -> polars.DataFrame:
    """One number over training: the columns ``by`` that name a network, the time, ``value``."""
    rows = measured(frame, measure, key, what=what)
    return rows.select(*by, time, "value").sort(*by, time)


def side_by_side(
    frame: polars.DataFrame, measure: str, *, by: Sequence[str], keys: Iterable[str] = (), what: str = ""
) -> polars.DataFrame:
    """All numbers of a measure: a row for each value of ``by``, a column for each key (of ``keys``, where named)."""
    rows = measured(frame, measure, what=what)
    wanted = list(keys)
    if wanted:
        rows = rows.filter(polars.col("key").is_in(wanted))
    return rows.pivot("key", index=list(by), values="value").sort(*by)


def after_training(frame: polars.DataFrame, measure: str, key: str | None = None) -> polars.DataFrame:
    """The records of a measure at the end of every trial."""
    rows = measured(frame, measure, key)
    return rows.filter(polars.col("step") == polars.col("step").max().over("trial"))


def after_fitting(
    frame: polars.DataFrame, measure: str, key: str | None = None, *, line: float
) -> polars.DataFrame:
    """The same; not known (NaN) of trials whose log₁₀ of the loss is above the line: that decides nothing."""
    loss = after_training(frame, "loss", "log10").select("trial", fits=polars.col("value") <= line)
    value = polars.when("fits").then("value").otherwise(float("nan"))
    return after_training(frame, measure, key).join(loss, on="trial").with_columns(value=value)


def before_and_after(
    table: polars.DataFrame, *, by: Sequence[str], time: str = "epoch", last: Any = None
) -> polars.DataFrame:
    """Of curves, ``start`` (at time 0), ``end`` and ``rise`` = end − start, a row for each of ``by``.

    The end is the ``last`` moment of all, or the one given: a network that did not get there has none (null).

    >>> table = polars.DataFrame({"seed": [0, 0, 1], "epoch": [0, 5, 0], "value": [0.5, 0.75, 0.5]})
    >>> before_and_after(table, by=["seed"]).rows()
    [(0, 0.5, 0.75, 0.25), (1, 0.5, None, None)]
    """
    value, at = polars.col("value"), polars.col(time)
    final = table[time].max() if last is None else last
    ends = table.group_by(by).agg(start=value.filter(at == 0).first(), end=value.filter(at == final).first())
    return ends.with_columns(rise=polars.col("end") - polars.col("start")).sort(by)


def interpolated(
    table: polars.DataFrame, at: Sequence[float], *, by: Sequence[str], x: str = "epoch", value: str = "value"
) -> polars.DataFrame:
    """Every curve's value at the places ``at`` of x, straight between its points: the columns by, x and value.

    NaN before its first point and after its last.

    >>> table = polars.DataFrame({"seed": [0, 0], "epoch": [0, 10], "value": [1.0, 3.0]})
    >>> interpolated(table, [5, 20], by=["seed"]).rows()
    [(0, 5.0, 2.0), (0, 20.0, nan)]
    """
    places = np.asarray(at, dtype=np.float64)
    found = []
    for names, own in table.sort(*by, x).group_by(by, maintain_order=True):
        values = np.interp(places, own[x].to_numpy(), own[value].to_numpy(), left=np.nan, right=np.nan)
        network = dict(zip(by, names, strict=True))
        found += [{**network, x: float(a), value: float(b)} for a, b in zip(places, values, strict=True)]
    return polars.DataFrame(found)


def at_levels(
    table: polars.DataFrame, levels: Sequence[float], *, of: str, by: Sequence[str], time: str = "step"
) -> polars.DataFrame:
    """Every network's numbers when column ``of`` first comes down to each level: networks at equal progress.

    The columns of ``table`` that are numbers, interpolated over ``of`` between the reading before and the one at which
    the level is reached; ``level`` says which. A network that does not reach a level has no row for it. For decades of
    a loss, ``of`` is its logarithm: ``levels=range(-1, -11, -1)``.

    >>> rows = {"seed": [0, 0, 0], "step": [0, 10, 20], "log10_loss": [0.0, -2.0, -1.0], "margin": [1.0, 3.0, 4.0]}
    >>> at_levels(polars.DataFrame(rows), [-1, -9], of="log10_loss", by=["seed"]).select("level", "margin").rows()
    [(-1.0, 2.0)]
    """
    numbers = [name for name in table.columns if name not in by and table[name].dtype.is_numeric()]
    found = []
    for names, own in table.sort(*by, time).group_by(by, maintain_order=True):
        progress = own[of].to_numpy()
        values = own.select(numbers).to_numpy()
        for level in levels:
            reached = np.flatnonzero(progress <= level)
            if not len(reached):
                continue
            here, before = int(reached[0]), max(int(reached[0]) - 1, 0)
            step = progress[here] - progress[before]
            share = (level - progress[before]) / step if step else 1.0
            row = values[before] + share * (values[here] - values[before])
            at = dict(zip(numbers, map(float, row), strict=True))
            found.append({**dict(zip(by, names, strict=True)), **at, "level": float(level)})
    if not found:
        raise InputError(f"no network came down to {of} = {max(levels):g}: train longer")
    return polars.DataFrame(found)


def compared(
    table: polars.DataFrame, axis: str, one: Any, other: Any, *, value: str, on: Sequence[str]
) -> polars.DataFrame:
    """Two arms side by side, matched ``on`` these columns: ``one``, ``other``, ``difference`` and ``ratio``.

    >>> table = polars.DataFrame({"seed": [0, 0], "rule": ["gd", "adam"], "radius": [2.0, 3.0]})
    >>> compared(table, "rule", "adam", "gd", value="radius", on=["seed"]).rows()
    [(0, 3.0, 2.0, 1.0, 1.5)]
    """
    arms = [
        table.filter(polars.col(axis) == arm).select(*on, polars.col(value).alias(name))
        for arm, name in ((one, "one"), (other, "other"))
    ]
    both = arms[0].join(arms[1], on=list(on)).sort(on)
    if both.is_empty():
        raise InputError(f"no pair of networks to compare: {axis} {one} beside {other}")
    first, second = polars.col("one"), polars.col("other")
    return both.with_columns(difference=first - second, ratio=first / second)


def largest(table: polars.DataFrame, *axes: str) -> polars.DataFrame:
    """The rows at the largest value of an axis, or of several."""
    return table.filter(polars.col(axis) == polars.col(axis).max() for axis in axes)


def smallest(table: polars.DataFrame, axis: str) -> polars.DataFrame:
    """The rows at the smallest value of an axis."""
    return table.filter(polars.col(axis) == polars.col(axis).min())


def split_key(table: polars.DataFrame, into: Sequence[str], *, at: str = ":") -> polars.DataFrame:
    """The key in two columns: "3:7" into neuron 3 and feature 7, "gap@0.5" into the side gap and the radius 0.5.

    >>> split_key(polars.DataFrame({"key": ["gap@0.5"]}), ["side", "r"], at="@").rows()
    [('gap', '0.5')]
    """
    return table.with_columns(polars.col("key").str.split_exact(at, 1).struct.rename_fields(into)).unnest(
        "key"
    )


def stacked(table: polars.DataFrame, names: Mapping[str, str], *, by: Sequence[str]) -> polars.DataFrame:
    """Columns below each other, for one figure of all: the columns by, ``curve`` (its name) and ``value``.

    >>> table = polars.DataFrame({"seed": [0], "main": [1.0], "rest": [0.5]})
    >>> stacked(table, {"main": "main term", "rest": "the rest"}, by=["seed"]).rows()
    [(0, 'main term', 1.0), (0, 'the rest', 0.5)]
    """
    each = [table.select(*by, curve=polars.lit(name), value=column) for column, name in names.items()]
    return polars.concat(each)


def present(table: polars.DataFrame, names: Sequence[str]) -> list[str]:
    """Those of the columns that the table has: the axes of a grid that other grids of the study do not have.

    >>> present(polars.DataFrame({"seed": [0], "value": [1.0]}), ["seed", "activation"])
    ['seed']
    """
    return [name for name in names if name in table.columns]
