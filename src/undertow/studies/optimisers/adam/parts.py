"""Adam over several ε and β₂; on points whose coordinates all have one size, Adam and Signum by single samples."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from undertow.studies.kit.scales import by_scale
from undertow.studies.kit.study import Part, Scale
from undertow.studies.optimisers.rules import RULES, SEEDS, trained_by

__all__ = ["EPSILONS", "MEMORIES", "PARTS"]

EPSILONS = (1e-2, 1e-4, 1e-6)
MEMORIES = (0.9, 0.99, 0.999)
"""β₂, on its way to 1."""
_SIZES = by_scale(
    n=(20, 40, 100),
    d=(8, 10, 20),
    steps=(120, 1500, 8000),
    every=(20, "log", "log"),
    passes=(20, 1600, 2000),
    samples=(6, 8, 12),
    slower=(1, 4, 4),  # Signum is given so many times more steps,
    slowest=(1, 5, 5),  # and Adam with whole batches
)
_MARGINS = ["norm-margins", {"name": "linear-optimum", "every": "end"}]
_SINGLE = {
    "adam": ({"name": "adam", "beta2": 0.99, "epsilon": 0.0}, 0.1),
    "signum": ({"name": "sign-descent", "momentum": 0.95}, 0.05),
}
"""Settings and first rates, chosen on three problems that are not among the study's."""


def epsilon(scale: Scale, variant: str) -> dict[str, Any]:  # noqa: ARG001
    """Full batches; gradients come down to ε and below."""
    size = _SIZES[scale]
    optimizer = {**RULES["adam"].optimizer, "epsilon": EPSILONS[0]}
    measures = ["step-geometry", *_MARGINS]
    return {
        "data": {"name": "separable", "n": size.n, "d": size.d},
        "model": {"name": "mlp", "widths": []},
        "training": {**trained_by("adam", size.steps, loss="logistic"), "optimizer": optimizer},
        "probe": {"measures": measures, "every": size.every},
        "grid": {"epsilon": list(EPSILONS), "seed": SEEDS[scale]},
        "own_data": True,
    }


def memory(scale: Scale, variant: str) -> dict[str, Any]:  # noqa: ARG001
    """Full batches, ε = 0, β₂ on its way to 1."""
    size = _SIZES[scale]
    return {
        "data": {"name": "separable", "n": size.n, "d": size.d},
        "model": {"name": "mlp", "widths": []},
        "training": trained_by("adam", size.steps, loss="logistic"),
        "probe": {"measures": _MARGINS, "every": size.every},
        "grid": {"beta2": list(MEMORIES), "seed": SEEDS[scale]},
        "own_data": True,
    }


def single(
    scale: Scale,
    variant: str,  # noqa: ARG001
    *,
    rule: str,
    whole: bool = False,
    axis: Mapping[str, list[float]] | None = None,
) -> dict[str, Any]:
    """One sample in a step, in the order of the data, as theorems have it; or steps with ``whole`` batches."""
    size = _SIZES[scale]
    optimizer, rate = _SINGLE[rule]
    passes = size.passes * (size.slower if rule == "signum" else 1)
    how: dict[str, Any] = {"batch_size": 1, "shuffle": False}
    if whole:
        passes, how = size.slowest * size.passes * size.samples, {}
    training = trained_by(rule, passes, loss="logistic", rate=rate, **how)
    return {
        "data": {"name": "sign-vectors", "n": size.samples, "d": 2 * size.samples},
        "model": {"name": "mlp", "widths": []},
        "training": {**training, "optimizer": optimizer},
        "probe": {"measures": _MARGINS, "every": size.every},
        "grid": {**(axis or {}), "seed": SEEDS[scale]},
        "own_data": True,
    }


PARTS: dict[str, Part] = {
    "epsilon-adam": epsilon,
    "memory-adam": memory,
    "whole-adam": partial(single, rule="adam", whole=True),
    "lasting-adam": partial(single, rule="adam", axis={"beta2": list(MEMORIES)}),
    **{f"single-{rule}": partial(single, rule=rule) for rule in _SINGLE},
}
