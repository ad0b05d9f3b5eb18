"""The optimisers that are compared, with their norms, and training with each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ATTACKERS", "NORMS", "RULES", "SEEDS", "TINY", "Rule", "parts_of", "trained_by"]

SEEDS = {"smoke": list(range(6)), "laptop": list(range(10)), "paper": list(range(20))}
"""Every seed is a problem of its own, and a batch of its own; six are the fewest that decide."""
TINY = 1e-150
"""An ε that no gradient comes near: Adam as theorems have it, in float64."""


@dataclass(frozen=True)
class Rule:
    """A way to descend: what it is called, the norm it is steepest in, its settings and its first rate.

    ``remembers`` says that steps depend on gradients of earlier steps, which must be those of one loss: it then
    follows ∇L, and the others ∇log L, whose direction is the same and which never underflows.
    """

    title: str
    norm: str
    optimizer: dict[str, Any]
    rate: float
    remembers: bool = field(default=False)


RULES = {
    "gd": Rule("gradient descent", "2", {"name": "normalised-gd"}, 3.0),
    "sign": Rule("sign descent", "inf", {"name": "sign-descent"}, 1.0),
    "coordinate": Rule("coordinate descent", "1", {"name": "coordinate-descent"}, 10.0),
    "spectral": Rule("spectral descent", "spectral", {"name": "spectral-descent"}, 3.0),
    "adam": Rule("Adam", "inf", {"name": "adam", "beta2": 0.95, "epsilon": TINY}, 0.3, remembers=True),
    "signum": Rule("Signum", "inf", {"name": "sign-descent", "momentum": 0.9}, 0.3, remembers=True),
    "muon": Rule("Muon", "spectral", {"name": "muon"}, 0.3, remembers=True),
}
"""By the endings of the parts. Rates were chosen on four problems that are not among the study's."""
NORMS = {"1": "L1", "2": "L2", "inf": "L∞", "spectral": "the spectral norm"}
"""What norms are called in sentences."""
ATTACKERS = {"1": "sign", "2": "gd", "inf": "coordinate"}
"""Who is said to protect against whom: attacker → rule."""


def trained_by(name: str, steps: int, *, loss: str, rate: float | None = None, **more: Any) -> dict[str, Any]:
    """Full-batch training by a rule, its rate falling like t^-½.

    >>> trained_by("sign", 100, loss="logistic")["objective"], trained_by("adam", 9, loss="logistic")["objective"]
    ('log-loss', 'loss')
    """
    rule = RULES[name]
    return {
        "optimizer": rule.optimizer,
        "learning_rate": rule.rate if rate is None else rate,
        "rate": {"name": "power", "exponent": 0.5},
        "epochs": steps,
        "loss": loss,
        "objective": "loss" if rule.remembers else "log-loss",
        "dtype": "float64",
        **more,
    }


def parts_of(kind: str, rules: Sequence[str] = tuple(RULES)) -> tuple[str, ...]:
    """The parts of one kind of network, a part for each rule: "binary-gd" and so on."""
    return tuple(f"{kind}-{rule}" for rule in rules)
