"""Rows that a figure carries, and that nobody copies on their way into its file."""

from __future__ import annotations

from typing import Any

import altair

__all__ = ["inline_rows"]


class _Rows(altair.InlineDataset):
    """Altair copies a chart with all of its parts whenever it becomes a part itself: the rows are not written to."""

    def __deepcopy__(self, memo: object) -> _Rows:
        return self

    def to_dict(self, *arguments: Any, **options: Any) -> Any:  # noqa: ARG002
        return self._args[0]


class _Inline(altair.InlineData):
    """Altair compares rows with their schema, one after the other, before it moves them to where they are named."""

    def to_dict(self, *arguments: Any, **options: Any) -> dict[str, Any]:
        return super().to_dict(*arguments, **{**options, "validate": False})


def inline_rows(rows: list[dict[str, Any]]) -> altair.InlineData:
    """The data of a chart, of numbers, words and None.

    >>> chart = altair.Chart(inline_rows([{"x": 1}])).mark_point().encode(x="x:Q")
    >>> list(altair.vconcat(chart, chart).to_dict()["datasets"].values())
    [[{'x': 1}]]
    """
    return _Inline(values=_Rows(rows))  # type: ignore[no-untyped-call]
