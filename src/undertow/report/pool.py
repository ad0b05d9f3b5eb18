"""The data of many figures, each table once, by columns."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

__all__ = ["DataPool"]

Row = dict[str, Any]
_DIGITS = 9


class DataPool:
    """Tables that figures share: variants and panels of one figure often carry the same one."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, list[Any]]] = {}

    def take(self, spec: dict[str, Any]) -> tuple[dict[str, Any], list[Row]]:
        """A copy of the Vega-Lite figure with its data moved here, and the rows it had.

        >>> pool = DataPool()
        >>> spec, rows = pool.take({"data": {"values": [{"a": 1}, {"a": 2}]}, "mark": "point"})
        >>> pool.tables[spec["data"]["name"]]
        {'a': [1, 2]}
        """
        rows: list[Row] = []
        datasets = spec.get("datasets") or {}
        moved = {name: self._add(values) for name, values in datasets.items()}
        for values in datasets.values():
            rows += values

        def without_data(node: Any) -> Any:
            if isinstance(node, list):
                return [without_data(each) for each in node]
            if not isinstance(node, dict):
                return node
            return {
                name: _data(each) if name == "data" else without_data(each) for name, each in node.items()
            }

        def _data(data: Any) -> Any:
            if not isinstance(data, dict):
                return data
            if data.get("name") in moved:
                return {"name": moved[data["name"]]}
            if isinstance(data.get("values"), list):
                rows.extend(data["values"])
                return {"name": self._add(data["values"])}
            return data

        return without_data({name: each for name, each in spec.items() if name != "datasets"}), rows

    def _add(self, rows: list[Row]) -> str:
        names = dict.fromkeys(name for row in rows for name in row)
        table = {name: [_plain(row.get(name)) for row in rows] for name in names}
        key = hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:12]
        self.tables[key] = table
        return key


def _plain(value: Any) -> Any:
    """Numbers to nine digits; what JSON has no word for becomes null."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return value
