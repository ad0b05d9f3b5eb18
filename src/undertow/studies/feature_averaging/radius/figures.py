"""Robust accuracy against ε, and radii by dimension, clusters and grouping, with the lines of the theory."""

from __future__ import annotations

from typing import Any

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.inline_rows import inline_rows
from undertow.drawing.line_plot import LinePlot
from undertow.drawing.palette import KINDS
from undertow.studies.feature_averaging.cluster_grids import BY_CLUSTERS, BY_DIMENSION
from undertow.studies.feature_averaging.cluster_tables import most, networks, provable, radii
from undertow.studies.kit.readings import largest
from undertow.studies.kit.statements import Figures

__all__ = ["FIGURES"]

_CURVES = {
    "binary labels, proved": ("averaging", "certified", KINDS[0], (2, 2)),
    "binary labels, averaged direction": ("averaging", "averaged", KINDS[5], (6, 3)),
    "binary labels, best attack": ("averaging", "attacked", KINDS[0], (1, 0)),
    "cluster labels, read-out, best attack": ("decoupling", "attacked", KINDS[1], (1, 0)),
    "cluster labels, native, best attack": ("decoupling", "native:attacked", KINDS[3], (1, 0)),
    "f_robust, β = 0.29, best attack": ("robust", "attacked", KINDS[2], (1, 0)),
    "f_robust, β = 1/2, proved": ("robust", "certified", KINDS[2], (2, 2)),
}
"""Name of a curve → the beginning of its parts' names, its side of the radius, its colour and dash."""
_STYLES = {
    **{name: style for name, (_, _, *style) in _CURVES.items()},
    "√(d/k)": ("#777777", (4, 3)),
    "√(d/2), half the distance of centres": ("#333333", (4, 3)),
    "best attack": (KINDS[0], (1, 0)),
    "proved": (KINDS[0], (2, 2)),
    "√(d/2g)": ("#777777", (4, 3)),
}
_SIZES: Any = {"log": True, "ticks": "data", "form": "~g"}
_LENGTH = Axis("mean radius", log=True)
_BY_K = [f"{kind}-{count}" for kind in ("averaging", "decoupling") for count in BY_CLUSTERS]

FIGURES = Figures()


@FIGURES.add(
    "robust-accuracy",
    "Robust accuracy against ε: averaged and decoupled features, and f_robust",
    parts=["averaging", "decoupling", "robust-by-d"],
)
def robust_accuracy(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Share of the points that survive ε, by network and side; the two rules are √(d/k) and √(d/2)."""
    table = largest(networks(frame, "cluster-radius"), "d")
    k = most(table.filter(polars.col("part") == "averaging"), "k")
    tidy = polars.concat(
        own.select("seed", value=name, curve=polars.lit(curve), eps=float(name.rpartition("@")[2]))
        for curve, side, own in _kinds(table)
        for name in own.columns
        if name.startswith(f"{side}@") and not name.endswith("@reach")
    )
    share = Axis("share that survives", domain=(0.0, 1.1))
    chart: Any = _plot(tidy, "eps", Axis("ε / √d"), share, f"d = {most(table, 'd')}")
    marks = [{"eps": k**-0.5, "text": f"√(d/k), k = {k}"}, {"eps": 0.5**0.5, "text": "√(d/2)"}]
    rules = altair.Chart(inline_rows(marks)).encode(altair.X("eps:Q"))
    label = rules.mark_text(align="left", dx=4, color="#555").encode(y=altair.value(8), text="text:N")
    marked: altair.TopLevelMixin = chart + rules.mark_rule(color="#999", strokeDash=[4, 3]) + label
    return marked


@FIGURES.add(
    "radius-by-d",
    "Radius by dimension, with √(d/k) and half the distance between centres",
    parts=[*BY_DIMENSION, "robust-by-d"],
    axis="d",
    title="dimension d",
    fixed="k",
)
@FIGURES.add(
    "radius-by-k",
    "Radius by number of clusters",
    parts=[*_BY_K, "robust-by-k"],
    axis="k",
    title="number of clusters k",
    fixed="d",
)
def radius_by_size(frame: polars.DataFrame, axis: str, title: str, fixed: str) -> altair.TopLevelMixin:
    """Mean radius against d or k, on logarithmic axes, with the lines of the theory."""
    table, d, k = radii(frame), polars.col("d"), polars.col("k")
    theory = {"√(d/k)": (d / k).sqrt(), "√(d/2), half the distance of centres": (d / 2).sqrt()}
    curves = [(name, polars.col(f"{side} length"), own) for name, side, own in _kinds(table)]
    curves += [(name, length, table) for name, length in theory.items()]
    tidy = polars.concat(
        own.select("seed", axis, value=length, curve=polars.lit(name)).drop_nulls()
        for name, length, own in curves
        if set(length.meta.root_names()) <= set(own.columns)
    )
    return _plot(tidy, axis, Axis(title, **_SIZES), _LENGTH, f"{fixed} = {most(table, fixed)}")


@FIGURES.add("between", "From decoupled to averaged features", parts=["between"])
def between(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """The constructed networks with groups of 1 … k/2 clusters for each neuron, and √(d/2g)."""
    table, column = radii(frame), polars.col
    d, k = most(table, "d"), most(table, "k")
    values = {
        "best attack": column("attacked length"),
        "proved": column("certified length"),
        "√(d/2g)": (d / (2 * column("group"))).sqrt(),
    }
    tidy = polars.concat(
        table.select("seed", "group", value=value, curve=polars.lit(name)) for name, value in values.items()
    )
    title = f"clusters for each neuron g; 1 is f_robust, {k // 2} averages a class"
    note = f"networks constructed from the centres, d = {d}, k = {k}"
    return _plot(tidy, "group", Axis(title, **_SIZES), _LENGTH, note)


def _kinds(table: polars.DataFrame) -> list[tuple[str, str, polars.DataFrame]]:
    """Curve, side and networks of each kind; of f_robust those whose threshold suits the side that is shown."""
    found = []
    for curve, (part, side, *_) in _CURVES.items():
        own = table.filter(polars.col("part").str.starts_with(part))
        found.append((curve, side, provable(own, optimal=side != "certified") if part == "robust" else own))
    return found


def _plot(tidy: polars.DataFrame, x: str, x_axis: Axis, y: Axis, title: str) -> altair.TopLevelMixin:
    """Colour and dash tell the kinds apart."""
    colours, dashes = ({name: style[end] for name, style in _STYLES.items()} for end in (0, 1))
    plot = LinePlot(
        x=x,
        x_axis=x_axis,
        y=y,
        colour="curve",
        colours=colours,
        dash="curve",
        dashes=dashes,
        title=title,
        size=(400, 280),
    )
    return plot.draw(tidy)
