"""Figures of the growth of co-correlation: its rate and the theorems' terms over training, over m and over the norm."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.drawing.scatter_plot import ScatterPlot
from undertow.studies.co_correlation.colours import of_widths
from undertow.studies.co_correlation.growth.rates import exponents_of_norm, networks, rates, slack_exponents
from undertow.studies.co_correlation.outcomes import LARGEST, NETWORK
from undertow.studies.kit.data_names import on_data
from undertow.studies.kit.readings import stacked
from undertow.studies.kit.statements import Figures

__all__ = ["FIGURES"]

FIGURES = Figures(parts=("growth",))
_NAMES = {"linear": "linear", "relu": "ReLU", "leaky-relu": "leaky ReLU", "tanh": "tanh", "gelu": "GELU"}
_RATES = {
    "measured": "rate, one step",
    "exact": "rate, exact",
    "main": "main term",
    "remaining": "remaining term",
    "replacement": "replacement",
}
_SIZES = {
    **{key: _RATES[key] for key in ("main", "remaining", "replacement")},
    "remaining_bound": "proof's bound of the remaining term",
}
_COSINES = {
    "cosine_first": "x̃(0) and x̃(t), mean over x",
    "cosine_sum": "Σ_τ x̃(τ) and x̃(t), mean over x",
    "cosine_least": "x̃(τ) and x̃(t), smallest",
}
_TIME, _PANEL = Axis("flow time s = η·steps"), (230, 160)


@FIGURES.add(
    "growth-terms",
    "Rate of co-correlation and the theorems' terms over training",
    row="activation",
    column="m",
)
@FIGURES.add(
    "growth-activations",
    "Rate of co-correlation and its terms for other activations",
    parts=("growth-activations",),
    row="m",
    column="activation",
    bend={"dropped": "dropped (Ḋ)"},
)
def terms(
    frame: polars.DataFrame, row: str, column: str, bend: dict[str, str] | None = None
) -> altair.TopLevelMixin:
    """The rate and its terms over flow time at q = 0.25; where slopes may bend, with the terms of Ḋ."""
    kinds = {**_RATES, **(bend or {})}
    table = stacked(rates(frame.filter(LARGEST)), kinds, by=[*NETWORK, "flow_time"])
    return LinePlot(
        x="flow_time",
        x_axis=_TIME,
        y=Axis("relative rate", form="~g", zero=True),
        colour="curve",
        colours=list(kinds.values()),
        row=row,
        column=column,
        own_y=True,
        rules=[0.0],
        title=["(dϱ/ds)/ϱ and its terms at q = 0.25", on_data(frame)],
        size=_PANEL,
    ).draw(_named(table))


@FIGURES.add("growth-norm", "Speed of growth against ‖W‖₂² or E‖DW‖₂²")
def norms(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Growth per unit of drive against the norm, every network a point, and the line of slope −1."""
    whole = networks(rates(frame))
    used, norm, speed = _named(whole.filter("grew")), polars.col("norm"), polars.col("speed")
    middle = (speed * norm).log().mean().exp()
    fitted_to = used.group_by("activation", maintain_order=True).agg(
        middle=middle, low=norm.min(), high=norm.max()
    )
    ends = fitted_to.with_columns(norm=polars.concat_list("low", "high")).drop("low", "high")
    lines = ends.explode("norm").with_columns(speed=polars.col("middle") / norm)
    fits = (
        exponents_of_norm(whole, "speed")
        .group_by("activation", maintain_order=True)
        .agg(polars.col("value").mean())
    )
    fitted = [
        f"{_NAMES[kind]} {slope:.2f}".replace("-", "−")
        if kind in whole.filter("grew")["activation"]
        else f"{_NAMES[kind]} none, as no network grew"
        for kind, slope in fits.rows()
    ]
    text = f"Fitted exponents: {', '.join(fitted)}; dashed: −1, every dot a network"
    return ScatterPlot(
        x="norm",
        y="speed",
        x_axis=Axis("‖W‖₂² or E‖DW‖₂²", log=True),
        y_axis=Axis("growth of ln ϱ per unit of drive", log=True),
        colour="width",
        colours=of_widths(used["width"]),
        legend="width m",
        shape="q",
        column="activation",
        own_y=True,
        title=[text, on_data(frame)],
        size=_PANEL,
    ).draw(used.select(*NETWORK, "norm", "speed"), theory=lines)


@FIGURES.add("growth-slack", "What the theorems add to the main term, against the width")
def slack(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Root mean squares over training of the terms against m, with their exponents."""
    table = rates(frame).filter(polars.col("step") > 0)
    sizes = table.group_by(NETWORK, maintain_order=True).agg(
        polars.col(key).pow(2).mean().sqrt() for key in _SIZES
    )
    # In linear networks nothing is replaced, and what is left of it is rounding.
    nothing = (polars.col("activation") == "linear") & (polars.col("curve") == _SIZES["replacement"])
    means = slack_exponents(table, ["remaining", "replacement"]).group_by("activation", "q")
    fitted = means.agg(polars.col("value").mean()).sort("activation", "q").rows()
    exponents = "; ".join(f"{_NAMES[kind]}, q = {q:g}: {slope:+.2f}" for kind, q, slope in fitted)
    text = f"Exponent of m in remaining term + replacement, claimed −q: {exponents}"
    return LinePlot(
        x="width",
        x_axis=Axis("width m", log=True, ticks="data"),
        y=Axis("root mean square over training", log=True, form="~g"),
        colour="curve",
        colours=list(_SIZES.values()),
        row="at q",
        column="activation",
        own_y=True,
        points=True,
        title=[text, on_data(frame)],
        size=_PANEL,
    ).draw(_named(stacked(sizes, _SIZES, by=NETWORK).filter(~nothing)))


@FIGURES.add("growth-cosines", "Angles between error-weighted inputs over training")
def cosines(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Cosines of the error-weighted inputs then and now, over flow time."""
    table = rates(frame.filter(LARGEST)).filter(polars.col("step") > 0)
    return LinePlot(
        x="flow_time",
        x_axis=_TIME,
        y=Axis("cosine"),
        colour="width",
        colours=of_widths(table["width"]),
        legend="width m",
        row="activation",
        column="curve",
        own_y=True,
        title=["Cosine of error-weighted inputs at q = 0.25", on_data(frame)],
        size=_PANEL,
    ).draw(_named(stacked(table, _COSINES, by=[*NETWORK, "flow_time"])))


def _named(table: polars.DataFrame) -> polars.DataFrame:
    """Names for panels, in the order of activations, widths and q."""
    order = polars.col("activation").replace_strict(list(_NAMES), list(range(len(_NAMES))))
    kept = table.sort(order, "width", "q", maintain_order=True)
    m, at_q = polars.format("m = {}", "width"), polars.format("q = {}", "q")
    return kept.with_columns(polars.col("activation").replace_strict(_NAMES), m=m).with_columns(
        at_q.alias("at q")
    )
