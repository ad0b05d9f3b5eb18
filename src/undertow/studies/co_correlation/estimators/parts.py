"""A few ReLU networks with q = 0.25, measured by every estimator along training."""

from __future__ import annotations

from typing import Any

from undertow.studies.co_correlation.setting import LARGEST_Q, SEAM, axes, shared
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS"]

_SIZES: dict[Scale, tuple[tuple[int, ...], int]] = {
    "smoke": ((64,), 6),
    "laptop": ((64, 256), 10),
    "paper": ((64, 512, 2048), 1000),
}
"""Widths, and how many points are measured."""


def estimators(scale: Scale, variant: str) -> dict[str, Any]:
    """The part's configuration."""
    widths, points = _SIZES[scale]
    sections = shared(scale, variant, activation="relu")
    printed = {"name": "printed-collaboration", "seam": SEAM}
    return {
        **sections,
        "probe": {"measures": [printed], "every": "epoch", "split": "test", "limit": points},
        "grid": axes(sections, 10, width=widths, q=[LARGEST_Q]),
    }


PARTS: dict[str, Part] = {"estimators": estimators}
