"""What stands above a figure: one light line at its left, which says of what it is a mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import altair

__all__ = ["small_title"]


def small_title(text: str | list[str]) -> altair.Title:
    """A title of one line, or of several."""
    import altair

    return altair.Title(text, anchor="start", fontWeight="normal", fontSize=11, offset=8)
