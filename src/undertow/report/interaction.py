"""What a page adds to any Vega-Lite figure: tooltips, zoom and pan, legends that single out series.

A study draws its figures for paper. Here they are added to: what a figure already says about selections, opacity or
tooltips stays as it is, except that the points of a line tell their values instead of the line as a whole, which
would tell those of its first point wherever one points at it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

__all__ = ["interactive", "panel_columns"]

Spec = dict[str, Any]

_LEGENDS = ("color", "stroke", "fill", "shape", "strokeDash")
_SIDE_BY_SIDE = ("hconcat", "vconcat", "concat")
_FADED = 0.06
_TRANSLUCENT = {"area": 0.7, "point": 0.7, "circle": 0.7, "square": 0.7, "tick": 0.7}  # Vega-Lite's defaults
_ZOOMED = ("line", "area", "point", "circle", "square", "trail", "tick")
# Without a key held down the wheel must go on scrolling the page.
_WHEEL = "wheel![event.ctrlKey || event.metaKey || event.shiftKey]"


@dataclass(frozen=True)
class _Unit:
    """One mark with all of its encodings, those of the layers around it included; ``spec`` can be changed."""

    spec: Spec
    encoding: Spec
    view: int
    fixed: frozenset[str]

    @property
    def mark(self) -> str:
        return str(_kind(self.spec))

    @property
    def fields(self) -> set[str]:
        return {field for field in map(_field, self.encoding.values()) if field}


def interactive(figure: Spec) -> Spec:
    """A copy of the figure with tooltips, zoom and legends to click on.

    >>> line = {"x": {"field": "t", "type": "quantitative"}, "color": {"field": "width", "type": "ordinal"}}
    >>> [each["name"] for each in interactive({"mark": "point", "encoding": line})["params"]]
    ['zoom0', 'legend0']
    """
    spec = deepcopy(figure)
    units = list(_units(spec))
    if not any("select" in param for param in _params(spec)):
        _add_zoom(units)
        _add_legends(units)
    _add_tooltips(spec)
    return spec


def panel_columns(spec: Spec, rows: list[Spec]) -> int:
    """How many panels stand side by side: what a page needs to know to fit them into its width.

    >>> panel_columns({"facet": {"column": {"field": "a"}}, "spec": {}}, [{"a": 1}, {"a": 2}, {"a": 1}])
    2
    """
    if "hconcat" in spec:
        return sum(panel_columns(each, rows) for each in spec["hconcat"])
    for name in ("vconcat", "concat"):
        if name in spec:
            widest = max(panel_columns(each, rows) for each in spec[name])
            return widest * (min(spec.get("columns", 1), len(spec[name])) if name == "concat" else 1)
    facet = spec.get("facet") or {}
    column = facet.get("column") or (spec.get("encoding") or {}).get("column")
    if column is None and "field" in facet:
        number = len({str(row.get(facet["field"])) for row in rows})
        return min(number, spec.get("columns") or number)
    if column is None:
        return 1
    return max(1, len({str(row.get(column.get("field"))) for row in rows}))


def _units(spec: Spec) -> Iterator[_Unit]:
    """Every mark of the figure; ``fixed`` are the axes that panels have each for themselves."""
    counter = itertools.count()

    def walk(
        node: Spec, around: Spec, fixed: frozenset[str], layer: int | None, facets: bool
    ) -> Iterator[_Unit]:
        encoding = {**around, **(node.get("encoding") or {})}
        facets = facets or "facet" in node or any(name in encoding for name in ("row", "column", "facet"))
        if facets:
            scales = (node.get("resolve") or {}).get("scale") or {}
            fixed = fixed | {axis for axis, how in scales.items() if how == "independent"}
        if "mark" in node:
            yield _Unit(node, encoding, next(counter) if layer is None else layer, fixed)
        if "layer" in node:
            number = next(counter) if layer is None else layer
            for each in node["layer"]:
                yield from walk(each, encoding, fixed, number, facets)
        for name in _SIDE_BY_SIDE:
            for each in node.get(name, ()):
                yield from walk(each, {}, frozenset(), None, False)
        if "spec" in node:
            yield from walk(node["spec"], {}, fixed, layer, facets)

    yield from walk(spec, {}, frozenset(), None, False)


def _add_zoom(units: list[_Unit]) -> None:
    done: set[int] = set()
    for unit in units:
        axes = [
            axis
            for axis in ("x", "y")
            if axis not in unit.fixed and _continuous(unit.encoding.get(axis)) and unit.mark in _ZOOMED
        ]
        if axes and unit.view not in done:
            select = {"type": "interval", "encodings": axes, "zoom": _WHEEL}
            param = {"name": f"zoom{len(done)}", "select": select, "bind": "scales"}
            unit.spec.setdefault("params", []).append(param)
            done.add(unit.view)


def _add_legends(units: list[_Unit]) -> None:
    params: dict[str, str] = {}
    for unit in units:
        for channel in _LEGENDS:
            definition = unit.encoding.get(channel) or {}
            field = _field(definition)
            if not field or field in params or definition.get("type") not in ("nominal", "ordinal"):
                continue
            if definition.get("legend", True) is None:
                continue
            params[field] = f"legend{len(params)}"
            select = {"type": "point", "fields": [field], "toggle": "true"}
            unit.spec.setdefault("params", []).append(
                {"name": params[field], "select": select, "bind": "legend"}
            )
    for unit in units:
        tests = [{"param": name} for field, name in params.items() if field in unit.fields]
        if tests and "opacity" not in unit.encoding:
            mark = unit.spec["mark"]
            default = _TRANSLUCENT.get(unit.mark, 1.0)
            shown = mark.get("opacity", default) if isinstance(mark, dict) else default
            condition = {"test": {"and": tests}, "value": shown}
            unit.spec.setdefault("encoding", {})["opacity"] = {
                "condition": condition,
                "value": min(_FADED, shown),  # what does not show at all must not appear
            }


def _add_tooltips(spec: Spec) -> None:
    """Marks tell their values, lines through points that do not show."""
    config = spec.setdefault("config", {})
    config.setdefault("mark", {}).setdefault("tooltip", {"content": "encoding"})
    _mark_lines(spec)


def _mark_lines(node: Spec) -> None:
    if "layer" in node:
        told = any(
            _kind(each) in ("point", "circle") and "tooltip" in (each.get("encoding") or {})
            for each in node["layer"]
        )
        around = node.get("encoding") or {}
        added = [] if told else [_hover(each, around, layered=True) for each in node["layer"]]
        node["layer"] += [each for each in added if each]
    elif "mark" in node:
        points = _hover(node, {}, layered=False)
        if (
            points and not {"row", "column", "facet"} & node["encoding"].keys()
        ):  # layers have no panels inside
            line = {name: node.pop(name) for name in ("mark", "encoding", "params") if name in node}
            node["layer"] = [line, points]
    for name in _SIDE_BY_SIDE:
        for each in node.get(name, ()):
            _mark_lines(each)
    if "spec" in node:
        _mark_lines(node["spec"])


def _hover(unit: Spec, around: Spec, *, layered: bool) -> Spec | None:
    if _kind(unit) != "line":
        return None
    mark = unit["mark"]
    encoding = {**around, **(unit.get("encoding") or {})}
    shown = [each for each in encoding.values() if _field(each) and "condition" not in each]
    fields = [{name: each[name] for name in ("field", "type", "title") if each.get(name)} for each in shown]
    kept = {axis: encoding[axis] for axis in ("x", "y") if axis in encoding}
    points: Spec = {
        "mark": {"type": "point", "filled": True, "opacity": 0, "size": 90},
        "encoding": {**kept, "tooltip": encoding.get("tooltip") or fields},
    }
    unit["mark"] = {**(mark if isinstance(mark, dict) else {"type": mark}), "tooltip": None}
    unit.setdefault("encoding", {}).pop("tooltip", None)
    if layered:  # within a layer a mark may have data of its own
        points |= {name: unit[name] for name in ("data", "transform") if name in unit}
    return points


def _kind(unit: Spec) -> str | None:
    mark = unit.get("mark")
    return mark.get("type") if isinstance(mark, dict) else mark


def _field(definition: Any) -> str | None:
    field = definition.get("field") if isinstance(definition, dict) else None
    return field if isinstance(field, str) else None


def _continuous(definition: Any) -> bool:
    return (
        _field(definition) is not None
        and definition.get("type") in ("quantitative", "temporal")
        and not definition.get("bin")
    )


def _params(node: Any) -> Iterator[Spec]:
    if isinstance(node, dict):
        yield from node.get("params") or ()
        for name in ("layer", *_SIDE_BY_SIDE):
            for each in node.get(name, ()):
                yield from _params(each)
        yield from _params(node.get("spec"))
