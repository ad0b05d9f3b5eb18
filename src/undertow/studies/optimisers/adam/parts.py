"""Adam over several ε; and, one sample at a time, Adam and Signum on points whose coordinates all have one size."""

from __future__ import annotations

from functools import partial
from typing import Any

from undertow.studies.kit.scales import by_scale
from undertow.studies.kit.study import Part, Scale
from undertow.studies.optimisers.rules import RULES, SEEDS, TINY, trained_by

__all__ = ["EPSILONS", "PARTS"]

EPSILONS = (1e-2, 1e-4, 1e-6)
_SIZES = by_scale(
    n=(20, 40, 200),
    d=(8, 10, 50),
    steps=(200, 1500, 20000),
    every=(10, "log", "log"),
    passes=(40, 400, 4000),
    samples=(6, 8, 20),
)
_SINGLE = {
    "adam": ({"name": "adam", "beta2": 0.99, "epsilon": TINY}, 0.1),
    "signum": ({"name": "sign-descent", "momentum": 0.95}, 0.05),
}
"""Settings and first rates, chosen on three problems that are not among the study's."""


def epsilon(scale: Scale, variant: str) -> dict[str, Any]:  # noqa: ARG001
    """Full batches; the loss itself is followed, whose gradients come down to ε and below."""
    size = _SIZES[scale]
    optimizer = {**RULES["adam"].optimizer, "epsilon": EPSILONS[0]}
    measures = ["step-geometry", "norm-margins", {"name": "linear-optimum", "every": "end"}]
    return {
        "data": {"name": "separable", "n": size.n, "d": size.d},
        "model": {"name": "mlp", "widths": []},
        "training": {**trained_by("adam", size.steps, loss="logistic"), "optimizer": optimizer},
        "probe": {"measures": measures, "every": size.every},
        "grid": {"epsilon": list(EPSILONS), "seed": SEEDS[scale]},
    }


def single(scale: Scale, variant: str, *, rule: str) -> dict[str, Any]:  # noqa: ARG001
    """One sample in a step, in the order of the data, as in the incremental Adam of the theorem."""
    size = _SIZES[scale]
    optimizer, rate = _SINGLE[rule]
    training = trained_by(rule, size.passes, loss="logistic", rate=rate, batch_size=1, shuffle=False)
    return {
        "data": {"name": "sign-vectors", "n": size.samples, "d": 2 * size.samples},
        "model": {"name": "mlp", "widths": []},
        "training": {**training, "optimizer": optimizer},
        "probe": {
            "measures": ["norm-margins", {"name": "linear-optimum", "every": "end"}],
            "every": 10 * size.samples,
        },
        "grid": {"seed": SEEDS[scale]},
    }


PARTS: dict[str, Part] = {
    "epsilon-adam": epsilon,
    **{f"single-{rule}": partial(single, rule=rule) for rule in _SINGLE},
}
