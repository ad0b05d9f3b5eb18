"""Theorem 4.1 of Wang, Min & Ruan (2024) on records: R_rob(r) ≲ R + r·S(L∘f), its claims and its figures.

With gap(r) = R + r·S − R_rob(r) the inequality as printed says gap ≥ 0; gap/(r·S) is the share of the
allowance r·S that is left over. To first order the rise of the risk is r·E‖∇L‖ ≤ r·√E‖∇L‖² = r·S, so the
share starts at 1 − E‖∇L‖/S ≥ 0. For a linear network the loss is convex in x and so is its supremum in r:
the share can only fall from there.

R_rob comes from attacks and is a lower bound: a negative gap refutes the inequality at that r, a positive one
stands as far as these attacks reach. On a finite sample the theorem is about the sample's own distribution,
so that few test points suffice to test it.

Units of r. The theorem's ball knows no box, so there is none here. For ``authors`` r is in raw pixels
([0, 1] images): the networks see 2r, and S is the slope per raw pixel. For ``paper`` the data of the theorem
*are* the unit vectors, each image scaled by its own norm, and r is relative to it: an MNIST image has a norm
of about 9, so that the paper's attack budget of 0.5 pixels is r ≈ 0.055.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from undertow.core.errors import InputError
from undertow.drawing.titles import small_title
from undertow.studies.co_correlation.setting import PAPER, data_names, shared, width_by_q
from undertow.studies.kit.claim import Claim, Finding, decide
from undertow.studies.kit.exact_tests import median_interval
from undertow.studies.kit.study import Figure, Scale

if TYPE_CHECKING:
    import altair
    import polars

__all__ = ["CLAIMS", "FIGURES", "RADII", "both_sides", "reaches", "risk_bound"]

BUDGET = 0.5
"""The radius of the paper's attacks (§6), the largest one looked at."""
RADII = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, BUDGET)
_THEOREM = f"{PAPER}, Theorem 4.1 (Eq. 8)"
_SIZES: dict[Scale, dict[str, Any]] = {
    "smoke": {"radii": (0.001, BUDGET), "widths": (16,), "q": (0.25,), "test": 10, "seeds": 10},
    "laptop": {"radii": RADII, "widths": (16, 128), "q": (0.25,), "test": 25, "seeds": 10},
    "paper": {
        "radii": RADII,
        "widths": (16, 128, 1024, 8192),
        "q": (-0.15, 0.0, 0.25),
        "test": 300,
        "seeds": 10,
    },
}


def risk_bound(scale: Scale, variant: str) -> dict[str, Any]:
    """The part's configuration: both sides of the inequality before training and after it."""
    size, sections = _SIZES[scale], shared(scale, variant)
    unit = 2.0 if variant == "authors" else 1.0
    return {
        **sections,
        "probe": {
            "measures": [{"name": "risk-bound", "radii": list(size["radii"]), "unit": unit}, "accuracy"],
            "every": "ends",
            "split": "test",
            "limit": size["test"],
        },
        "grid": width_by_q(sections, size),
    }


def both_sides(frame: polars.DataFrame, *, trained: bool = True) -> polars.DataFrame:
    """Theorem 4.1 in numbers, after training or before: one row per network and radius.

    Columns: activation, width, q, seed, r, risk, energy, adversarial, bound, gap, ``left`` = gap/(r·S); ``upper``, a
    proved upper bound of the adversarial risk, in records that have one.
    """
    import polars

    column = polars.col
    network = ["activation", "width", "q", "seed"]
    moment = column("step") > 0 if trained else column("step") == 0
    readings = frame.filter((column("measure") == "risk-bound") & moment)
    if readings.is_empty():
        raise InputError("no record of the adversarial risk and its bound")
    whole = readings.filter(column("key").is_in(["risk", "energy"])).pivot(
        "key", index=network, values="value"
    )
    return (
        readings.filter(column("key").str.contains("@"))
        .with_columns(column("key").str.split_exact("@", 1).struct.rename_fields(["side", "r"]))
        .unnest("key")
        .with_columns(column("r").cast(polars.Float64))
        .pivot("side", index=[*network, "r"], values="value")
        .join(whole, on=network)
        .with_columns(left=column("gap") / (column("r") * column("energy")))
        .sort(*network, "r")
    )


def as_printed(frame: polars.DataFrame, activation: str) -> Finding:
    """Per seed the smallest share of the allowance left over, over the grid and every r up to the budget."""
    import polars

    sides = both_sides(frame).filter(polars.col("activation") == activation)
    worst = sides.group_by("seed").agg(polars.col("left").min()).sort("seed")["left"]
    note = (
        f"effect: smallest gap/(r·S) over the grid and r; {_by_radius(sides)}; {_reach(sides)}; "
        f"{_proved(sides)}{data_names(frame)}; R_rob by attack, a lower bound"
    )
    return decide(worst.to_list(), above=0.0, note=note)


def first_order(frame: polars.DataFrame) -> Finding:
    """Per seed the smallest share left over as r → 0, over the grid: the line through the two smallest r."""
    import polars

    sides = both_sides(frame)
    near, far = sides["r"].unique().sort()[:2]
    left, r = polars.col("left"), polars.col("r")
    limits = sides.group_by("activation", "width", "q", "seed").agg(
        limit=(left.filter(r == near).first() * far - left.filter(r == far).first() * near) / (far - near)
    )
    worst = limits.group_by("seed").agg(polars.col("limit").min()).sort("seed")["limit"]
    note = f"effect: smallest gap/(r·S) over the grid as r → 0; {data_names(frame)}"
    return decide(worst.to_list(), above=0.0, note=note)


def reaches(sides: polars.DataFrame) -> polars.DataFrame:
    """For every network the largest r before the first negative gap (column ``reach``), 0 when there is none.

    ``measured`` is the largest r at all: a reach equal to it is only a lower bound.
    """
    import polars

    gap, r = polars.col("gap"), polars.col("r")
    first_failure = r.filter(gap < 0).min().fill_null(float("inf"))
    return sides.group_by("activation", "width", "q", "seed").agg(
        reach=r.filter(r < first_failure).max().fill_null(0.0), measured=r.max()
    )


def _by_radius(sides: polars.DataFrame) -> str:
    """The sign and the size of the gap over r: the smallest share of the grid, a mean over seeds."""
    import polars

    worst = (
        sides.group_by("r", "seed").agg(polars.col("left").min()).group_by("r").agg(polars.col("left").mean())
    )
    return "by r: " + ", ".join(f"{100 * left:+.2g} % at {r:g}" for r, left in worst.sort("r").rows())


def _reach(sides: polars.DataFrame) -> str:
    reach = reaches(sides)["reach"].to_list()
    return (
        f"as printed it holds up to r = {min(reach):g} … {max(reach):g} "
        f"(median {statistics.median(reach):g} of {len(reach)} networks)"
    )


def _proved(sides: polars.DataFrame) -> str:
    """Up to which r the certificate's upper bound of R_rob proves the inequality, over the networks."""
    import polars

    if "upper" not in sides.columns:
        return ""
    reach = reaches(sides.with_columns(gap=polars.col("bound") - polars.col("upper")))["reach"].to_list()
    return f"R_rob bounded from above it is proved up to r = {min(reach):g} … {max(reach):g}; "


def sides_by_radius(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Both sides of the inequality against r, after training, each less R: networks differ in R far more."""
    import altair
    import polars

    rises = {
        "R_rob(r) − R, by attack": polars.col("adversarial") - polars.col("risk"),
        "r·S, the allowance": polars.col("bound") - polars.col("risk"),
    }
    sides = _some_q(both_sides(frame))
    parts = [sides.with_columns(value=rise, curve=polars.lit(name)) for name, rise in rises.items()]
    horizontal = altair.X("r:Q", title=_radius(frame), axis=altair.Axis(tickCount=5))
    layers = _curves(
        polars.concat(parts),
        horizontal,
        altair.Axis(title="rise of the mean loss above R"),
        curves=list(rises),
    )
    return _panels(layers, frame, "Adversarial risk and its bound after training")


def left_over(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """The share of the allowance r·S that is left over, against r, before and after training."""
    import altair
    import polars

    moments = {"after training": True, "before training": False}
    parts = [
        _some_q(both_sides(frame, trained=trained)).with_columns(value="left", curve=polars.lit(name))
        for name, trained in moments.items()
    ]
    scale = altair.Scale(type="log", nice=False)
    marks = altair.Axis(values=[0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.5])
    horizontal = altair.X("r:Q", title=_radius(frame), scale=scale, axis=marks)
    vertical = altair.Axis(title="gap / (r·S)", format="%")
    layers = _curves(polars.concat(parts), horizontal, vertical, curves=list(moments))
    zero = altair.Chart().mark_rule(color="#444", strokeWidth=0.6).encode(y=altair.datum(0))
    return _panels(
        altair.layer(zero, layers, data=layers.data),
        frame,
        "Gap = R + r·S − R_rob(r), below 0 the inequality fails",
    )


def _curves(tidy: polars.DataFrame, x: altair.X, axis: altair.Axis, *, curves: list[str]) -> Any:
    """Median over seeds with its interval, coloured by width, dashed by kind of curve."""
    import altair

    from undertow.studies.co_correlation.colours import of_widths

    stroke: dict[str, Any] = {"symbolType": "stroke", "symbolOpacity": 1, "symbolStrokeWidth": 2}
    colours = of_widths(tidy["width"].unique())
    shades = altair.Scale(domain=[int(width) for width in colours], range=list(colours.values()))
    colour = altair.Color("width:O", title="width m", scale=shades, legend=altair.Legend(**stroke))
    kinds = altair.Legend(**stroke, symbolSize=300, labelLimit=220)
    dash = altair.StrokeDash("curve:N", title=None, sort=curves, legend=kinds)
    data = altair.InlineData(values=_over_seeds(tidy))
    shown = ["activation:N", "width:Q", "q:Q", "r:Q", "curve:N"]
    numbers = [altair.Tooltip(f"{name}:Q", format=".4g") for name in ("median", "low", "high")]
    base = altair.Chart().encode(x, colour, tooltip=[*shown, *numbers])
    band = base.mark_area(opacity=0.12).encode(
        altair.Y("low:Q", axis=axis), altair.Y2("high:Q"), altair.Detail("curve:N")
    )
    line = base.mark_line(strokeWidth=1.6).encode(altair.Y("median:Q", axis=axis), dash)
    # What a pointer finds: a point at every radius, not seen.
    points = base.mark_point(opacity=0, filled=True).encode(altair.Y("median:Q", axis=axis))
    return altair.layer(band, line, points, data=data)


def _radius(frame: polars.DataFrame) -> str:
    raw = "authors" in frame["variant"]
    return "radius r, in raw pixels" if raw else "radius r, of inputs with norm 1"


def _some_q(sides: polars.DataFrame) -> polars.DataFrame:
    """The smallest, the middle and the largest q: as many rows of panels as can be read."""
    import polars

    q = sides["q"].unique().sort().to_list()
    return sides.filter(polars.col("q").is_in({q[0], q[len(q) // 2], q[-1]}))


def _over_seeds(tidy: polars.DataFrame) -> list[dict[str, Any]]:
    """Median of ``value`` over seeds with its interval, for every network of the grid, radius and curve."""
    by = ["activation", "width", "q", "r", "curve"]
    rows = []
    for group in tidy.sort(*by, "seed").partition_by(by, maintain_order=True):
        values = group["value"].to_list()
        median = statistics.median(values)
        low, high, _ = median_interval(values) or (median, median, 0.0)
        rows.append({**group.select(by).row(0, named=True), "median": median, "low": low, "high": high})
    return rows


def _panels(layers: Any, frame: polars.DataFrame, what: str) -> altair.TopLevelMixin:
    """One panel for each activation and q, on its own scale."""
    import altair

    names = "datum.value == 'relu' ? 'ReLU networks' : 'linear networks'"
    seeds = frame["seed"].n_unique()
    found = median_interval([0.0] * seeds)
    band = f", band: its interval, which covers {found[2]:.1%}" if found else ""
    text = f"{what} ({data_names(frame)}); median of {seeds} seeds{band}"
    panels: altair.TopLevelMixin = (
        layers.properties(width=300, height=190)
        .facet(
            column=altair.Column("activation:N", title=None, header=altair.Header(labelExpr=names)),
            row=altair.Row("q:O", title=None, header=altair.Header(labelExpr="'q = ' + datum.value")),
        )
        .resolve_scale(y="independent")
        .properties(title=small_title(text))
    )
    return panels


FIGURES = (
    Figure(
        "theorem-4-1",
        "Adversarial risk R_rob(r) and its bound R + r·S(L∘f)",
        sides_by_radius,
        parts=("risk-bound",),
    ),
    Figure("theorem-4-1-gap", "Share of the allowance r·S(L∘f) left over", left_over, parts=("risk-bound",)),
)
CLAIMS = (
    Claim(
        "C-b.first-order",
        "R_rob(r) ≤ R + r·S(L∘f) to first order, as r → 0 (linear and ReLU networks).",
        _THEOREM,
        first_order,
        parts=("risk-bound",),
        figure="theorem-4-1-gap",
        check="as r → 0 the share is 1 − E‖∇L‖/S(L∘f), which is no less than 0 in any network (Cauchy–Schwarz)",
    ),
    Claim(
        "C-b.linear",
        "R_rob(r) ≤ R + r·S(L∘f) as printed, at every r up to the paper's 0.5 (linear networks).",
        _THEOREM,
        lambda frame: as_printed(frame, "linear"),
        parts=("risk-bound",),
        figure="theorem-4-1-gap",
    ),
    Claim(
        "C-b.relu",
        "R_rob(r) ≤ R + r·S(L∘f) as printed, at every r up to the paper's 0.5 (ReLU networks).",
        _THEOREM,
        lambda frame: as_printed(frame, "relu"),
        parts=("risk-bound",),
        figure="theorem-4-1-gap",
    ),
)
