"""The optimisers that are compared, with their norms, and training with each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ATTACKERS", "DECADES", "DECAY", "NORMS", "RULES", "SEEDS", "Rule", "parts_of", "trained_by"]

SEEDS = {"smoke": list(range(6)), "laptop": list(range(10)), "paper": list(range(20))}
"""Every seed is a problem of its own, and a batch of its own; six are the fewest that decide."""


@dataclass(frozen=True)
class Rule:
    """A way to descend: what it is called, the norm it is steepest in, its settings and its first rate.

    Rules without a memory follow ∇log L, whose direction is that of ∇L and which never underflows. One that
    ``remembers`` gradients of earlier steps needs them to be those of one loss: it follows ∇L, in units of the loss.
    Its steps lag behind, and on linear networks it is given so many times more of them (``longer``).
    """

    title: str
    norm: str
    optimizer: dict[str, Any]
    rate: float
    remembers: bool = field(default=False)
    longer: int = 1


_ADAM = {"name": "adam", "beta2": 0.9, "epsilon": 0.0}
"""As theorems have it: ε = 0."""
DECAY = 0.1
"""λ of AdamW."""

RULES = {
    "gd": Rule("gradient descent", "2", {"name": "normalised-gd"}, 3.0),
    "sign": Rule("sign descent", "inf", {"name": "sign-descent"}, 1.0),
    "coordinate": Rule("coordinate descent", "1", {"name": "coordinate-descent"}, 10.0),
    "spectral": Rule("spectral descent", "spectral", {"name": "spectral-descent"}, 3.0),
    "adam": Rule("Adam", "inf", _ADAM, 0.3, remembers=True, longer=6),
    "signum": Rule("Signum", "inf", {"name": "sign-descent", "momentum": 0.9}, 1.0, remembers=True, longer=4),
    "muon": Rule("Muon", "spectral", {"name": "muon"}, 1.0, remembers=True, longer=4),
    "momentum": Rule("momentum", "2", {"name": "heavy-ball", "momentum": 0.9}, 3.0),
    "uncorrected": Rule(
        "uncorrected Adam", "inf", {**_ADAM, "bias_correction": False}, 0.3, remembers=True, longer=2
    ),
    "adamw": Rule("AdamW", "inf", {**_ADAM, "name": "adamw", "weight_decay": DECAY}, 1.0, remembers=True),
    "polar": Rule("exact Muon", "spectral", {"name": "muon", "exact": True}, 1.0, remembers=True, longer=2),
}
"""By the endings of the parts. Rates were chosen on problems beside the study's (benchmarks/tune_rates.py)."""
NORMS = {"1": "L1", "2": "L2", "inf": "L∞", "spectral": "the spectral norm"}
"""What norms are called in sentences."""
ATTACKERS = {"1": "sign", "2": "gd", "inf": "coordinate"}
"""Who is said to protect against whom: attacker → rule."""
DECADES = tuple(10**power for power in range(6))
"""Where axes of steps have a line: more would fill small panels."""


def trained_by(name: str, steps: int, *, loss: str, rate: float | None = None, **more: Any) -> dict[str, Any]:
    """Full-batch training by a rule, its rate falling like t^-½.

    >>> trained_by("sign", 100, loss="logistic")["objective"], trained_by("adam", 9, loss="logistic")["objective"]
    ('log-loss', 'framed-loss')
    """
    rule = RULES[name]
    return {
        "optimizer": rule.optimizer,
        "learning_rate": rule.rate if rate is None else rate,
        "rate": {"name": "power", "exponent": 0.5},
        "epochs": steps,
        "loss": loss,
        "objective": "framed-loss" if rule.remembers else "log-loss",
        "dtype": "float64",
        **more,
    }


def parts_of(kind: str, rules: Sequence[str] = tuple(RULES)) -> tuple[str, ...]:
    """The parts of one kind of network, a part for each rule: "binary-gd" and so on."""
    return tuple(f"{kind}-{rule}" for rule in rules)
