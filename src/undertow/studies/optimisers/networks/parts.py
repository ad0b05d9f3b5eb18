"""The same networks by every rule: trained long, two layers and three, for KKT residuals; to 10^-18, for radii."""

from __future__ import annotations

from functools import partial
from typing import Any

from undertow.studies.kit.scales import by_scale
from undertow.studies.kit.settings import two_layer
from undertow.studies.kit.study import Part, Scale
from undertow.studies.optimisers.rules import RULES, SEEDS, trained_by

__all__ = ["DEPTHS", "LONG", "PARTS", "WITHSTANDING"]

LONG = ("gd", "sign", "coordinate", "spectral", "adam")
WITHSTANDING = ("gd", "sign", "coordinate", "adam")
RATES = {"gd": 0.3, "sign": 0.03, "coordinate": 1.0, "spectral": 0.3, "adam": 0.03}
DEEP_RATES = {"gd": 1.0, "sign": 0.03, "coordinate": 1.0, "spectral": 0.3, "adam": 0.03}
"""Chosen on problems that are not among the study's, by the KKT residual in the rule's own norm."""
KINKS = 1e-3
"""A unit whose input is below this share of its largest is at its kink: its slope may be any between 0 and 1."""
DEPTHS = {"long": "two layers", "deep": "three layers"}
_NORMS = ("1", "2", "inf", "spectral")
_SIZES = by_scale(
    n=(10, 24, 40),
    d=(8, 12, 20),
    width=(4, 12, 16),
    deep=(4, 16, 16),
    steps=(64, 2**14, 2**15),
    every=(32, "doublings", "doublings"),
    most=(300, 12000, 20000),
    points=(2, 6, 8),
    stop=(-3.1, -18.0, -18.0),
    radii=("end", "3 decades", "3 decades"),
    at_once=(6, 10, 4),
)


def _shared(scale: Scale) -> dict[str, Any]:
    size = _SIZES[scale]
    return {
        "data": {"name": "d-binary", "n": size.n, "d": size.d, "k": 4},
        "model": two_layer(size.width, 0.1),
        "grid": {"seed": SEEDS[scale]},
        "own_data": True,
    }


def long(scale: Scale, variant: str, *, rule: str, deep: bool = False) -> dict[str, Any]:  # noqa: ARG001
    """The residual in the rule's own norm over training, in the others at its end; ``deep`` has three layers."""
    size, own = _SIZES[scale], RULES[rule].norm
    others = [norm for norm in _NORMS if norm != own]
    measures = [
        {"name": "norm-kkt", "norms": [own], "kinks": KINKS},
        {"name": "norm-kkt", "norms": others, "kinks": KINKS, "every": "end"},
        "norm-margins",
    ]
    rate = (DEEP_RATES if deep else RATES)[rule]
    three = {"model": {"name": "mlp", "widths": [size.deep, size.deep]}} if deep else {}
    return {
        **_shared(scale),
        **three,
        "training": trained_by(rule, size.steps, loss="logistic", rate=rate),
        "probe": {"measures": measures, "every": size.every},
        "group_size": 2 * size.at_once,
    }


def withstanding(scale: Scale, variant: str, *, rule: str) -> dict[str, Any]:  # noqa: ARG001
    """Radii every three decades of the loss, until it is 10^-18: certified, exact and attacked, of the same points."""
    size = _SIZES[scale]
    own = {"name": "norm-kkt", "norms": [RULES[rule].norm], "kinks": KINKS}
    return {
        **_shared(scale),
        "training": trained_by(rule, size.most, loss="logistic", rate=RATES[rule], stop_below=size.stop),
        "probe": {
            "measures": ["norm-margins", own, {"name": "exact-radii", "limit": size.points}],
            "every": size.radii,
        },
        "group_size": size.at_once,
    }


PARTS: dict[str, Part] = {
    **{f"long-{rule}": partial(long, rule=rule) for rule in LONG},
    **{f"deep-{rule}": partial(long, rule=rule, deep=True) for rule in LONG},
    **{f"radii-{rule}": partial(withstanding, rule=rule) for rule in WITHSTANDING},
}
