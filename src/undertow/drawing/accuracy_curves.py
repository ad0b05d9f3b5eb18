"""Robust accuracy against ε as two lines: what attacks leave standing, and below it what is proved."""

from __future__ import annotations

import math
from collections.abc import Sequence

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot

__all__ = ["accuracy_curves"]

_DASHES = {"attacked": [1, 0], "proved": [4, 3]}


def accuracy_curves(
    eps: Sequence[float],
    attacked: Sequence[Sequence[float]],
    proved: Sequence[Sequence[float]],
    *,
    norm: float,
) -> altair.TopLevelMixin:
    """The share of points that attacks leave and the share proved, each a row for every network; the truth is between.

    >>> chart = accuracy_curves([0.0, 1.0], [[1.0, 0.5]], [[1.0, 0.25]], norm=2.0)
    >>> (rows,) = chart.to_dict()["datasets"].values()
    >>> [(row["kind"], row["eps"], row["mean"]) for row in rows if row["eps"] == 1.0]
    [('attacked', 1.0, 0.5), ('proved', 1.0, 0.25)]
    """
    rows = [
        {"seed": member, "eps": radius, "value": share, "kind": kind}
        for kind, curves in (("attacked", attacked), ("proved", proved))
        for member, curve in enumerate(curves)
        for radius, share in sorted(zip(eps, curve, strict=True))
    ]
    return LinePlot(
        x="eps",
        x_axis=Axis("ε, L∞" if math.isinf(norm) else f"ε, L{norm:g}"),
        y=Axis("share of points decided rightly", domain=(0.0, 1.0)),
        colour="kind",
        colours=list(_DASHES),
        dash="kind",
        dashes=_DASHES,
        points=True,
        title="Robust accuracy: at most what attacks leave, at least what is proved",
    ).draw(polars.DataFrame(rows))
