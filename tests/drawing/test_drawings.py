"""Heat maps and curves: the numbers they carry, the colours they take."""

from __future__ import annotations

import re
from typing import Any

import polars
import pytest
import vl_convert

from undertow.core.errors import InputError
from undertow.drawing.axis import Axis
from undertow.drawing.heat_map import HeatMap
from undertow.drawing.line_plot import LinePlot
from undertow.drawing.shades import shade, shades
from undertow.studies.co_correlation.colours import of_q, of_widths


def values_in(figure: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def look(part: Any) -> None:
        if isinstance(part, dict) and "mean" in part:
            found.append(part)
        elif isinstance(part, dict | list):
            for each in part.values() if isinstance(part, dict) else part:
                look(each)

    look(figure.to_dict())
    return found


def grid() -> polars.DataFrame:
    return polars.DataFrame(
        [
            {"width": width, "q": q, "seed": seed, "epoch": epoch, "value": width * (1 + q) + seed + epoch}
            for width in (16, 64)
            for q in (-0.15, 0.25)
            for seed in (0, 2)
            for epoch in (0, 1)
        ]
    )


def test_a_heat_map_carries_means_and_extremes_over_seeds() -> None:
    last = grid().filter(polars.col("epoch") == 1)
    figure = HeatMap(x="width", y="q", value="value", title="made up", beside=("epoch",)).draw(last)
    cells = {(row["width"], row["q"]): row for row in values_in(figure)}
    assert cells[16, 0.25]["mean"] == pytest.approx(16 * 1.25 + 1 + 1)
    assert (cells[16, 0.25]["low"], cells[16, 0.25]["high"]) == (21.0, 23.0)
    assert cells[64, 0.25]["pale"]
    assert not cells[16, -0.15]["pale"]
    assert "made up; mean of 2 seeds" in vl_convert.vegalite_to_svg(figure.to_json())
    fixed = HeatMap(x="width", y="q", value="value", title="", domain=(0.0, 1000.0)).draw(last)
    assert not any(row["pale"] for row in values_in(fixed))


def test_a_wide_range_of_positive_values_is_coloured_by_its_logarithm() -> None:
    wide = grid().with_columns(value=10.0 ** (polars.col("width") / 16))
    figure = HeatMap(x="width", y="q", value="value", title="").draw(wide)
    assert '"log"' in figure.to_json()
    assert '"log"' not in HeatMap(x="width", y="q", value="value", title="").draw(grid()).to_json()


def test_a_cell_without_a_number_takes_no_part_in_the_colours() -> None:
    spoilt = grid().with_columns(
        value=polars.when((polars.col("width") == 64) & (polars.col("q") > 0))
        .then(float("inf"))
        .otherwise(polars.col("value"))
    )
    figure = HeatMap(x="width", y="q", value="value", title="").draw(spoilt)
    cells = {(row["width"], row["q"]): row for row in values_in(figure)}
    assert cells[64, 0.25]["pale"] is None
    assert cells[64, -0.15]["pale"]
    domain = figure.to_dict()["layer"][0]["encoding"]["color"]["scale"]["domain"]
    assert domain == [cells[16, -0.15]["mean"], cells[64, -0.15]["mean"]]
    with pytest.raises(InputError, match="no finite"):
        HeatMap(x="width", y="q", value="value", title="").draw(grid().with_columns(value=float("nan")))


def test_a_cosine_of_one_is_orange_and_of_minus_one_blue() -> None:
    cells = polars.DataFrame({"feature": [0, 1, 2], "neuron": 0, "seed": 0, "value": [1.0, -1.0, 0.0]})
    figure = HeatMap(
        x="feature", y="neuron", cosines=True, side=90, number=".1f", letters=8, order=[2, 0, 1]
    ).draw(cells)
    picture = vl_convert.vegalite_to_svg(figure.to_json())
    cell = r'cosine: ([−\d]+);[^>]*d="M([\d.]+),[^>]*fill="rgb\((\d+), (\d+), (\d+)\)'
    found = {
        name: (float(left), int(red), int(blue)) for name, left, red, _, blue in re.findall(cell, picture)
    }
    assert found["1"][1] > 2 * found["1"][2]
    assert found["−1"][2] > 2 * found["−1"][1]
    assert sorted(found, key=lambda name: found[name][0]) == ["0", "1", "−1"]
    assert all(f">{text}</text>" in picture for text in ("1.0", "−1.0", "0.0"))


def test_curves_take_the_colours_they_are_given_and_name_every_point() -> None:
    tidy = grid().filter(polars.col("q") == 0.25)
    figure = LinePlot(
        x="epoch",
        y=Axis("ϱ", domain=(0.0, 100.0)),
        colour="width",
        colours=of_widths([16, 64]),
        title="made up",
    ).draw(tidy)
    text = figure.to_json()
    assert all(colour in text for colour in of_widths([16, 64]).values())
    point = next(row for row in values_in(figure) if row["width"] == "16" and row["epoch"] == 1)
    assert (point["mean"], point["low"], point["high"], point["seeds"]) == (22.0, 21.0, 23.0, 2)
    picture = vl_convert.vegalite_to_svg(text)
    assert "made up; mean of 2 seeds" in picture


def test_one_value_has_one_colour_whatever_else_is_shown() -> None:
    assert of_widths([16, 64])["64"] == of_widths([64, 512, 8192])["64"]
    assert of_q([0.05])["0.05"] == of_q([-0.15, 0.05, 0.25])["0.05"]
    assert len(set(of_widths(2**k for k in range(4, 14)).values())) == 10
    assert shades([0, 1], between=(0, 1)) == {"0": shade(0.0), "1": shade(1.0)}
