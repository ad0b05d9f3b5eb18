"""The grids beyond the paper's: four activations at one width, three and four hidden layers."""

from __future__ import annotations

from typing import Any

from undertow.studies.co_correlation.setting import LARGEST_Q, SEAM, axes, shared
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS"]

_POINTS: dict[Scale, int] = {"smoke": 12, "laptop": 40, "paper": 10_000}
_WIDTH: dict[Scale, int] = {"smoke": 64, "laptop": 256, "paper": 2048}
_DEEP_WIDTH: dict[Scale, int] = {"smoke": 32, "laptop": 64, "paper": 512}
_SEEDS = 10


def activations(scale: Scale, variant: str) -> dict[str, Any]:
    """One width, q = 0.25, four activations."""
    sections, width = shared(scale, variant, width=_WIDTH[scale]), [_WIDTH[scale]]
    probe = _probe(scale, {"name": "collaboration", "seam": SEAM})
    kinds = ("relu", "leaky-relu", "tanh", "gelu")
    grid = axes(sections, _SEEDS, activation=kinds, width=width, q=[LARGEST_Q])
    return {
        **sections,
        "probe": {**probe, "examples": 4},
        "grid": grid,
    }  # examples for the report's grid browser


def depth(scale: Scale, variant: str) -> dict[str, Any]:
    """Three and four hidden layers of one width."""
    return _deep(scale, variant, 3, 4)


def more_depth(scale: Scale, variant: str) -> dict[str, Any]:
    """Two and five of them: with those above, networks of three to six layers."""
    return _deep(scale, variant, 2, 5)


def _deep(scale: Scale, variant: str, *numbers: int) -> dict[str, Any]:
    sections = shared(scale, variant)
    hidden = [[_DEEP_WIDTH[scale]] * layers for layers in numbers]
    return {
        "data": sections["data"],
        "model": {"name": "mlp", "widths": hidden[0], "activation": "relu", "init": {"name": "he"}},
        "training": {**sections["training"], "frozen": []},
        "probe": _probe(scale, "chain"),
        "grid": axes(sections, _SEEDS, widths=hidden),
    }


def _probe(scale: Scale, measure: Any) -> dict[str, Any]:
    return {"measures": [measure, "accuracy"], "every": "epoch", "split": "test", "limit": _POINTS[scale]}


PARTS: dict[str, Part] = {"activations": activations, "depth": depth, "more-depth": more_depth}
