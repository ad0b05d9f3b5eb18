"""The one heat map: a cell for every pair of settings, with its number written in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair
import polars

from undertow.core.errors import InputError
from undertow.drawing.inline_rows import inline_rows
from undertow.drawing.panels import in_panels, told
from undertow.drawing.titles import mean_of_seeds, small_title

__all__ = ["HeatMap"]

_COSINES = (-1.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class HeatMap:
    """The mean over seeds of a column for each pair (x, y), as coloured cells with numbers.

    Attributes:
        x: The column across.
        y: The column down.
        value: The column whose means are shown.
        title: What is shown, before the sentence about seeds; None for a map that is part of a larger figure.
        x_title: The title across; the column's name where there is none.
        y_title: The title down.
        domain: The range of the colours. Without it they run from the smallest mean to the largest, on a logarithmic
            scale where these are positive and a factor of 30 apart.
        cosines: Whether these are cosines: −1 is blue and +1 orange wherever cosines are drawn.
        beside: Further columns, whose means the pointer shows.
        number: The format of what is written.
        letters: The size of what is written.
        order: The order across, ascending where none is given.
        column: The column whose values have a map each, side by side.
        cell: Width and height of a cell; or ``side``, that of the whole map, where this is given.
        side: Width and height of the map.
    """

    x: str
    y: str
    value: str = "value"
    title: str | None = None
    x_title: str | None = None
    y_title: str | None = None
    domain: tuple[float, float] | None = None
    cosines: bool = False
    beside: Sequence[str] = ()
    number: str = ".2f"
    letters: int = 11
    order: Sequence[Any] | None = None
    column: str | None = None
    cell: tuple[int, int] = (46, 30)
    side: int | None = None

    def draw(self, tidy: polars.DataFrame) -> altair.TopLevelMixin:
        """The figure of a table with a column ``seed``: one row per network."""
        cells = self._means(tidy)
        smallest, largest, log = self._range(cells["mean"])
        rows = [
            {**row, "pale": self._is_pale(row["mean"], smallest, largest, log)} for row in cells.to_dicts()
        ]
        sort: Any = list(self.order) if self.order is not None else "ascending"
        base = altair.Chart().encode(
            altair.X(f"{self.x}:O", title=self.x_title or self.x, sort=sort, axis=altair.Axis(labelAngle=0)),
            altair.Y(f"{self.y}:O", title=self.y_title or self.y, sort="ascending"),
            tooltip=self._told(),
        )
        scale: Any = altair.Scale(
            scheme="blueorange" if self.cosines else "viridis",
            type="log" if log else "linear",
            domain=[smallest, largest],
            clamp=True,
        )
        legend = altair.Legend(gradientLength=160)
        name = "cosine" if self.cosines else None
        colours = base.mark_rect(stroke="white", strokeWidth=0.5).encode(
            altair.Color("mean:Q", title=name, scale=scale, legend=legend)
        )
        # Two layers of text: one colour scale with two meanings is one too many.
        texts = [
            base.mark_text(fontSize=self.letters, color=ink)
            .encode(altair.Text("mean:Q", format=self.number))
            .transform_filter(on)
            for ink, on in (("black", "datum.pale === true"), ("white", "datum.pale === false"))
        ]
        width = self.side or max(self.cell[0] * cells[self.x].n_unique(), 240)
        height = self.side or max(self.cell[1] * cells[self.y].n_unique(), 120)
        chart: Any = altair.layer(colours, *texts, data=inline_rows(rows))
        chart = in_panels(chart.properties(width=width, height=height), cells, column=self.column, row=None)
        if self.title is None:
            drawn: altair.TopLevelMixin = chart
            return drawn
        text = f"{self.title}; {mean_of_seeds(cells['seeds'], band=False)}"
        titled: altair.TopLevelMixin = chart.properties(title=small_title(text))
        return titled

    def _means(self, tidy: polars.DataFrame) -> polars.DataFrame:
        by, value = [name for name in (self.column, self.x, self.y) if name], polars.col(self.value)
        ends = {"mean": value.mean(), "low": value.min(), "high": value.max()}
        beside = {name: polars.col(name).mean() for name in self.beside}
        panels = tidy[self.column].unique(maintain_order=True).to_list() if self.column else []
        ordered = tidy.sort(*by, self.value)  # a sum's last digit is that of its order
        seeds = polars.col("seed").n_unique()
        cells = ordered.group_by(by, maintain_order=True).agg(**ends, seeds=seeds, **beside)
        if self.column:  # maps in the order of the table's rows
            cells = cells.sort(
                polars.col(self.column).replace_strict(panels, list(range(len(panels)))), maintain_order=True
            )
        return cells

    def _range(self, means: polars.Series) -> tuple[float, float, bool]:
        domain = self.domain or (_COSINES if self.cosines else None)
        finite = means.filter(means.is_finite())
        if domain is None and finite.is_empty():
            raise InputError(f"no finite {self.value} is there to draw.")
        smallest, largest = domain or (float(finite.min()), float(finite.max()))  # type: ignore[arg-type]
        return smallest, largest, domain is None and smallest > 0 and largest > 30 * smallest

    def _is_pale(self, value: float, smallest: float, largest: float, log: bool) -> bool | None:
        """Whether the colour of ``value`` is so light that black can be read on it; None where it has no colour."""
        if not math.isfinite(value):
            return None
        if self.cosines:  # both ends of the scheme are dark
            return abs(value) <= 0.75
        if log:
            value, smallest, largest = math.log(value), math.log(smallest), math.log(largest)
        return largest > smallest and (value - smallest) / (largest - smallest) > 0.6

    def _told(self) -> list[Any]:
        kinds = [f"{self.column}:N"] if self.column else []
        kinds += [f"{self.x}:O", f"{self.y}:O"] if self.cosines else [f"{self.x}:Q", f"{self.y}:Q"]
        value = altair.Tooltip("mean:Q", title="cosine" if self.cosines else self.value, format=".4g")
        rest = [altair.Tooltip(f"{end}:Q", format=".4g") for end in ("low", "high", *self.beside)]
        return [*told(*kinds), value, *rest, *told("seeds:Q")]
