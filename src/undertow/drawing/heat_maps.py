"""Heat maps of a grid: one cell per pair of settings, with its number written in it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import altair

from undertow.core.errors import InputError
from undertow.drawing.titles import mean_of_seeds, small_title

if TYPE_CHECKING:
    import polars

__all__ = ["heat_map"]


def heat_map(
    tidy: polars.DataFrame,
    *,
    x: str,
    y: str,
    value: str,
    title: str,
    domain: tuple[float, float] | None = None,
    beside: tuple[str, ...] = (),
    number: str = ".2f",
) -> altair.TopLevelMixin:
    """The mean of column ``value`` over seeds for each pair (x, y), as coloured cells with numbers.

    ``domain`` fixes the range of the colours. Without it they run from the smallest mean to the largest, on
    a logarithmic scale where these are positive and a factor of 30 apart. ``beside`` are further columns,
    whose means the pointer shows.
    """
    import polars

    column = polars.col(value)
    cells = (
        tidy.group_by(x, y)
        .agg(
            mean=column.mean(),
            low=column.min(),
            high=column.max(),
            seeds=polars.col("seed").n_unique(),
            **{name: polars.col(name).mean() for name in beside},
        )
        .sort(x, y)
    )
    finite = cells["mean"].filter(cells["mean"].is_finite())
    if domain is None and finite.is_empty():
        raise InputError(f"no finite {value} is there to draw.")
    smallest, largest = domain or (float(finite.min()), float(finite.max()))  # type: ignore[arg-type]
    log = domain is None and smallest > 0 and largest > 30 * smallest
    rows = [{**row, "pale": _is_pale(row["mean"], smallest, largest, log=log)} for row in cells.to_dicts()]
    horizontal = altair.X(f"{x}:O", title=f"{x} m", axis=altair.Axis(labelAngle=0))
    vertical = altair.Y(f"{y}:O", sort="ascending")
    scale: Any = altair.Scale(
        scheme="viridis", type="log" if log else "linear", domain=[smallest, largest], clamp=True
    )
    tooltip: list[Any] = [f"{x}:Q", f"{y}:Q", altair.Tooltip("mean:Q", title=value, format=".4g")]
    tooltip += [altair.Tooltip(f"{end}:Q", format=".4g") for end in ("low", "high", *beside)] + ["seeds:Q"]
    base = altair.Chart(altair.InlineData(values=rows)).encode(horizontal, vertical, tooltip=tooltip)
    cell = base.mark_rect(stroke="white", strokeWidth=0.5).encode(
        altair.Color("mean:Q", title=None, scale=scale, legend=altair.Legend(gradientLength=160))
    )
    # Two layers of text: one colour scale with two meanings is one too many.
    texts = [
        base.mark_text(fontSize=11, color=ink)
        .encode(altair.Text("mean:Q", format=number))
        .transform_filter(on)
        for ink, on in (("black", "datum.pale === true"), ("white", "datum.pale === false"))
    ]
    width, height = 46 * cells[x].n_unique(), 30 * cells[y].n_unique()
    chart: altair.TopLevelMixin = altair.layer(cell, *texts).properties(
        width=max(width, 240),
        height=max(height, 120),
        title=small_title(f"{title}; {mean_of_seeds(cells['seeds'], band=False)}"),
    )
    return chart


def _is_pale(value: float, smallest: float, largest: float, *, log: bool) -> bool | None:
    """Whether the colour of ``value`` is so light that black can be read on it; None where it has no colour."""
    if not math.isfinite(value):
        return None
    if log:
        value, smallest, largest = math.log(value), math.log(smallest), math.log(largest)
    return largest > smallest and (value - smallest) / (largest - smallest) > 0.6
