"""The growth of co-correlation under gradient descent (Wang, Min & Ruan 2024, §5; rows C5, C6 and C14).

Theorems 5.3 and 5.5 are about gradient descent on all of the data, with one logit, binary cross-entropy and inputs of
norm 1, and so are these trials; of ten classes (variant ``authors``) the theorems do not speak. The paper trains for 50
epochs of 118 steps with learning rate 0.003, a flow time s = Σ η of 17.7. At that rate full batches would need as many
steps; here s = 18 is reached in fewer and larger ones, and what a step changes is set beside what the flow does.

Everything is trained in float64: Lemma B.1 is exact, and is checked as such.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from undertow.studies.co_correlation.growth_claims import CLAIMS
from undertow.studies.co_correlation.growth_figures import FIGURES
from undertow.studies.co_correlation.setting import LARGEST_Q, shared
from undertow.studies.kit.study import Part, Scale

__all__ = ["CLAIMS", "FIGURES", "PARTS", "activations", "widths"]

_SIZES: dict[Scale, dict[str, Any]] = {
    "smoke": {
        "samples": 200,
        "widths": (16, 64),
        "rate": 0.6,
        "steps": 30,
        "every": 3,
        "points": 8,
        "seeds": 10,
    },
    "laptop": {
        "samples": 300,
        "widths": (16, 64, 256),
        "rate": 0.3,
        "steps": 60,
        "every": "log",
        "points": 16,
        "seeds": 10,
    },
    "paper": {
        "samples": None,
        "widths": (16, 64, 256, 1024, 4096, 8192),
        "rate": 0.1,
        "steps": 180,
        "every": "log",
        "points": 32,
        "seeds": 10,
    },
}


def widths(scale: Scale, variant: str) -> dict[str, Any] | None:
    """Linear and ReLU networks over widths and two q > 0, as the theorems assume."""
    return _grid(scale, variant, ["linear", "relu"], _SIZES[scale]["widths"], (0.05, LARGEST_Q))


def activations(scale: Scale, variant: str) -> dict[str, Any] | None:
    """Other activations that Assumption 5.4 covers, at one width and the larger q."""
    return _grid(scale, variant, ["leaky-relu", "tanh", "gelu"], (64,), (LARGEST_Q,))


def _grid(
    scale: Scale, variant: str, activations: list[str], widths: Sequence[int], q: Sequence[float]
) -> dict[str, Any] | None:
    if variant == "authors":
        return None
    size, sections = _SIZES[scale], shared(scale, variant, activation=activations[0])
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
        "probe": {
            "measures": [{"name": "growth", "points": size["points"], "refresh": 6}],
            "every": size["every"],
        },
        # The first axis has one value: it writes the data set beside every record.
        "grid": {
            "data.name": [sections["data"]["name"]],
            "activation": activations,
            "width": list(widths),
            "q": list(q),
            "seed": list(range(size["seeds"])),
        },
        "group_size": 2 if scale == "paper" else 64,  # 60,000 samples and 8,192 neurons are 4 GB in float64
    }


PARTS: dict[str, Part] = {"growth": widths, "growth-activations": activations}
