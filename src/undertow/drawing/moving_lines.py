"""Points in the plane and lines through the origin that move with a slider."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import altair
import polars

from undertow.drawing.inline_rows import inline_rows
from undertow.drawing.palette import KINDS
from undertow.drawing.panels import told
from undertow.drawing.titles import small_title

__all__ = ["MovingLines"]


@dataclass(frozen=True)
class MovingLines:
    """Decision lines ⟨w, x⟩ = 0 at several moments, over points with columns x, y and ``label``.

    The slider chooses the moment; without one, as in print, the lines of the last are drawn over faint earlier ones.

    >>> points = polars.DataFrame({"x": [1.0, -1.0], "y": [0.5, -0.5], "label": [0, 1]})
    >>> picture = MovingLines(points, last=1, title="Two points")
    >>> picture.add("machine", 0.0)
    >>> for place in (0, 1):
    ...     picture.add("descent", 0.1 * (2 - place), place, f"t = {place}")
    >>> len(picture.ends)
    6
    """

    points: polars.DataFrame
    last: int
    title: str
    ends: list[dict[str, Any]] = field(default_factory=list)

    @property
    def reach(self) -> float:
        """The largest coordinate, to which lines are drawn."""
        sizes = self.points.select(polars.max_horizontal(polars.col("x", "y").abs()).max())
        return float(sizes.item())

    def add(self, kind: str, heading: float, place: int = -1, when: str = "") -> None:
        """The line of a w with this heading, at the moment ``place`` of 0 … ``last``, or −1 at all of them."""
        across, up = -math.sin(heading) * self.reach, math.cos(heading) * self.reach
        about = {"kind": kind, "place": place, "when": when}
        self.ends.extend({**about, "x": side * across, "y": side * up, "end": side} for side in (-1, 1))

    def draw(self) -> altair.TopLevelMixin:
        slider = altair.binding_range(min=0, max=self.last, step=1, name="moment ")
        moment = altair.param(name="moment", value=self.last, bind=slider)
        scale = altair.Scale(domain=[-self.reach, self.reach], nice=False)
        axes = [altair.X("x:Q", scale=scale, title=None), altair.Y("y:Q", scale=scale, title=None)]
        rows = self.points.select("x", "y", "label").to_dicts()
        dots = altair.Chart(inline_rows(rows)).mark_point(filled=True, size=45)
        dots = dots.encode(*axes, altair.Shape("label:N", title="class"), color=altair.value("#444"))
        kinds = list(dict.fromkeys(end["kind"] for end in self.ends))
        colours = [KINDS[place % len(KINDS)] for place in range(len(kinds))]
        now = "datum.place < 0 || datum.place == moment"
        lines = altair.Chart(inline_rows(self.ends)).mark_line(strokeWidth=1.8, clip=True)
        lines = lines.encode(
            *axes,
            altair.Color("kind:N", title=None, sort=kinds, scale=altair.Scale(domain=kinds, range=colours)),
            altair.Detail("place:N"),
            opacity=altair.condition(now, altair.value(1.0), altair.value(0.25)),
            tooltip=told("kind:N", "when:N"),
        )
        whole: altair.TopLevelMixin = (
            altair.layer(lines, dots)
            .add_params(moment)
            .properties(width=320, height=320, title=small_title(self.title))
        )
        return whole
