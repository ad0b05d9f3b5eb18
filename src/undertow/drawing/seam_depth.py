"""Pictures of seams by depth: one moment, and a training."""

from __future__ import annotations

from typing import Any

import altair
import polars

from undertow.core.errors import InputError
from undertow.drawing.inline_rows import inline_rows
from undertow.drawing.palette import KINDS
from undertow.drawing.titles import small_title

__all__ = ["profile_by_depth", "profile_over_training"]


def profile_by_depth(frame: polars.DataFrame, words: str = "") -> altair.TopLevelMixin:
    """ϱ over depth with its error, and below it both energies; a row of ``frame`` for each seam."""
    order = frame["seam"].to_list()
    rho, share, low = polars.col("co_correlation"), polars.col("standard_error"), polars.col("error")
    rows = _drawable(
        frame.with_columns(
            low=(rho - share.fill_nan(0) - low).clip(0, 1), high=(rho + share.fill_nan(0) + low).clip(0, 1)
        )
    )
    width = max(240, 34 * len(order))
    across: Any = altair.X("seam:N", sort=order, title=None, axis=altair.Axis(labelAngle=-40))
    base = altair.Chart(inline_rows(rows)).properties(width=width, height=150)
    told = [altair.Tooltip("seam:N")] + [
        altair.Tooltip(f"{name}:Q", format=".4g")
        for name in ("co_correlation", "error", "standard_error", "energy_head", "energy_tail")
    ]
    scale = altair.Scale(domain=[0, 1])
    bars = base.mark_rule(color=KINDS[0]).encode(
        across, altair.Y("low:Q", title="ϱ", scale=scale), altair.Y2("high:Q")
    )
    line = base.mark_line(point=True, color=KINDS[0]).encode(
        across, altair.Y("co_correlation:Q", title="ϱ", scale=scale), tooltip=told
    )
    energies = (
        base.transform_fold(["energy_head", "energy_tail"], as_=["part", "energy"])
        .transform_calculate(part="datum.part == 'energy_head' ? 'S(head)' : 'S(tail)'")
        .mark_line(point=True)
        .encode(
            across,
            altair.Y("energy:Q", title="energy", scale=altair.Scale(type="log")),
            altair.Color("part:N", title=None, scale=altair.Scale(range=[KINDS[1], KINDS[2]])),
            tooltip=told,
        )
    )
    title = (
        f"Co-correlation ϱ and energies by depth; {words}"
        if words
        else "Co-correlation ϱ and energies by depth"
    )
    drawn: altair.TopLevelMixin = altair.vconcat(altair.layer(bars, line), energies).properties(
        title=small_title(title)
    )
    return drawn


def profile_over_training(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """ϱ by depth and epoch, from records of the measure "seam-profile": a cell for each."""
    own = frame.filter(
        (polars.col("measure") == "seam-profile") & polars.col("key").str.ends_with(":co_correlation")
    )
    if own.is_empty():
        raise InputError('there is no record of "seam-profile": give the probe measures=[SeamProfile()].')
    own = own.with_columns(seam=polars.col("key").str.strip_suffix(":co_correlation"))
    order = own["seam"].unique(maintain_order=True).to_list()
    steps = own["epoch"].n_unique() < own["step"].n_unique()
    across = "step" if steps else "epoch"
    rows = _drawable(own.select(across, "seam", "value", "error"))
    chart = (
        altair.Chart(inline_rows(rows))
        .mark_rect()
        .encode(
            altair.X(f"{across}:O", title=across, axis=altair.Axis(labelAngle=0, labelOverlap=True)),
            altair.Y("seam:N", sort=order, title=None),
            altair.Color("value:Q", title="ϱ", scale=altair.Scale(scheme="viridis", domain=[0, 1])),
            tooltip=[f"{across}:O", "seam:N", altair.Tooltip("value:Q", title="ϱ", format=".4g"), "error:Q"],
        )
        .properties(
            width=max(240, min(640, 18 * own[across].n_unique())),
            height=max(60, 22 * len(order)),
            title=small_title("Co-correlation ϱ by depth over training"),
        )
    )
    drawn: altair.TopLevelMixin = chart
    return drawn


def _drawable(frame: polars.DataFrame) -> list[dict[str, Any]]:
    """The rows without what a page's numbers do not have: infinite errors, and those of a single sample."""
    floats = polars.col(polars.Float64)
    return frame.with_columns(polars.when(floats.is_finite()).then(floats)).to_dicts()
