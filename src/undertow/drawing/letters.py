"""The letters that figures are written in, where they become files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import altair

__all__ = ["in_letters", "lettered"]

# ϱ, ‖ and subscripts are not in the font that files are written in by default: whatever font of the machine has
# them, often one with serifs, would then write the whole of a title.
_FONT = "DejaVu Sans, Arial, Helvetica, sans-serif"


def in_letters(specification: dict[str, Any]) -> dict[str, Any]:
    """A figure's Vega-Lite source with a font that has the letters of formulas, where it names none.

    >>> in_letters({"mark": "line"})["config"], in_letters({"config": {"font": "Arial"}})["config"]
    ({'font': 'DejaVu Sans, Arial, Helvetica, sans-serif'}, {'font': 'Arial'})
    """
    return {**specification, "config": {"font": _FONT, **specification.get("config", {})}}


def lettered(chart: Any) -> altair.TopLevelMixin:
    """The figure with that font, for whoever saves it by its own ``save``."""
    found: altair.TopLevelMixin = chart.configure(font=_FONT)
    return found
