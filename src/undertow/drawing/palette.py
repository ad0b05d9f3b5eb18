"""The colours of figures and pages, in one place: safe for colour-blind readers, on light and on dark ground.

Verdicts and kinds of things take their colours from Okabe & Ito (2008). Ordered values (widths, scales of a start)
take theirs from viridis, without the end that is lost on the ground.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["ACTIVATIONS", "DARK", "KINDS", "LIGHT", "MARKS", "ORDERED", "css_variables"]

KINDS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f")
"""For things without an order, most distinct first."""

ACTIVATIONS = dict(zip(("relu", "linear", "leaky-relu", "tanh", "gelu"), KINDS, strict=False))

ORDERED: dict[str, Any] = {"name": "viridis", "extent": [0.05, 0.8]}
"""Scheme of Vega for ordered values; on dark ground pages turn its extent around."""

MARKS = {"holds": "✓", "fails": "✗", "undecided": "?", "as it must be": "=", "violated": "≠"}
"""A verdict is never told by its colour alone; the last two are for checks."""

LIGHT = {
    "ground": "#fcfcfa",
    "card": "#ffffff",
    "raised": "#f3f4f2",
    "ink": "#1b2328",
    "muted": "#55616a",
    "rule": "#dcdfdf",
    "accent": "#0b6285",
    "holds": "#00619c",
    "fails": "#b84300",
    "undecided": "#636b70",
    "holds-ground": "#e2eff8",
    "fails-ground": "#fdeade",
    "undecided-ground": "#eef0f0",
}
DARK = {
    "ground": "#11171b",
    "card": "#182026",
    "raised": "#212b32",
    "ink": "#e6eaec",
    "muted": "#9fabb3",
    "rule": "#303c44",
    "accent": "#6cc1e6",
    "holds": "#74c0f2",
    "fails": "#ff9a5c",
    "undecided": "#aab4ba",
    "holds-ground": "#12344a",
    "fails-ground": "#48260f",
    "undecided-ground": "#2a343b",
}


def css_variables(colours: Mapping[str, str]) -> str:
    """The colours as custom properties of CSS.

    >>> css_variables({"ink": "#000"})
    '--ink: #000;'
    """
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())
