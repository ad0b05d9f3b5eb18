"""What is added to figures leaves them valid: Vega-Lite itself compiles every one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import vl_convert

from undertow.report.interaction import interactive, panel_columns

ROWS = [
    {"t": t, "v": t * k, "low": t * k - 1, "high": t * k + 1, "width": k, "kind": kind, "panel": panel}
    for t in range(4)
    for k in (1, 2)
    for kind in ("a", "b")
    for panel in ("left", "right")
]
X = {"field": "t", "type": "quantitative"}
Y = {"field": "v", "type": "quantitative"}
COLOUR = {"field": "width", "type": "ordinal"}
DASH = {"field": "kind", "type": "nominal"}
LINE: dict[str, Any] = {"mark": "line", "encoding": {"x": X, "y": Y, "color": COLOUR}}
BAND = {
    "mark": {"type": "area", "opacity": 0.12},
    "encoding": {"y": {"field": "low", "type": "quantitative"}, "y2": {"field": "high"}},
}
LAYERED: dict[str, Any] = {
    "encoding": {"x": X, "color": COLOUR},
    "layer": [BAND, {"mark": "line", "encoding": {"y": Y, "strokeDash": DASH}}],
}
HEAT = {
    "mark": "rect",
    "encoding": {
        "x": {"field": "width", "type": "ordinal"},
        "y": DASH,
        "color": {"field": "v", "type": "quantitative"},
    },
}
FIGURES: dict[str, dict[str, Any]] = {
    "line": LINE,
    "layered": LAYERED,
    "facet": {"facet": {"column": {"field": "panel", "type": "nominal"}}, "spec": LAYERED},
    "own axes": {
        "facet": {"field": "panel", "type": "nominal"},
        "columns": 2,
        "spec": LAYERED,
        "resolve": {"scale": {"y": "independent"}},
    },
    "row encoding": {
        "mark": "line",
        "encoding": {**LINE["encoding"], "row": {"field": "panel", "type": "nominal"}},
    },
    "side by side": {"hconcat": [LINE, LAYERED]},
    "heat map": HEAT,
}


def units(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if "mark" in node:
            yield node
        for name, value in node.items():
            if name != "config":
                yield from units(value)
    elif isinstance(node, list):
        for each in node:
            yield from units(each)


def params(spec: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found = [param for unit in units(spec) for param in unit.get("params", ())]
    assert len({param["name"] for param in found}) == len(found), "names of parameters must differ"
    return {param["name"]: param for param in found}


@pytest.mark.parametrize("name", FIGURES)
def test_vega_lite_accepts_every_figure(name: str) -> None:
    spec = interactive({**FIGURES[name], "data": {"values": ROWS}})
    compiled = vl_convert.vegalite_to_vega(spec)
    assert compiled["marks"]
    assert vl_convert.vegalite_to_svg(spec).startswith("<svg")


def test_the_picture_stays_the_same() -> None:
    plain = {**LINE, "data": {"values": ROWS}}
    before, after = (vl_convert.vegalite_to_svg(spec) for spec in (plain, interactive(plain)))
    for part in ("mark-line", "role-legend", "role-axis"):
        assert before.count(part) == after.count(part)


def test_zoom_is_bound_once_for_each_panel_with_axes() -> None:
    assert [name for name in params(interactive(FIGURES["side by side"])) if "zoom" in name] == [
        "zoom0",
        "zoom1",
    ]
    assert [name for name in params(interactive(LAYERED)) if "zoom" in name] == ["zoom0"]
    assert not [name for name in params(interactive(HEAT)) if "zoom" in name]


def test_axes_that_panels_do_not_share_are_not_zoomed() -> None:
    assert params(interactive(FIGURES["own axes"]))["zoom0"]["select"]["encodings"] == ["x"]
    assert params(interactive(FIGURES["facet"]))["zoom0"]["select"]["encodings"] == ["x", "y"]


def test_legends_fade_what_is_not_chosen_and_keep_the_marks_own_opacity() -> None:
    band, line = list(units(interactive(LAYERED)))[:2]
    assert band["encoding"]["opacity"]["condition"]["value"] == 0.12
    assert line["encoding"]["opacity"]["condition"]["value"] == 1.0
    assert line["encoding"]["opacity"]["condition"]["test"] == {
        "and": [{"param": "legend0"}, {"param": "legend1"}]
    }


def test_lines_tell_their_values_through_points_that_do_not_show() -> None:
    points = list(units(interactive(LINE)))[-1]
    assert points["mark"]["opacity"] == 0
    assert [each["field"] for each in points["encoding"]["tooltip"]] == ["t", "v", "width"]
    own = [{"field": "v", "title": "its own words"}]
    line, points = units(interactive({"mark": "line", "encoding": {**LINE["encoding"], "tooltip": own}}))
    assert points["encoding"]["tooltip"] == own
    assert "tooltip" not in line["encoding"]
    assert line["mark"]["tooltip"] is None  # it would tell the values of its first point, wherever one points


def test_points_that_a_figure_has_already_do_the_telling() -> None:
    points = {"mark": {"type": "point", "opacity": 0}, "encoding": {"y": Y, "tooltip": [{"field": "v"}]}}
    spec = interactive({**LAYERED, "layer": [*LAYERED["layer"], points]})
    assert len(spec["layer"]) == 3
    assert spec["layer"][2]["encoding"]["opacity"]["value"] == 0  # faded or not, they do not show


def test_a_figure_with_its_own_selections_keeps_them() -> None:
    own = {**LINE, "params": [{"name": "brush", "select": "interval"}]}
    assert list(params(interactive(own))) == ["brush"]


def test_the_figure_given_is_not_changed() -> None:
    before = repr(FIGURES)
    for figure in FIGURES.values():
        interactive(figure)
    assert repr(FIGURES) == before


def test_panels_are_counted_across() -> None:
    counts = {name: panel_columns(figure, ROWS) for name, figure in FIGURES.items()}
    assert counts == {
        "line": 1, "layered": 1, "facet": 2, "own axes": 2, "row encoding": 1, "side by side": 2, "heat map": 1
    }  # fmt: skip
