"""Heat maps of cosines: −1 is blue and +1 orange wherever cosines are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair

if TYPE_CHECKING:
    import polars

__all__ = ["cosine_map"]


def cosine_map(
    cells: polars.DataFrame,
    *,
    x: str,
    y: str,
    x_title: str,
    y_title: str,
    side: int,
    number: str,
    letters: int,
    order: list[int] | None = None,
) -> altair.LayerChart:
    """One cell per pair (x, y), coloured by the cosine in column ``value``, which is also written in it.

    The map is a square of ``side`` pixels; ``number`` is the format of what is written, ``letters`` its size.
    ``order`` is that of x, ascending where none is given.
    """
    base = altair.Chart().encode(
        altair.X(f"{x}:O", title=x_title, sort=order or "ascending", axis=altair.Axis(labelAngle=0)),
        altair.Y(f"{y}:O", title=y_title),
    )
    scale = altair.Scale(scheme="blueorange", domain=[-1, 1])
    colours = base.mark_rect().encode(
        altair.Color("value:Q", title="cosine", scale=scale), tooltip=[f"{y}:O", f"{x}:O", "value:Q"]
    )
    # Beyond that both ends of the scheme are so dark that white is read better than black.
    ink = altair.condition("abs(datum.value) > 0.75", altair.value("white"), altair.value("#222"))
    numbers = base.mark_text(fontSize=letters).encode(altair.Text("value:Q", format=number), color=ink)
    data = altair.InlineData(values=cells.to_dicts())
    return altair.LayerChart(data=data, layer=[colours, numbers], width=side, height=side)
