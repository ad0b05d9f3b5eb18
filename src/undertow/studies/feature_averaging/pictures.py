"""Curves of the synthetic rows: robust accuracy against ε; radii by dimension, clusters and grouping; starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair
import polars

from undertow.drawing.palette import KINDS
from undertow.drawing.titles import mean_of_seeds, small_title
from undertow.studies.feature_averaging.radius import provable, radii
from undertow.studies.feature_averaging.sizes import most, networks

__all__ = ["between", "radius_by_d", "radius_by_k", "robust_accuracy", "spread_by_start"]

_LOG = altair.Scale(type="log", nice=False)
_SHARE = altair.Scale(domain=[0, 1.1], nice=False)
_CURVES = {
    "binary labels, proved": ("averaging", "certified"),
    "binary labels, averaged direction": ("averaging", "averaged"),
    "binary labels, best attack": ("averaging", "attacked"),
    "cluster labels, read-out, best attack": ("decoupling", "attacked"),
    "cluster labels, native, best attack": ("decoupling", "native:attacked"),
    "f_robust, β = 0.29, best attack": ("robust", "attacked"),
    "f_robust, β = 1/2, proved": ("robust", "certified"),
}
_STYLES: dict[str, tuple[str, list[int]]] = {
    "binary labels, proved": (KINDS[0], [2, 2]),
    "binary labels, averaged direction": (KINDS[5], [6, 3]),
    "binary labels, best attack": (KINDS[0], [1, 0]),
    "cluster labels, read-out, best attack": (KINDS[1], [1, 0]),
    "cluster labels, native, best attack": (KINDS[3], [1, 0]),
    "f_robust, β = 0.29, best attack": (KINDS[2], [1, 0]),
    "f_robust, β = 1/2, proved": (KINDS[2], [2, 2]),
    "√(d/k)": ("#777777", [4, 3]),
    "√(d/2), half the distance of centres": ("#333333", [4, 3]),
    "best attack": (KINDS[0], [1, 0]),
    "proved": (KINDS[0], [2, 2]),
    "√(d/2g)": ("#777777", [4, 3]),
    "largest |λ_j / mean λ − 1| in the own class": (KINDS[0], [1, 0]),
    "1 − cosine of w(T) with Σμ_j": (KINDS[1], [1, 0]),
    "1 − cosine of w(T) − w(0) with Σμ_j": (KINDS[2], [1, 0]),
}


def robust_accuracy(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Share of the points that survive ε, by network and side; the two rules are √(d/k) and √(d/2)."""
    table = networks(frame, "cluster-radius")
    table = table.filter(polars.col("d") == polars.col("d").max())
    k = most(table.filter(polars.col("part") == "averaging"), "k")
    rows = []
    for curve, (part, side) in _CURVES.items():
        own = _own(table, part, proved=side == "certified")
        for name in own.columns:
            if name.startswith(f"{side}@") and not name.endswith("@reach"):
                shares = own.select("seed", value=name).drop_nulls()
                eps = float(name.rpartition("@")[2])
                rows += [{"curve": curve, "eps": eps, **row} for row in shares.iter_rows(named=True)]
    tidy = polars.DataFrame(rows)
    chart = _curves(tidy, "eps", "ε / √d", "share that survives", list(_CURVES), log=False, y=_SHARE)
    marks = [{"eps": k**-0.5, "text": f"√(d/k), k = {k}"}, {"eps": 0.5**0.5, "text": "√(d/2)"}]
    rules = altair.Chart(altair.InlineData(values=marks)).encode(altair.X("eps:Q"))
    label = rules.mark_text(align="left", dx=4, color="#555").encode(y=altair.value(8), text="text:N")
    chart += rules.mark_rule(color="#999", strokeDash=[4, 3]) + label
    return _titled(chart, frame, f"d = {most(table, 'd')}")


def radius_by_d(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Mean radius against d, on logarithmic axes, with the lines of the theory."""
    return _by_size(frame, "d", "dimension d")


def radius_by_k(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Mean radius against k at one d, on logarithmic axes, with the lines of the theory."""
    return _by_size(frame, "k", "number of clusters k")


def between(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """The constructed networks with groups of 1 … k/2 clusters for each neuron, and √(d/2g)."""
    table = radii(frame).sort("group")
    k, d, group = most(table, "k"), most(table, "d"), polars.col("group")
    values = {
        "best attack": polars.col("attacked length"),
        "proved": polars.col("certified length"),
        "√(d/2g)": (d / (2 * group)).sqrt(),
    }
    tidy = polars.concat(
        table.select("seed", "group", value=value, curve=polars.lit(name)) for name, value in values.items()
    )
    title = f"clusters for each neuron g; 1 is f_robust, {k // 2} averages a class"
    chart = _curves(tidy, "group", title, "mean radius", list(values), log=True, y=_LOG)
    return _titled(chart, frame, f"networks constructed from the centres, d = {d}, k = {k}")


def spread_by_start(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """How unequal the own-class coefficients are, and how far from ∝ Σμ_j the weights, by the scale of the start."""
    change, weights = networks(frame, "feature-coefficients"), networks(frame, "feature-cosines")
    value = {
        "largest |λ_j / mean λ − 1| in the own class": change.select("seed", "std", value="own_spread"),
        "1 − cosine of w(T) with Σμ_j": weights.select("seed", "std", value=1 - polars.col("aligned")),
        "1 − cosine of w(T) − w(0) with Σμ_j": change.select("seed", "std", value=1 - polars.col("aligned")),
    }
    tidy = polars.concat(table.with_columns(curve=polars.lit(name)) for name, table in value.items())
    title = "start σ_w; the last is 1/√d"
    chart = _curves(
        tidy, "std", title, "distance from averaging", list(value), log=True, y=altair.Scale(zero=True)
    )
    return _titled(chart, frame, f"0 is exact averaging; d = {most(change, 'd')}")


def _by_size(frame: polars.DataFrame, axis: str, title: str) -> altair.TopLevelMixin:
    table = radii(frame)
    rows = []
    for curve, (part, side) in _CURVES.items():
        own = _own(table, part, proved=side == "certified")
        key = f"{side} length"
        if key in own.columns:
            values = own.select("seed", axis, value=key).drop_nulls()
            rows += [{"curve": curve, **row} for row in values.iter_rows(named=True)]
    for d, k in table.select("d", "k").unique().sort("d", "k").iter_rows():
        size = d if axis == "d" else k
        marks: Mapping[str, float] = {
            "√(d/k)": (d / k) ** 0.5,
            "√(d/2), half the distance of centres": (d / 2) ** 0.5,
        }
        rows += [{"curve": curve, axis: size, "seed": 0, "value": value} for curve, value in marks.items()]
    tidy = polars.DataFrame(rows, infer_schema_length=None)
    chart = _curves(tidy, axis, title, "mean radius", list(_STYLES), log=True, y=_LOG)
    other = "k" if axis == "d" else "d"
    return _titled(chart, frame, f"{other} = {most(table, other)}")


def _own(table: polars.DataFrame, part: str, *, proved: bool) -> polars.DataFrame:
    """The networks of one kind; of f_robust those whose threshold suits the side that is shown."""
    own = table.filter(polars.col("part").str.starts_with(part))
    return provable(own, optimal=not proved) if part == "robust" else own


def _curves(
    tidy: polars.DataFrame,
    x: str,
    x_title: str,
    y_title: str,
    order: list[str],
    *,
    log: bool,
    y: altair.Scale,
) -> Any:
    """Means over seeds with bands from smallest to largest; colour and dash tell the kinds apart."""
    present = [curve for curve in order if curve in set(tidy["curve"])]
    value = polars.col("value")
    summary = (
        tidy.group_by("curve", x)
        .agg(mean=value.mean(), smallest=value.min(), largest=value.max())
        .sort("curve", x)
    )
    scale = _LOG if log else altair.Scale(nice=False)
    ticks = sorted(set(tidy[x].to_list())) if log else altair.Undefined
    legend = altair.Legend(
        labelLimit=320, symbolType="stroke", symbolStrokeWidth=2.5, symbolSize=300, symbolOpacity=1
    )
    colours = altair.Scale(domain=present, range=[_STYLES[curve][0] for curve in present])
    dashes = altair.Scale(domain=present, range=[_STYLES[curve][1] for curve in present])
    base = altair.Chart(altair.InlineData(values=summary.to_dicts())).encode(
        altair.X(f"{x}:Q", title=x_title, scale=scale, axis=altair.Axis(values=ticks, format="~g")),
        altair.Color("curve:N", title=None, sort=present, scale=colours, legend=legend),
    )
    band = base.mark_area(opacity=0.12).encode(altair.Y("smallest:Q", scale=y), altair.Y2("largest:Q"))
    line = base.mark_line(strokeWidth=1.8).encode(
        altair.Y("mean:Q", title=y_title, scale=y),
        altair.StrokeDash("curve:N", title=None, sort=present, scale=dashes, legend=legend),
        tooltip=["curve:N", f"{x}:Q", "mean:Q", "smallest:Q", "largest:Q"],
    )
    return altair.layer(band, line).properties(width=400, height=280)


def _titled(chart: Any, frame: polars.DataFrame, what: str) -> altair.TopLevelMixin:
    seeds = frame.group_by("part").agg(polars.col("seed").n_unique())["seed"]
    titled: altair.TopLevelMixin = chart.properties(title=small_title(f"{what}; {mean_of_seeds(seeds)}"))
    return titled
