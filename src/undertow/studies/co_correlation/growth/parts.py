"""The grids of Theorems 5.3 and 5.5: linear and ReLU networks by width and q, other activations at one width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from undertow.studies.co_correlation.setting import LARGEST_Q, axes, shared
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS"]

_SIZES: dict[Scale, dict[str, Any]] = {
    "smoke": {"samples": 200, "widths": (16, 64), "rate": 0.6, "steps": 30, "every": 3, "points": 8},
    "laptop": {
        "samples": 300,
        "widths": (16, 64, 256),
        "rate": 0.3,
        "steps": 60,
        "every": "log",
        "points": 16,
    },
    "paper": {
        "samples": None,
        "widths": (16, 64, 256, 1024, 4096, 8192),
        "rate": 0.1,
        "steps": 180,
        "every": "log",
        "points": 32,
    },
}
_SEEDS = 10


def widths(scale: Scale, variant: str) -> dict[str, Any] | None:
    """Linear and ReLU networks over widths and two q > 0, as the theorems assume."""
    return _grid(scale, variant, ["linear", "relu"], _SIZES[scale]["widths"], (0.05, LARGEST_Q))


def activations(scale: Scale, variant: str) -> dict[str, Any] | None:
    """Other activations that Assumption 5.4 covers, at one width and the larger q."""
    return _grid(scale, variant, ["leaky-relu", "tanh", "gelu"], (64,), (LARGEST_Q,))


def _grid(
    scale: Scale, variant: str, kinds: list[str], widths: Sequence[int], q: Sequence[float]
) -> dict[str, Any] | None:
    if variant == "authors":
        return None
    size, sections = _SIZES[scale], shared(scale, variant, activation=kinds[0])
    measure = {"name": "growth", "points": size["points"], "refresh": 6}
    return {
        "data": {**sections["data"], "limit": size["samples"]},
        "model": sections["model"],
        "training": {
            "optimizer": "gd",
            "learning_rate": size["rate"],
            "epochs": size["steps"],
            "loss": sections["training"]["loss"],
            "frozen": sections["training"]["frozen"],
            "dtype": "float64",
        },
        "probe": {"measures": [measure], "every": size["every"]},
        "grid": axes(sections, _SEEDS, activation=kinds, width=widths, q=q),
        "group_size": 2 if scale == "paper" else 64,  # 60,000 samples and 8,192 neurons are 4 GB in float64
    }


PARTS: dict[str, Part] = {"growth": widths, "growth-activations": activations}
