"""The angle to the support vector machine over time and along the L2 path, and the plane with both directions."""

from __future__ import annotations

import math

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.drawing.titles import small_title
from undertow.studies.kit.per_seed import mean
from undertow.studies.kit.readings import after_training, measured, split_key
from undertow.studies.kit.statements import Figures
from undertow.studies.margin.curves_of_loss import with_time
from undertow.studies.margin.linear.claims import angles_over_time, path_angles

__all__ = ["FIGURES"]

FIGURES = Figures(parts=("svm",))


@FIGURES.add("svm-angle", "Gradient descent turns to the support vector machine like 1/log t")
def angle(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """The angle against log t, both logarithmic, with c/log t through the first point."""
    late = angles_over_time(frame, after=3.0)
    late = late.with_columns(time=polars.col("log_time").log(10).round(1))  # networks at the same places
    own = late.group_by("seed", "d", "time").agg(value=polars.col("angle").mean())
    own = own.with_columns(time=10 ** polars.col("time"), kind=polars.format("d = {}", polars.col("d")))
    first = mean(own.filter(polars.col("time") == polars.col("time").min())["value"])
    start = float(own["time"].min())  # type: ignore[arg-type]
    line = [
        {"time": t, "value": first * start / t, "kind": "c/log t", "seed": 0} for t in own["time"].unique()
    ]
    shown = polars.concat(
        [
            own.select("time", "value", "kind", "seed"),
            polars.DataFrame(line, schema_overrides={"seed": own["seed"].dtype}),
        ]
    )
    return LinePlot(
        x="time",
        x_axis=Axis("log t", log=True),
        y=Axis("angle to the SVM, radians", log=True),
        colour="kind",
        title="Linear classifiers on separable data",
    ).draw(shown.sort("time"))


@FIGURES.add("l2-path", "The L2 path turns to the support vector machine like 1/log(1/λ)")
def path(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """The angle along the path against log₁₀ 1/λ."""
    return LinePlot(
        x="fallen",
        x_axis=Axis("log₁₀ 1/λ", log=True),
        y=Axis("angle to the SVM, radians", log=True),
        colour="kind",
        points=True,
        title="Minima of the regularised logistic loss",
    ).draw(path_angles(frame).with_columns(kind=polars.format("d = {}", polars.col("d"))))


@FIGURES.add(
    "svm-far", "Margin and multipliers of linear classifiers at losses no float can hold", parts=["svm-far"]
)
def far_away(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """What is missing of the largest margin, and how far the multipliers are from the duals, against log₁₀ 1/𝓛."""
    loss = after_training(frame, "margins", "log10-loss").select("seed", fallen=-polars.col("value"))
    names = {"share": "1 − margin/largest margin", "duals": "distance of the multipliers from the duals"}
    last = (
        after_training(frame, "hard-margin")
        .filter(polars.col("key").is_in(list(names)))
        .join(loss, on="seed")
    )
    value = (
        polars.when(polars.col("key") == "share").then(1 - polars.col("value")).otherwise(polars.col("value"))
    )
    points = last.with_columns(
        value=value.clip(lower_bound=1e-16), kind=polars.col("key").replace_strict(names)
    )
    chart = altair.Chart(altair.InlineData(values=points.select("fallen", "value", "kind").to_dicts()))
    drawn: altair.TopLevelMixin = (
        chart.mark_point(filled=True, size=45)
        .encode(
            Axis("log₁₀ 1/𝓛").channel(altair.X, "fallen", points["fallen"]),
            Axis("relative", log=True).channel(altair.Y, "value", points["value"]),
            altair.Color("kind:N", title=None),
            tooltip=["kind:N", "fallen:Q", "value:Q"],
        )
        .properties(
            width=340, height=240, title=small_title("Linear classifiers by η = α/𝓛, one point per seed")
        )
    )
    return drawn


@FIGURES.add("svm-plane", "In the plane: gradient descent's line and the L2 path's, moving with t and λ")
def plane(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Points of the first seed, the machine's decision line, and that of gradient descent or the L2 path at a moment.

    A slider chooses the moment; without one, as in print, the last line is drawn over faint earlier ones.
    """
    own = frame.filter(polars.col("d") == 2, polars.col("seed") == polars.col("seed").min())
    points = split_key(measured(own, "plane-points"), ["side", "i"]).pivot("side", index="i", values="value")
    reach = float(
        points.select(polars.max_horizontal(polars.col("x").abs(), polars.col("y").abs()).max()).item()
    )
    heading = measured(own, "hard-margin", "heading").select("seed", "d", "step", "value")
    times = with_time(heading, own, by=["seed", "d"]).sort("step")
    lines = []
    for place, (angle, log_time) in enumerate(times.select("value", "log_time").iter_rows()):
        lines += _line(angle, reach, "gradient descent", place, f"log t = {log_time:.3g}")
    last = max(len(times) - 1, 0)
    path = split_key(measured(own, "l2-path"), ["side", "penalty"], at="@").filter(
        polars.col("side") == "heading"
    )
    order = path.with_columns(p=polars.col("penalty").str.strip_prefix("1e").cast(polars.Float64)).sort(
        "p", descending=True
    )
    for place, (angle, penalty) in enumerate(order.select("value", "penalty").iter_rows()):
        at = round(place * last / max(len(order) - 1, 1))
        lines += _line(angle, reach, "L2 path", at, f"λ = {penalty}")
    best = measured(own, "hard-margin", "svm-heading")["value"][0]
    lines += _line(best, reach, "support vector machine", -1, "")
    return _picture(points, lines, reach, last)


def _line(heading: float, reach: float, kind: str, place: int, when: str) -> list[dict[str, object]]:
    """The decision line ⟨w, x⟩ = 0 of a w with this heading, both ends."""
    across, up = -math.sin(heading) * reach, math.cos(heading) * reach
    about = {"kind": kind, "place": place, "when": when}
    return [{**about, "x": side * across, "y": side * up, "end": side} for side in (-1, 1)]


def _picture(
    points: polars.DataFrame, lines: list[dict[str, object]], reach: float, last: int
) -> altair.TopLevelMixin:
    moment = altair.param(
        name="moment", value=last, bind=altair.binding_range(min=0, max=last, step=1, name="moment ")
    )
    scale = altair.Scale(domain=[-reach, reach], nice=False)
    x, y = altair.X("x:Q", scale=scale, title=None), altair.Y("y:Q", scale=scale, title=None)
    dots = altair.Chart(altair.InlineData(values=points.select("x", "y", "label").to_dicts())).mark_point(
        filled=True, size=45
    )
    dots = dots.encode(x, y, altair.Shape("label:N", title="class"), color=altair.value("#444"))
    drawn = altair.Chart(altair.InlineData(values=lines)).mark_line(strokeWidth=1.8, clip=True)
    drawn = drawn.encode(
        x,
        y,
        altair.Color("kind:N", title=None),
        altair.Detail("place:N"),
        opacity=altair.condition(
            "datum.place < 0 || datum.place == moment", altair.value(1.0), altair.value(0.08)
        ),
        tooltip=["kind:N", "when:N"],
    )
    whole: altair.TopLevelMixin = (
        altair.layer(drawn, dots)
        .add_params(moment)
        .properties(width=320, height=320, title=small_title("Decision lines of the first seed, d = 2"))
    )
    return whole
