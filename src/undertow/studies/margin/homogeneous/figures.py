"""Margins, rates and KKT residuals against the logarithm of the loss."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.studies.kit.exact_tests import median_interval
from undertow.studies.kit.readings import after_training, stacked
from undertow.studies.kit.statements import Figures
from undertow.studies.margin.curves_of_loss import against_loss, levelled, with_time
from undertow.studies.margin.homogeneous.claims import flow
from undertow.studies.margin.homogeneous.parts import DEEP_LINEAR, RATES

__all__ = ["FIGURES"]

FIGURES = Figures(parts=("monotone",))
_CONDITIONS = {"residual": "stationarity", "slackness": "slackness", "misalignment": "1 − cos(θ, −∇𝓛)"}
_THEORY = "theory's slope"
by_loss = partial(LinePlot, x="fallen", x_axis=Axis("log₁₀ 1/𝓛", log=True))


@FIGURES.add("smoothed-margin", "The smoothed margin after t0, for several lengths of a step")
def smoothed(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """γ̃ against log₁₀ 1/𝓛."""
    table = against_loss(frame, by=["seed", "learning_rate"]).with_columns(value=polars.col("smoothed"))
    return by_loss(
        y="smoothed margin γ̃",
        colour="learning_rate",
        legend="length of a step",
        title="Two layers on clusters",
    ).draw(levelled(table, "learning_rate"))


@FIGURES.add("margin-falls", "How much the smoothed margin falls on its way, by the length of a step")
def falls(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """All decreases of γ̃ added up, and the deepest fall below what it had been, over every step."""
    curves = {"total": "all decreases, over the last γ̃", "deepest": "deepest fall, over the highest γ̃ before"}
    shown = after_training(frame, "margin-falls").filter(polars.col("key").is_in(list(curves)))
    return LinePlot(
        x="learning_rate",
        x_axis=Axis("length of a step η", log=True),
        y=Axis("share of γ̃ lost", log=True),
        colour="curve",
        colours=list(curves.values()),
        points=True,
        band=False,  # in most seeds nothing falls at the shortest steps: no logarithm
        title="Falls of the smoothed margin",
    ).draw(shown.with_columns(curve=polars.col("key").replace_strict(curves)).sort("learning_rate"))


@FIGURES.add("kkt-residuals", "Residuals of the KKT conditions against the loss", parts=("stationary",))
def residuals(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Three conditions against log₁₀ 1/𝓛."""
    shown = stacked(flow(frame), _CONDITIONS, by=["seed", "fallen"]).filter(polars.col("value") > 0)
    return by_loss(
        y=Axis("residual", log=True),
        colour="curve",
        rules=[0.01],
        title="KKT conditions of two layers, shortest steps",
    ).draw(levelled(shown, "curve"))


@FIGURES.add("direction", "The direction's path: how far it has turned", parts=("stationary",))
def turning(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """The angle between the directions of two readings in a row, and that to the start's, which the first turn is."""
    paths = {"since-last": "between two readings", "since-start": "from the start"}
    later = polars.col("fallen") > polars.col("fallen").min().over("seed")
    shown = stacked(flow(frame).filter(later), paths, by=["seed", "fallen"])
    return by_loss(
        y=Axis("turn of θ/‖θ‖, radians", log=True),
        colour="curve",
        title="Two layers, shortest steps",
    ).draw(levelled(shown.filter(polars.col("value") > 0), "curve"))


@FIGURES.add(
    "rates",
    "Loss and norm against log t, with the slopes of theory",
    parts=[f"rates-{order}" for order in RATES],
)
def rates(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """log 1/(t𝓛) and log ρ^L against log log t, a panel each; dashed: lines of the theory's slope through the end."""
    table = with_time(against_loss(frame, by=["seed", "part"]), frame, by=["seed", "part"])
    order = polars.col("part").str.strip_prefix("rates-").cast(polars.Int64)
    table = table.filter(polars.col("log_time") > 3).with_columns(
        L=order,
        loss=math.log(10) * polars.col("fallen") - polars.col("log_time"),
        size=order * polars.col("norm").log(),
    )
    panels = {"loss": "log 1/(t𝓛)", "size": "log ρ^L"}
    rows = stacked(table.with_columns(fallen="log_time"), panels, by=["seed", "L", "fallen"])
    own = levelled(rows, "L", "curve").with_columns(x=polars.col("fallen").log())
    slope = polars.when(polars.col("curve") == panels["size"]).then(1.0).otherwise(2 - 2 / polars.col("L"))
    end, at = (polars.col(name).sort_by("x").tail(10).mean().over("L", "curve") for name in ("value", "x"))
    line = own.with_columns(value=end + slope * (polars.col("x") - at))
    title, axis = "Steps of equal falls of log 𝓛", Axis("log log t")
    looks: Any = {"colour": "L", "legend": "layers L", "interval": median_interval, "title": title}
    return _beside_theory(own, line, x="x", x_axis=axis, y="value", **looks)


_NETWORKS = {
    **{f"rates-{order}": f"{order} layers" if order > 1 else "linear" for order in RATES},
    DEEP_LINEAR: "three linear layers",
    "longest": "table's network",
}


@FIGURES.add(
    "all-margins",
    "Margins of all networks as the loss falls, with the slopes of theory",
    parts=list(_NETWORKS),
)
def all_margins(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """q_min and γ̄ over its last reading against log₁₀ 1/𝓛, a panel each; dashed: q_min = log 1/𝓛, a γ̄ that stands."""
    last = polars.col("normalised").last().over("seed", "part")
    table = against_loss(frame, by=["seed", "part"]).with_columns(
        network=polars.col("part").replace_strict(_NETWORKS),
        raw=polars.col("normalised") * polars.col("norm").pow(polars.col("order")),
        share=polars.col("normalised") / last,
    )
    panels = {"raw": "margin q_min", "share": "normalised margin γ̄ over its last"}
    rows = stacked(table, panels, by=["seed", "network", "fallen"])
    own = levelled(rows.filter(polars.col("value") > 0), "network", "curve")
    at = own.select("fallen", "curve").unique().sort("curve", "fallen")
    gap = math.log(10) * polars.col("fallen")
    theory = polars.when(polars.col("curve") == panels["raw"]).then(gap).otherwise(1.0)
    line = at.with_columns(value=theory, network=polars.lit(_THEORY), seed=own["seed"][0])
    line = line.cast({"seed": own["seed"].dtype}).select(own.columns)
    looks: Any = {"colour": "network", "colours": [*_NETWORKS.values(), _THEORY], **by_loss.keywords}
    return _beside_theory(own, line, y=Axis("value", log=True), title="Margins as the loss falls", **looks)


def _beside_theory(
    own: polars.DataFrame, line: polars.DataFrame, *, x: str, colour: str, **looks: Any
) -> altair.TopLevelMixin:
    """A panel for each ``curve``: what was measured, and dashed what theory says, a curve of its own or one of each."""
    kinds = {"measured": own, _THEORY: line}
    both = polars.concat([table.with_columns(kind=polars.lit(kind)) for kind, table in kinds.items()])
    # Where theory is a curve of its own, two legends would name it twice; of one column and one order they are one.
    dash, labels = (colour, looks["colours"]) if _THEORY in looks.get("colours", ()) else ("kind", [*kinds])
    dashes = {label: [4, 3] if label == _THEORY else [1, 0] for label in labels}
    panels: Any = {"column": "curve", "own_y": True, "size": (280, 220), "dash": dash, "dashes": dashes}
    return LinePlot(x=x, colour=colour, **panels, **looks).draw(both.sort("curve", colour, x))
