"""The grid of Theorem 4.1: both sides of the inequality before training and after it."""

from __future__ import annotations

from typing import Any

from undertow.studies.co_correlation.setting import EPS, shared, width_by_q
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS", "RADII"]

RADII = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, EPS)
_SIZES: dict[Scale, dict[str, Any]] = {
    "smoke": {"radii": (0.001, EPS), "widths": (16,), "q": (0.25,), "test": 10, "seeds": 10},
    "laptop": {"radii": RADII, "widths": (16, 128), "q": (0.25,), "test": 25, "seeds": 10},
    "paper": {
        "radii": RADII,
        "widths": (16, 128, 1024, 8192),
        "q": (-0.15, 0.0, 0.25),
        "test": 300,
        "seeds": 10,
    },
}


def risk_bound(scale: Scale, variant: str) -> dict[str, Any]:
    """The part's configuration."""
    size, sections = _SIZES[scale], shared(scale, variant)
    measure = {
        "name": "risk-bound",
        "radii": list(size["radii"]),
        "unit": 2.0 if variant == "authors" else 1.0,
    }
    probe = {"measures": [measure, "accuracy"], "every": "ends", "split": "test", "limit": size["test"]}
    return {**sections, "probe": probe, "grid": width_by_q(sections, size)}


PARTS: dict[str, Part] = {"risk-bound": risk_bound}
