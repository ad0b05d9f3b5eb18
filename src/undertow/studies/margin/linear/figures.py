"""The angle to the support vector machine over time and along the L2 path, and the plane with both directions."""

from __future__ import annotations

from typing import Any

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.drawing.moving_lines import MovingLines
from undertow.drawing.palette import KINDS
from undertow.drawing.scatter_plot import ScatterPlot
from undertow.studies.kit.readings import after_training, measured, split_key
from undertow.studies.kit.statements import Figures
from undertow.studies.margin.curves_of_loss import levelled, with_power_law, with_time
from undertow.studies.margin.linear.claims import along_path, angles_over_time, path_angles

__all__ = ["FIGURES"]

FIGURES = Figures(parts=("svm",))


def _beside_law(curves: polars.DataFrame, x: Axis, law: str, **looks: Any) -> altair.TopLevelMixin:
    """Angles of every d (columns seed, d, fallen, value), and dashed c/x, called ``law``."""
    kinds = [f"d = {d}" for d in sorted(set(curves["d"]))]
    own = curves.select("seed", "fallen", "value", kind=polars.format("d = {}", polars.col("d")))
    return LinePlot(
        x="fallen",
        x_axis=x,
        y=Axis("angle to the SVM, radians", log=True),
        colour="kind",
        colours=dict(zip((*kinds, law), (*KINDS[: len(kinds)], KINDS[-1]), strict=True)),
        dash="kind",
        dashes={**dict.fromkeys(kinds, (1, 0)), law: (4, 3)},
        **looks,
    ).draw(with_power_law(own, "fallen", -1.0, kind=law))


@FIGURES.add("svm-angle", "Gradient descent turns to the support vector machine like 1/log t")
def angle(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """The angle against log t, both logarithmic; dashed: c/log t through the first point."""
    late = angles_over_time(frame, after=3.0).select("seed", "d", fallen="log_time", value="angle")
    title = "Linear classifiers on separable data"
    return _beside_law(levelled(late, "d"), Axis("log t", log=True), "c/log t", title=title)


@FIGURES.add("l2-path", "The L2 path turns to the support vector machine like 1/log(1/λ)")
def path(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """The angle along the path against log₁₀ 1/λ, both logarithmic; dashed: c/log(1/λ) through the first point."""
    title = "Minima of the regularised logistic loss"
    return _beside_law(
        path_angles(frame), Axis("log₁₀ 1/λ", log=True), "c/log(1/λ)", points=True, title=title
    )


@FIGURES.add(
    "svm-far", "Margin and multipliers of linear classifiers at losses no float can hold", parts=["svm-far"]
)
def far_away(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """What is missing of the largest margin, and how far the multipliers are from the duals, against log₁₀ 1/𝓛."""
    names = {"share": "1 − margin/largest margin", "duals": "distance of the multipliers from the duals"}
    loss = after_training(frame, "margins", "log10-loss").select("seed", fallen=-polars.col("value"))
    last = after_training(frame, "hard-margin").filter(polars.col("key").is_in(list(names)))
    value = polars.col("value")
    value = polars.when(polars.col("key") == "share").then(1 - value).otherwise(value).clip(lower_bound=1e-16)
    return ScatterPlot(
        x="fallen",
        y="value",
        x_axis=Axis("log₁₀ 1/𝓛"),
        y_axis=Axis("relative", log=True),
        colour="kind",
        title="Linear classifiers by η = α/𝓛, one point per seed",
    ).draw(
        last.join(loss, on="seed").select("fallen", value=value, kind=polars.col("key").replace_strict(names))
    )


@FIGURES.add("svm-plane", "In the plane: gradient descent's line and the L2 path's, moving with t and λ")
def plane(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Points of the first seed, and the decision lines of the machine, of gradient descent and of the L2 path."""
    own = frame.filter(polars.col("d") == 2, polars.col("seed") == polars.col("seed").min())
    points = split_key(measured(own, "plane-points"), ["side", "i"]).pivot("side", index="i", values="value")
    heading = measured(own, "hard-margin", "heading").select("seed", "d", "step", "value")
    times = with_time(heading, own, by=["seed", "d"]).sort("step")
    picture = MovingLines(points, last=len(times) - 1, title="Decision lines of the first seed, d = 2")
    for place, (angle, log_time) in enumerate(times.select("value", "log_time").iter_rows()):
        picture.add("gradient descent", angle, place, f"log t = {log_time:.3g}")
    path = along_path(own, "heading").select("value", "penalty").rows()
    for place, (angle, penalty) in enumerate(path):
        at = round(place * picture.last / max(len(path) - 1, 1))
        picture.add("L2 path", angle, at, f"λ = {penalty}")
    picture.add("support vector machine", measured(own, "hard-margin", "svm-heading")["value"][0])
    return picture.draw()
