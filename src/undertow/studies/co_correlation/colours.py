"""The colours of widths and of q: the same in every figure of the study, at every scale."""

from __future__ import annotations

from collections.abc import Iterable

from undertow.drawing.shades import shades

__all__ = ["of_q", "of_widths"]


def of_widths(widths: Iterable[float]) -> dict[str, str]:
    """Label → colour on the paper's range 2⁴ … 2¹³."""
    return shades(widths, between=(2**4, 2**13), log=True)


def of_q(values: Iterable[float]) -> dict[str, str]:
    """Label → colour on the paper's range -0.15 … 0.25."""
    return shades(values, between=(-0.15, 0.25))
