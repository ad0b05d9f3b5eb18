"""Orthogonal points in several numbers and balances; slopes and starts that change the rank on the same points."""

from __future__ import annotations

from typing import Any

from undertow.studies.kit.scales import by_scale, only_in
from undertow.studies.kit.study import Part, Scale
from undertow.studies.stable_rank.starts import INIT_SCALES, TEN_SEEDS, at_rest

__all__ = ["PARTS"]

_SIZES = by_scale(
    n=([6], [6, 10, 20], [6, 10, 20, 40]),
    widths=([20], [20, 100], [20, 100, 400]),
    alpha=(0.1, 0.03, 0.01),  # α‖x‖² is 3, as in the runs on the mixture
    narrow=([14], [16, 24], [16, 24]),
    points=(6, 10, 10),
    epochs=(400, 6000, 6000),
    slopes=([0.0, 0.3], [0.0, 0.1, 0.3], [0.0, 0.1, 0.3]),
)
"""Of narrow networks some have a point that moves no neuron: nothing is claimed of those, which never end."""


@only_in("paper")
def law(scale: Scale) -> dict[str, Any]:
    """n points, 3 or 5 of them positive; on orthogonal points all draws are one up to a rotation."""
    size = _SIZES[scale]
    return {
        "data": {"name": "equal-cosines", "d": 60, "seed": 0},
        "model": _sloped(100),
        "training": at_rest(size.alpha, 10, epochs=size.epochs),
        "probe": {"measures": ["stable-rank", "neuron-alignment"], "every": "ends"},
        "grid": {
            "n": size.n,
            "positive": [3, 5],
            "width": size.widths,
            "slope": [0.0, 0.1, 0.5],
            "seed": TEN_SEEDS,
        },
    }


@only_in("paper")
def intervention(scale: Scale) -> dict[str, Any]:
    """Narrow networks, whose radii can be solved, on ten orthogonal points (in seconds six).

    Where points are correlated ever so little, neurons from small starts become active on all of their class in the
    end, drawn or not, and there is nothing to compare: two different ranks on one data set need orthogonal points. In
    one width the order of γ is that of the rank turned round; patterns drawn in two tell them apart.
    """
    size = _SIZES[scale]
    return {
        "data": {"name": "equal-cosines", "n": size.points, "positive": size.points // 2, "d": 60, "seed": 0},
        "model": _sloped(size.narrow[-1]),
        "training": at_rest(size.alpha, 10, epochs=size.epochs),
        "probe": {"measures": ["stable-rank", "exact-radius"], "every": "end"},
        "grid": {
            "width": size.narrow,
            "slope": size.slopes,
            "start": ["drawn", "active"],
            "seed": TEN_SEEDS,
        },
    }


def _sloped(width: int) -> dict[str, Any]:
    start = {"name": "gaussian", "std": INIT_SCALES[0]}
    return {"name": "sloped-two-layer", "width": width, "slope": 0.0, "init": start}


PARTS: dict[str, Part] = {"law": law, "intervention": intervention}
