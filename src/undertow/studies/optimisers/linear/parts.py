"""Ten problems of two classes and ten of four, every rule on each of them; a seed is a problem."""

from __future__ import annotations

from functools import partial
from typing import Any

from undertow.studies.kit.scales import by_scale
from undertow.studies.kit.study import Part, Scale
from undertow.studies.optimisers.rules import RULES, SEEDS, trained_by

__all__ = ["BINARY", "CLASSES", "PARTS"]

BINARY = ("gd", "momentum", "sign", "coordinate", "adam", "uncorrected", "adamw", "signum")
"""With one row of weights spectral descent is gradient descent."""
CLASSES = ("gd", "momentum", "sign", "coordinate", "spectral", "adam", "signum", "muon", "polar")
_SIZES = by_scale(n=(20, 40, 100), d=(8, 10, 20), steps=(60, 8000, 16000), every=(20, "log", "log"))


def linear(scale: Scale, variant: str, *, rule: str, classes: int) -> dict[str, Any]:  # noqa: ARG001
    """One rule on all problems with so many classes."""
    size = _SIZES[scale]
    data: dict[str, Any] = {"name": "separable", "n": size.n, "d": size.d}
    if classes > 2:
        data = {"name": "separable-classes", "n": size.n, "d": size.d, "classes": classes}
    steps = size.steps * (1 if scale == "smoke" else RULES[rule].longer)
    measures = ["norm-margins", {"name": "linear-optimum", "every": "end"}, "attacker-radii"]
    return {
        "data": data,
        "model": {"name": "mlp", "widths": []},
        "training": trained_by(rule, steps, loss="logistic" if classes == 2 else "cross-entropy"),
        "probe": {"measures": measures, "every": size.every},
        "grid": {"seed": SEEDS[scale]},
        "own_data": True,
    }


PARTS: dict[str, Part] = {
    **{f"binary-{rule}": partial(linear, rule=rule, classes=2) for rule in BINARY},
    **{f"classes-{rule}": partial(linear, rule=rule, classes=4) for rule in CLASSES},
}
