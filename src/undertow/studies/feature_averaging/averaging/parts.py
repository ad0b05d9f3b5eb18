"""Binary labels on clusters: four dimensions, other noises, angles and balances, larger starts."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from undertow.studies.feature_averaging.cluster_grids import BY_DIMENSION, cell, weights
from undertow.studies.kit.scales import only_in
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS"]


def by_dimension(scale: Scale, variant: str, *, divide: int) -> dict[str, Any]:
    """The largest d by ``divide``, the paper's k; at the largest d the whole course of λ as well."""
    own, whole = cell(scale, variant, divide=divide), divide == 1
    course = {"every": max(1, own.steps // 20)} if whole else {}
    search = {"name": "bias-search", "rounds": own.size.rounds}
    measures = [*weights(pairs=whole, **course), own.radius(largest=whole), search, "loss"]
    followed = whole and scale != "laptop"  # as much work again as the training
    if followed:
        measures.append({"name": "feature-coefficients", "pairs": False, "method": "steps"})
    settings = own.binary(measures, own.axes)
    if whole:
        settings["grid"]["seed"] = list(range(own.size.seeds))
    if followed:
        settings["training"]["dtype"] = "float64"  # see FeatureCoefficients: float32 may differ at a kink
    return settings


def relaxed(scale: Scale, variant: str, *, axis: str, values: list[Any]) -> dict[str, Any]:
    """One assumption of D_binary given up, at a quarter of the largest d."""
    own = cell(scale, variant, divide=4)
    grid = {"data.d": [own.d], "data.k": [own.k], f"data.{axis}": own.some(values)}
    return own.binary(weights(pairs=False), grid)


@only_in("paper")
def starts(scale: Scale) -> dict[str, Any]:
    """The paper's training from larger and larger starts, up to the slides' σ_w = 1/√d."""
    own = cell(scale, "paper", divide=2)
    settings = own.binary(weights(pairs=False), {"data.d": [own.d], "data.k": [own.k]})
    settings["training"]["dtype"] = "float64"  # from a large start what training adds would drown in rounding
    largest = round(1 / math.sqrt(own.d), 6)
    settings["grid"]["model.init.std"] = own.some([1e-5, 1e-4, 1e-3, 1e-2, largest])
    return settings


PARTS: dict[str, Part] = {
    **{name: partial(by_dimension, divide=divide) for name, divide in BY_DIMENSION.items()},
    "noise": partial(relaxed, axis="noise", values=["gaussian", "rademacher", "uniform", "sparse"]),
    "angle": partial(relaxed, axis="cosine", values=[-0.05, 0.0, 0.1, 0.3]),
    "balance": partial(relaxed, axis="balance", values=[1.0, 1.5, 4.0]),
    "start": starts,
}
