"""The claims on the proofs of Theorems 5.3 and 5.5: their lemmas, bounds, assumptions and approximations."""

from __future__ import annotations

from typing import Any

import polars

from undertow.studies.co_correlation.growth.rates import OFTEN, mean_known, networks, rates
from undertow.studies.co_correlation.outcomes import NETWORK
from undertow.studies.co_correlation.setting import PAPER
from undertow.studies.kit.claim import CORRELATION, SHARE, Finding
from undertow.studies.kit.data_names import on_data
from undertow.studies.kit.per_seed import by_value, verdict
from undertow.studies.kit.statements import Claims

__all__ = ["CLAIMS"]

CLAIMS = Claims(PAPER, parts=("growth",))
_TERMS = {"figure": "growth-terms"}
_OTHERS: dict[str, Any] = {"figure": "growth-activations", "parts": ("growth-activations",)}
_BOUNDS = {"linear": 1.0, "relu": 1.0, "leaky-relu": 1.0, "tanh": 1.0, "gelu": 1.129}
"""M = sup |σ′| of Assumption 5.4."""
_LOOSE = (
    "the proof's bounds are so far above the main term that a shrinking ϱ would keep the inequality as well"
)
_SIGNS = "y − p never changes its sign, and sums of inputs with weights of the right signs are at acute angles anyway"
_COLUMN = polars.col


@CLAIMS.add(
    "C-m.update",
    "A step changes W by η a x̃ᵀ exactly (linear), and row r by η a_r x̃_rᵀ (ReLU).",
    "Lemmas B.1 and C.1",
    check="an identity: it is the gradient of the loss, written out",
)
def update(frame: polars.DataFrame) -> Finding:
    """Per seed the largest relative distance between a step and what the lemmas say it is."""
    note = "effect: largest ‖ΔW − ηG‖/‖ηG‖ of the steps after a reading"
    return verdict(rates(frame), "update_gap", over="max", below=1e-8, note=note)


@CLAIMS.add(
    "C-m.bound",
    "The rate is at least the main term less the bound that the proof gives for the rest (linear networks).",
    "Theorem 5.3 and Eq. 80",
    **_TERMS,
    check=_LOOSE,
    activations=["linear"],
)
@CLAIMS.add(
    "C-n.bound",
    "The rate is at least the main term less the bounds that the proof gives for the rest (ReLU networks).",
    "Theorem 5.5 and Eq. 112–150",
    **_TERMS,
    check=_LOOSE,
    activations=["relu"],
)
@CLAIMS.add(
    "C-n.bound-others",
    "The same for leaky ReLU, tanh and GELU.",
    "Theorem 5.5 and Eq. 112–150",
    **_OTHERS,
    check=_LOOSE,
    activations=["leaky-relu", "tanh", "gelu"],
)
def keeps_bound(frame: polars.DataFrame, activations: list[str]) -> Finding:
    """Per seed the share of readings in which the rate is at least the main term less the proof's bounds."""
    slack = _COLUMN("remaining_bound") + _COLUMN("replacement_bound")
    table = rates(frame, *activations).with_columns(
        kept=_COLUMN("measured") >= _COLUMN("main") - slack,
        loose=slack / _COLUMN("main").abs(),
        alone=_COLUMN("measured") >= _COLUMN("main"),
        late=_COLUMN("flow_time") > 0.5 * _COLUMN("flow_time").max(),
    )
    later = table.filter(_COLUMN("step") > 0)
    first, second = (
        later.filter(half).select(_COLUMN("alone").mean()).item()
        for half in (~_COLUMN("late"), _COLUMN("late"))
    )
    note = (
        "effect: share of readings",
        f"the bounds are {later.select(_COLUMN('loose').median()).item():.2g} times the main term (median)",
        f"rate ≥ main alone in {first:.0%} of the readings of the first half of training, {second:.0%} of the second",
        on_data(frame),
    )
    return verdict(table, "kept", above=OFTEN, note=note)


@CLAIMS.add(
    "C-m.step",
    "‖aᵀW‖ never shrinks in 95 % of the networks or more, so that ‖W‖ may take its place in a denominator "
    "(linear networks).",
    "Eq. 63",
    activation="linear",
)
@CLAIMS.add(
    "C-n.step",
    "E‖aᵀDW‖² never shrinks in 95 % of the networks or more, so that E‖DW‖² may take its place in a denominator "
    "(ReLU networks).",
    "Eq. 105",
    activation="relu",
)
def never_shrinks(frame: polars.DataFrame, activation: str) -> Finding:
    """Per seed the share of networks of which no reading has d‖aᵀDW‖²/dt < 0, which turns Eq. 63 and 105 around."""
    table = rates(frame, activation)
    fine = table.group_by(NETWORK).agg(value=(_COLUMN("inequality") >= 0).all())
    late = table.filter(_COLUMN("inequality") < 0)["flow_time"].to_list()
    until = f", the last at s = {max(late):.2g}" if late else ""
    note = f"effect: share of networks without such a reading{until}; {on_data(frame)}"
    return verdict(fine, above=OFTEN, within=SHARE, note=note)


@CLAIMS.add(
    "C-n.frozen",
    "Ḋ = 0 loses little: with activations held still, the rate explains the growth (ReLU networks).",
    "proof of Theorem 5.5",
    **_TERMS,
)
def frozen(frame: polars.DataFrame) -> Finding:
    """Per seed how much of the growth of ReLU networks the exact rate with Ḋ = 0 adds up to."""
    note = (
        "effect: ∫ exact rate with Ḋ = 0 over the growth of ln ϱ, summed over the grid",
        f"the rest is neurons switching, and the step being finite; {on_data(frame)}",
    )
    return verdict(_of_growth(frame, "explained", "relu"), between=(0.9, 1.1), note=note)


@CLAIMS.add(
    "C-n.smooth",
    "Ḋ = 0 loses little for smooth activations as well (tanh, GELU).",
    "proof of Theorem 5.5",
    **_OTHERS,
)
def smooth(frame: polars.DataFrame) -> Finding:
    """Per seed the share of growth in the terms of Ḋ, the larger of tanh and GELU."""
    shares = _of_growth(frame, "dropped", "tanh", "gelu")
    tanh, gelu = (mean_known(shares.filter(activation=kind)["value"]) for kind in ("tanh", "gelu"))
    note = (
        "effect: |∫ terms of Ḋ| over the growth of ln ϱ, the larger of tanh and GELU",
        f"tanh {tanh}, GELU {gelu}",
        on_data(frame),
    )
    return verdict(shares.with_columns(_COLUMN("value").abs()), over="max", below=0.1, note=note)


@CLAIMS.add(
    "C-n.slopes",
    "|σ′| is bounded by a number M (ReLU and linear networks, leaky ReLU, tanh, GELU).",
    "Assumption 5.4",
    parts=("growth", "growth-activations"),
    check="M is the largest slope that each of these activations has",
)
def bounded_slopes(frame: polars.DataFrame) -> Finding:
    """Per seed the largest |σ′| met, over M."""
    over = _COLUMN("steepest") / _COLUMN("activation").replace_strict(_BOUNDS)
    note = "effect: largest |σ′|/M; M = 1 but for GELU, 1.129"
    return verdict(rates(frame).with_columns(value=over), over="max", below=1 + 1e-6, note=note)


@CLAIMS.add(
    "C-o.early",
    "The error-weighted inputs of the first steps are alike: at acute angles in the first fifth of training.",
    "§5.1 and §5.2",
    figure="growth-cosines",
    check=_SIGNS,
    until=0.2,
)
@CLAIMS.add(
    "C-o.throughout",
    "They stay at acute angles to those of the first steps until the end of training.",
    "§5.1 and §5.2",
    figure="growth-cosines",
    check=_SIGNS,
    until=1.0,
)
def acute(frame: polars.DataFrame, until: float) -> Finding:
    """Per seed the smallest cosine of x̃(τ) and x̃(t) over the grid, up to a share of the training."""
    time, least = _COLUMN("flow_time"), _COLUMN("cosine_least")
    chosen = rates(frame).filter(time <= until * time.max() + 1e-9)
    kinds = by_value(
        chosen.group_by("activation").agg(value=least.min()), "activation", form="{place} {mean:.3f}"
    )
    what = "effect: smallest cosine over the grid, the points and pairs of steps"
    note = (what, kinds, on_data(frame))
    return verdict(chosen, "cosine_least", over="min", above=0.0, within=CORRELATION, note=note)


def _of_growth(frame: polars.DataFrame, part: str, *activations: str) -> polars.DataFrame:
    """Per seed and activation the share of a part in the growth, summed over the grid."""
    share = _COLUMN(part).sum() / _COLUMN("growth").sum()
    return networks(rates(frame, *activations)).group_by("activation", "seed").agg(value=share)
