"""Off-manifold shares of the closest adversarial examples, beside those of a random direction and of the data."""

from __future__ import annotations

from typing import Any

import altair
import polars

from undertow.drawing.inline_rows import inline_rows
from undertow.drawing.palette import KINDS
from undertow.drawing.titles import small_title
from undertow.studies.kit.data_names import written
from undertow.studies.kit.readings import after_training
from undertow.studies.kit.statements import Figures

__all__ = ["FIGURES"]

FIGURES = Figures(parts=("manifold-subspace", "manifold-pca"))


@FIGURES.add("manifold", "Perturbations on and off the data manifold")
def shares(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Off-manifold share of every network, beside that of a random direction."""
    index = [name for name in ("part", "std", "data_name", "seed") if name in frame.columns]
    table = after_training(frame, "off-manifold").pivot("key", index=index, values="value").sort(index)
    rows = [row for network in table.iter_rows(named=True) for row in _rows(network)]
    order = list(dict.fromkeys(row["where"] for row in rows))
    base = altair.Chart(inline_rows(rows)).encode(altair.Y("where:N", title=None, sort=order))
    length = altair.Scale(domain=[0, 1])
    points = base.mark_circle(size=60, opacity=0.7, color=KINDS[0]).encode(
        altair.X("share:Q", title="share of ‖δ‖² off the manifold", scale=length),
        tooltip=["where:N", "seed:Q", "share:Q", "chance:Q"],
    )
    ticks = [
        base.mark_tick(thickness=3, size=22, color=colour).encode(altair.X(f"{key}:Q", scale=length))
        for key, colour in (("chance", KINDS[1]), ("data", KINDS[2]))
    ]
    text = (
        "Closest adversarial examples, a point for each seed; orange: a random direction, green: the data's own "
        "variance"
    )
    chart: altair.TopLevelMixin = altair.layer(*ticks, points).properties(
        width=380, height=34 * len(order), title=small_title(text)
    )
    return chart


def _rows(network: dict[str, Any]) -> list[dict[str, Any]]:
    """What is drawn of a network: its subspace, or its principal plane and the tangent planes."""
    plane = {"share": network["off"], "chance": network["chance"], "data": network["data"]}
    if network["part"] == "manifold-subspace":
        return [{"where": f"subspace, start σ = {network['std']:.2g}", "seed": network["seed"], **plane}]
    name, local = (
        written([network["data_name"]]),
        {"share": network["off_local"], "chance": network["chance_local"]},
    )
    return [
        {"where": f"{name}, principal plane", "seed": network["seed"], **plane},
        {"where": f"{name}, local PCA", "seed": network["seed"], **local},
    ]
