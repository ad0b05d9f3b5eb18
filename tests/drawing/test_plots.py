"""The line plot and the scatter plot: what they carry, in which order, and what they say of it."""

from __future__ import annotations

import json
from typing import Any

import polars
import pytest
import vl_convert

from undertow.drawing.axis import Axis
from undertow.drawing.heat_map import HeatMap
from undertow.drawing.line_plot import LinePlot
from undertow.drawing.palette import KINDS
from undertow.drawing.scatter_plot import ScatterPlot
from undertow.studies.kit.exact_tests import median_interval


def losses() -> polars.DataFrame:
    return polars.DataFrame(
        [
            {"rule": rule, "start": start, "step": step, "seed": seed, "value": step + 10.0 * seed**2}
            for start in ("small", "large")
            for rule in ("gd", "adam")
            for step in (1, 10, 100)
            for seed in (0, 1, 2)
        ]
    )


def drawn(chart: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The figure, which must also be one for the compiler, and its rows."""
    spec = json.loads(chart.to_json())
    vl_convert.vegalite_to_svg(spec)
    (rows,) = spec["datasets"].values() if "datasets" in spec else ([*_inline(spec)],)
    return spec, rows


def _inline(part: Any) -> list[dict[str, Any]]:
    if isinstance(part, dict):
        if isinstance(part.get("data"), dict) and "values" in part["data"]:
            return list(part["data"]["values"])
        return next((found for each in part.values() if (found := _inline(each))), [])
    if isinstance(part, list):
        return next((found for each in part if (found := _inline(each))), [])
    return []


def test_lines_are_means_with_ranges_and_words_take_distinct_colours_in_the_order_given() -> None:
    plot = LinePlot(
        x="step", y="loss", colour="rule", colours=["sam", "adam", "gd"], column="start", title="made up"
    )
    spec, rows = drawn(plot.draw(losses()))
    point = next(row for row in rows if (row["rule"], row["start"], row["step"]) == ("gd", "small", 10))
    assert (point["mean"], point["low"], point["high"], point["seeds"]) == (
        pytest.approx(10 + 50 / 3),
        10.0,
        50.0,
        3,
    )
    scale = spec["spec"]["layer"][0]["encoding"]["color"]["scale"]
    assert scale == {"domain": ["adam", "gd"], "range": [KINDS[1], KINDS[2]]}  # as if sam were there
    assert spec["facet"]["column"]["sort"] == ["small", "large"]  # as the rows come
    assert spec["title"]["text"] == "made up; mean of 3 seeds, band: smallest to largest"


@pytest.mark.parametrize(
    "plot",
    [
        LinePlot(x="step", y="loss", colour="rule"),
        HeatMap(x="step", y="rule"),
    ],
)
def test_means_are_the_same_to_the_last_digit_in_whatever_order_networks_come(
    plot: LinePlot | HeatMap,
) -> None:
    table = losses().with_columns(value=polars.col("seed").replace_strict([0, 1, 2], [1e16, 1.0, -1.1e16]))
    _, rows = drawn(plot.draw(table))
    for shuffle in range(8):
        assert drawn(plot.draw(table.sample(fraction=1, shuffle=True, seed=shuffle)))[1] == rows


def test_medians_come_with_their_interval_and_say_what_it_covers() -> None:
    spec, rows = drawn(LinePlot(x="step", y="loss", colour="rule", interval=median_interval).draw(losses()))
    point = next(row for row in rows if (row["rule"], row["step"]) == ("gd", 10))
    assert (point["mean"], point["low"], point["high"]) == (20.0, 10.0, 50.0)
    assert spec["title"]["text"].startswith("median of 3 seeds, band: its interval, which covers ")


def test_axes_rules_dashes_and_panels() -> None:
    plot = LinePlot(
        x="step",
        x_axis=Axis("steps", log=True, ticks="data"),
        y=Axis("loss", form=".1f", domain=(0.0, 60.0)),
        colour="rule",
        dash="rule",
        dashes={"gd": [1, 0], "adam": [4, 2]},
        column="start",
        wrap=1,
        own_y=True,
        rules=[0.0, 25.0],
        title=["first", "second"],
    )
    spec, _ = drawn(plot.draw(losses()))
    zero, line, *_rest = spec["spec"]["layer"]
    assert ("strokeDash" in zero["mark"], "strokeDash" in line["mark"]) == (False, True)
    band = spec["spec"]["layer"][2]["encoding"]
    assert (band["x"]["axis"]["values"], band["x"]["scale"]["type"]) == ([1, 10, 100], "log")
    assert (band["y"]["scale"]["domain"], band["y"]["axis"]["format"]) == ([0.0, 60.0], ".1f")
    dashed = spec["spec"]["layer"][3]["encoding"]["strokeDash"]["scale"]
    assert dashed == {"domain": ["gd", "adam"], "range": [[1, 0], [4, 2]]}
    assert (spec["columns"], spec["resolve"]["scale"]["y"]) == (1, "independent")
    assert spec["title"]["text"][0] == "first"
    assert spec["title"]["text"][1].startswith("second; mean of 3 seeds")


@pytest.mark.parametrize(("panels", "apart"), [(2, False), (3, True), (4, False)])
def test_no_axis_stands_where_the_last_line_has_no_panel(panels: int, apart: bool) -> None:
    table = polars.concat(
        losses().with_columns(start=polars.lit(f"start {number}")) for number in range(panels)
    )
    spec, _ = drawn(
        LinePlot(x="step", y="loss", colour="rule", column="start", wrap=2, own_y=True).draw(table)
    )
    assert spec["resolve"]["scale"] == {"y": "independent"}
    assert spec["resolve"].get("axis") == ({"x": "independent"} if apart else None)


def test_every_point_of_a_scatter_plot_is_a_row_and_theory_is_a_line_through_them() -> None:
    points = polars.DataFrame(
        {"norm": [1.0, 4.0], "speed": [2.0, 0.5], "width": [16, 64], "kind": ["a", "b"]}
    )
    theory = polars.DataFrame({"norm": [1.0, 4.0], "speed": [2.0, 0.5]})
    plot = ScatterPlot(
        x="norm",
        y="speed",
        x_axis=Axis("norm", log=True),
        y_axis=Axis("speed", log=True),
        colour="width",
        shape="kind",
        title="made up",
    )
    spec, rows = drawn(plot.draw(points, theory=theory))
    assert [row["theory"] for row in rows] == [False, False, True, True]
    assert [layer["mark"]["type"] for layer in spec["layer"]] == ["line", "point"]
    alone, _ = drawn(plot.draw(points))
    assert [layer["mark"]["type"] for layer in alone["layer"]] == ["point"]
