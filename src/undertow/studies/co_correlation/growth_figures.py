"""Figures of the growth of co-correlation: its rate and the theorems' terms over training, over m and over the norm."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from undertow.drawing.titles import small_title
from undertow.studies.co_correlation.growth_records import exponent, networks, rates, slack_exponents
from undertow.studies.co_correlation.setting import LARGEST_Q, data_names
from undertow.studies.kit.study import Figure

if TYPE_CHECKING:
    import altair
    import polars

__all__ = ["FIGURES"]

_NAMES = {"linear": "linear", "relu": "ReLU", "leaky-relu": "leaky ReLU", "tanh": "tanh", "gelu": "GELU"}
_RATES = {
    "measured": "rate, one step",
    "exact": "rate, exact",
    "main": "main term",
    "remaining": "remaining term",
    "replacement": "replacement",
    "dropped": "dropped (Ḋ)",
}
_SIZES = {"main": "main term", "remaining": "remaining term", "replacement": "replacement"}
_BOUND = {"remaining_bound": "proof's bound of the remaining term"}
_COSINES = {
    "cosine_first": "x̃(0) and x̃(t), mean over x",
    "cosine_sum": "Σ_τ x̃(τ) and x̃(t), mean over x",
    "cosine_least": "x̃(τ) and x̃(t), smallest",
}
_TIME = "flow time s = η·steps"


def terms(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """The rate and its terms over flow time at the largest q: linear and ReLU networks by width."""
    import polars

    table = rates(frame.filter(polars.col("q") == LARGEST_Q))
    kinds = {key: name for key, name in _RATES.items() if key != "dropped"}
    rows = _over_seeds(table, kinds, by=["activation", "width", "flow_time"])
    return _term_panels(
        rows, kinds, frame, f"(dϱ/ds)/ϱ and its terms at q = {LARGEST_Q}", row="activation", column="width"
    )


def other_activations(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """The same for the other activations, whose slopes may bend: with the terms of Ḋ."""
    rows = _over_seeds(rates(frame), _RATES, by=["activation", "width", "flow_time"])
    what = f"(dϱ/ds)/ϱ and its terms at q = {LARGEST_Q}"
    return _term_panels(rows, _RATES, frame, what, row="width", column="activation")


def slack(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Root mean squares over training of the terms against m, with their exponents."""
    import altair
    import polars

    kinds = {**_SIZES, **_BOUND}
    table = rates(frame).filter(polars.col("step") > 0)
    sizes = table.group_by("activation", "width", "q", "seed", maintain_order=True).agg(
        polars.col(key).pow(2).mean().sqrt() for key in kinds
    )
    # In linear networks nothing is replaced, and what is left of it is rounding.
    nothing = (polars.col("activation") == "linear") & (polars.col("curve") == _SIZES["replacement"])
    rows = polars.DataFrame(_over_seeds(sizes, kinds, by=["activation", "width", "q"])).filter(~nothing)
    base = altair.Chart().encode(
        altair.X(
            "width:Q",
            title="width m",
            scale=altair.Scale(type="log", nice=False, padding=8),
            axis=altair.Axis(values=table["width"].unique().sort().to_list()),
        ),
        _colour("curve", list(kinds.values())),
    )
    axis = altair.Axis(title="root mean square over training", format="~g", tickCount=4)
    log = altair.Scale(type="log", nice=False, padding=8)
    line = base.mark_line(point=True).encode(altair.Y("mean:Q", axis=axis, scale=log))
    bars = base.mark_rule(opacity=0.5).encode(altair.Y("low:Q", axis=axis, scale=log), altair.Y2("high:Q"))
    fitted = [
        f"{_NAMES[kind]}, q = {q:g}: {slope:+.2f}"
        for kind, q, slope in slack_exponents(table, ["remaining", "replacement"])
        .group_by("activation", "q")
        .agg(polars.col("exponent").mean())
        .sort("activation", "q")
        .rows()
    ]
    layers = altair.layer(bars, line, data=altair.InlineData(values=rows.to_dicts()))
    text = f"Exponent of m in remaining term + replacement, claimed −q: {'; '.join(fitted)}"
    return _titled(_facets(layers, row="q", column="activation"), frame, text)


def norms(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Growth per unit of drive against the norm, every network a point, and the line of slope −1."""
    import altair

    table = rates(frame)
    points, lines, fitted = [], [], []
    for activation in table["activation"].unique().sort():
        found = networks(table.filter(activation=activation))
        used = [each for each in found if each.has_speed]
        if not used:
            fitted.append(f"{_NAMES[activation]} none, as no network grew")
            continue
        points += [
            {
                "activation": activation,
                "width": each.width,
                "q": each.q,
                "norm": each.norm,
                "speed": each.growth / each.drive,
            }
            for each in used
        ]
        middle = statistics.geometric_mean(each.growth / each.drive * each.norm for each in used)
        ends = min(each.norm for each in used), max(each.norm for each in used)
        lines += [{"activation": activation, "norm": end, "speed": middle / end} for end in ends]
        seeds = [
            [one for one in found if one.seed == seed] for seed in dict.fromkeys(one.seed for one in found)
        ]
        mean = statistics.fmean(exponent(each, per_drive=True) for each in seeds)
        fitted.append(f"{_NAMES[activation]} {mean:.2f}".replace("-", "−"))
    log = altair.Scale(type="log", nice=False, padding=8)
    x = altair.X("norm:Q", title="‖W‖₂² or E‖DW‖₂²", scale=log)
    y = altair.Y("speed:Q", title="growth of ln ϱ per unit of drive", scale=log)
    dots = (
        altair.Chart()
        .transform_filter("isValid(datum.width)")
        .mark_point(filled=True, size=45)
        .encode(x, y, _width_colour(table), altair.Shape("q:N", title="q"))
    )
    rule = (
        altair.Chart()
        .transform_filter("!isValid(datum.width)")
        .mark_line(color="#777", strokeDash=[4, 3])
        .encode(x, y)
    )
    layers = altair.layer(rule, dots, data=altair.InlineData(values=[*points, *lines]))
    text = f"Fitted exponents: {', '.join(fitted)}; dashed: −1, every dot a network"
    return _titled(_facets(layers, column="activation"), frame, text, band=False)


def cosines(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Cosines of the error-weighted inputs then and now, over flow time."""
    import altair
    import polars

    table = rates(frame).filter(polars.col("step") > 0)
    by = ["activation", "width", "flow_time"]
    rows = _over_seeds(table.filter(polars.col("q") == LARGEST_Q), _COSINES, by=by)
    base = altair.Chart().encode(altair.X("flow_time:Q", title=_TIME), _width_colour(table))
    line = base.mark_line(strokeWidth=1.6).encode(
        altair.Y("mean:Q", title="cosine", scale=altair.Scale(zero=False))
    )
    band = base.mark_area(opacity=0.12).encode(altair.Y("low:Q", title="cosine"), altair.Y2("high:Q"))
    layers = altair.layer(band, line, data=altair.InlineData(values=rows))
    text = f"Cosine of error-weighted inputs at q = {LARGEST_Q}"
    return _titled(_facets(layers, row="activation", column="curve"), frame, text)


def _term_panels(
    rows: list[dict[str, Any]],
    kinds: dict[str, str],
    frame: polars.DataFrame,
    what: str,
    *,
    row: str,
    column: str,
) -> altair.TopLevelMixin:
    import altair

    x = altair.X("flow_time:Q", title=_TIME)
    base = altair.Chart().encode(x, _colour("curve", list(kinds.values())))
    axis = altair.Axis(title="relative rate", format="~g")
    band = base.mark_area(opacity=0.12).encode(altair.Y("low:Q", axis=axis), altair.Y2("high:Q"))
    line = base.mark_line(strokeWidth=1.6).encode(altair.Y("mean:Q", axis=axis))
    zero = altair.Chart().mark_rule(color="#777", strokeWidth=0.6).encode(y=altair.datum(0))
    layers = altair.layer(zero, band, line, data=altair.InlineData(values=rows))
    return _titled(_facets(layers, row=row, column=column), frame, what)


def _over_seeds(table: polars.DataFrame, kinds: dict[str, str], *, by: Sequence[str]) -> list[dict[str, Any]]:
    """Mean of each column over the seeds, its smallest and its largest: one row for each of ``kinds`` and ``by``.

    Bands are ranges, as intervals of five seeds that grow one by one would jump from moment to moment.
    """
    import polars

    column = polars.col
    return [
        {**row, "curve": name}
        for key, name in kinds.items()
        for row in table.group_by(by)
        .agg(mean=column(key).mean(), low=column(key).min(), high=column(key).max())
        .sort(by)
        .to_dicts()
    ]


def _colour(field: str, order: list[str]) -> altair.Color:
    import altair

    from undertow.drawing.palette import KINDS

    stroke: dict[str, Any] = {
        "symbolType": "stroke",
        "symbolOpacity": 1,
        "symbolStrokeWidth": 3,
        "labelLimit": 260,
    }
    scale = altair.Scale(domain=order, range=list(KINDS[: len(order)]))
    return altair.Color(f"{field}:N", title=None, sort=order, scale=scale, legend=altair.Legend(**stroke))


def _width_colour(table: polars.DataFrame) -> altair.Color:
    import altair

    from undertow.studies.co_correlation.colours import of_widths

    colours = of_widths(table["width"])
    scale = altair.Scale(domain=[int(width) for width in colours], range=list(colours.values()))
    return altair.Color("width:O", title="width m", scale=scale, legend=altair.Legend(symbolOpacity=1))


def _facets(layers: Any, *, column: str, row: str | None = None) -> Any:
    import altair

    titles = {
        "activation": "({"
        + ", ".join(f"'{key}': '{name}'" for key, name in _NAMES.items())
        + "})[datum.value]",
        "width": "'m = ' + datum.value",
        "q": "'q = ' + datum.value",
        "curve": "split(datum.value, ', ')",  # a line each, as a panel is narrow
    }

    def header(name: str) -> altair.Header:
        return altair.Header(labelExpr=titles[name])

    orders = {"activation": list(_NAMES), "curve": list(_COSINES.values())}
    places: dict[str, Any] = {
        "column": altair.Column(f"{column}:O", title=None, header=header(column), sort=orders.get(column))
    }
    if row is not None:
        places["row"] = altair.Row(f"{row}:O", title=None, header=header(row), sort=orders.get(row))
    return layers.properties(width=230, height=160).facet(**places).resolve_scale(y="independent")


def _titled(panels: Any, frame: polars.DataFrame, what: str, *, band: bool = True) -> altair.TopLevelMixin:

    spread = f"; mean of {frame['seed'].n_unique()} seeds, band: smallest to largest" if band else ""
    lines = [what, f"{data_names(frame)}{spread}"]
    title = small_title(lines)
    titled: altair.TopLevelMixin = panels.properties(title=title)
    return titled


_WIDTHS = ("growth",)
FIGURES = (
    Figure("growth-terms", "Rate of co-correlation and the theorems' terms over training", terms, _WIDTHS),
    Figure("growth-norm", "Speed of growth against ‖W‖₂² or E‖DW‖₂²", norms, _WIDTHS),
    Figure("growth-slack", "What the theorems add to the main term, against the width", slack, _WIDTHS),
    Figure("growth-cosines", "Angles between error-weighted inputs over training", cosines, _WIDTHS),
    Figure(
        "growth-activations",
        "Rate of co-correlation and its terms for other activations",
        other_activations,
        ("growth-activations",),
    ),
)
