"""Pictures of seams by depth: one moment, and a training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair
import polars

from undertow.core.errors import InputError
from undertow.drawing.inline_rows import inline_rows
from undertow.drawing.palette import KINDS
from undertow.drawing.panels import legend_of_strokes
from undertow.drawing.short_names import short_names
from undertow.drawing.titles import small_title

__all__ = ["profile_by_depth", "profile_over_training"]

_WIDTH, _HEIGHT = 720, 190  # of a panel, in points; a picture of many seams is wider
_STEP = 14  # points from seam to seam, at least: names upright beside each other
_LETTER = 6  # points that a letter of a label takes
_NAME = 30  # letters of a name; a table has the whole of it


def profile_by_depth(frame: polars.DataFrame, words: str = "") -> altair.TopLevelMixin:
    """ϱ over depth with its error, and below it both energies; a row of ``frame`` for each seam."""
    frame = frame.with_columns(label=polars.Series(short_names(frame["seam"].to_list(), _NAME)))
    order = frame["label"].to_list()
    rho, share, low = polars.col("co_correlation"), polars.col("standard_error"), polars.col("error")
    rows = _drawable(
        frame.with_columns(
            low=(rho - share.fill_nan(0) - low).clip(0, 1), high=(rho + share.fill_nan(0) + low).clip(0, 1)
        )
    )
    width = max(_WIDTH, _STEP * len(order))
    base = altair.Chart(inline_rows(rows)).properties(width=width, height=_HEIGHT)
    told = [altair.Tooltip("seam:N")] + [
        altair.Tooltip(f"{name}:Q", format=".4g")
        for name in ("co_correlation", "error", "standard_error", "energy_head", "energy_tail")
    ]
    scale = altair.Scale(domain=[0, 1])
    unnamed = _across(order, altair.Axis(labels=False, title=None))
    bars = base.mark_rule(color=KINDS[0]).encode(
        unnamed, altair.Y("low:Q", title="ϱ", scale=scale), altair.Y2("high:Q")
    )
    line = base.mark_line(point={"color": KINDS[0]}, color=KINDS[0]).encode(
        unnamed, altair.Y("co_correlation:Q", title="ϱ", scale=scale), tooltip=told
    )
    energies = (
        base.transform_fold(["energy_head", "energy_tail"], as_=["part", "energy"])
        .transform_calculate(part="datum.part == 'energy_head' ? 'S(head)' : 'S(tail)'")
        .mark_line(point=True)
        .encode(
            _across(order, _named(order, width)),
            _decades([row[part] for row in rows for part in ("energy_head", "energy_tail")]),
            altair.Color(
                "part:N",
                title=None,
                scale=altair.Scale(range=[KINDS[1], KINDS[2]]),
                # Beside the panels it would take a fifth of the width, and stand at the upper one.
                legend=legend_of_strokes(orient="top"),
            ),
            tooltip=told,
        )
    )
    title = "Co-correlation ϱ and energies by depth" + (f"; {words}" if words else "")
    drawn: altair.TopLevelMixin = (
        altair.vconcat(altair.layer(bars, line), energies, spacing=8)
        .resolve_scale(color="independent")
        .properties(title=small_title(title))
    )
    return drawn


def _across(order: Sequence[str], axis: altair.Axis) -> Any:
    return altair.X("label:N", sort=list(order), axis=axis)


def _named(order: Sequence[str], width: int) -> altair.Axis:
    """Names below the points: level where there is room, upright where seams are close, else slanted."""
    step, longest = width / len(order), _LETTER * max(map(len, order))
    angle = 0 if longest < step else -40 if step > 2 * _STEP else -90
    return altair.Axis(title="seam, from input to output", labelAngle=angle, labelLimit=0, labelOverlap=False)


def _decades(energies: Sequence[float | None]) -> altair.Y:
    """The logarithmic axis of energies, with three to eight lines: at powers of ten, and between them if need be."""
    logs = [math.log10(energy) for energy in energies if energy is not None] or [0.0]
    ends = [10 ** (min(logs) - 0.05), 10 ** (max(logs) + 0.05)]
    powers = range(math.floor(min(logs)) - 1, math.ceil(max(logs)) + 1)
    ticks: list[float] = []
    for digits in (
        "1",
        "1 2 5",
        "1 2 3 4 5 6 7 8 9",
        "1 1.2 1.4 1.7 2 2.5 3 3.5 4 4.5 5 5.5 6 6.5 7 7.5 8 8.5 9 9.5",
    ):
        every = [float(f"{digit}e{power}") for power in powers for digit in digits.split()]
        ticks = [tick for tick in every if ends[0] <= tick <= ends[1]]
        if len(ticks) > 2:
            break
    return altair.Y(
        "energy:Q",
        title="energy",
        scale=altair.Scale(type="log", domain=ends, nice=False),
        axis=altair.Axis(values=ticks[:: -(-len(ticks) // 8) or 1], format="~g"),
    )


def profile_over_training(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """ϱ by depth and epoch, from records of the measure "seam-profile": a cell for each."""
    own = frame.filter(
        (polars.col("measure") == "seam-profile") & polars.col("key").str.ends_with(":co_correlation")
    )
    if own.is_empty():
        raise InputError('there is no record of "seam-profile": give the probe measures=[SeamProfile()].')
    own = own.with_columns(seam=polars.col("key").str.strip_suffix(":co_correlation"))
    names = own["seam"].unique(maintain_order=True).to_list()
    short = dict(zip(names, short_names(names, _NAME), strict=True))
    own = own.with_columns(label=polars.col("seam").replace_strict(short, return_dtype=polars.String))
    steps = own["epoch"].n_unique() < own["step"].n_unique()
    across = "step" if steps else "epoch"
    rows = _drawable(own.select(across, "seam", "label", "value", "error"))
    chart = (
        altair.Chart(inline_rows(rows))
        .mark_rect()
        .encode(
            altair.X(f"{across}:O", title=across, axis=altair.Axis(labelAngle=0, labelOverlap=True)),
            altair.Y("label:N", sort=list(short.values()), title=None, axis=altair.Axis(labelLimit=0)),
            altair.Color("value:Q", title="ϱ", scale=altair.Scale(scheme="viridis", domain=[0, 1])),
            tooltip=[f"{across}:O", "seam:N", altair.Tooltip("value:Q", title="ϱ", format=".4g"), "error:Q"],
        )
        .properties(
            width=max(240, min(640, 18 * own[across].n_unique())),
            height=max(60, 22 * len(names)),
            title=small_title("Co-correlation ϱ by depth over training"),
        )
    )
    drawn: altair.TopLevelMixin = chart
    return drawn


def _drawable(frame: polars.DataFrame) -> list[dict[str, Any]]:
    """The rows without what a page's numbers do not have: infinite errors, and those of a single sample.

    An energy of 0, of a network that has died, has no place on a logarithmic axis.
    """
    floats = polars.col(polars.Float64)
    frame = frame.with_columns(polars.when(floats.is_finite()).then(floats))
    energies = polars.col("^energy_.*$")
    return frame.with_columns(polars.when(energies > 0).then(energies)).to_dicts()
