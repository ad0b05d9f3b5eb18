"""F-q: trained networks nearly satisfy the KKT conditions, come closer over training, and are fragile."""

from __future__ import annotations

import polars

from undertow.core.errors import InputError
from undertow.studies.kit.claim import CORRELATION, SHARE, Finding
from undertow.studies.kit.per_seed import mean, rank_correlation, verdict
from undertow.studies.kit.readings import after_training, measured
from undertow.studies.kit.statements import Claims

__all__ = ["CLAIMS"]

SMALL = 0.25
_FREI = "Frei, Vardi, Bartlett & Srebro 2023; Li 2024 talk, Implicit Bias of GD"

CLAIMS = Claims(_FREI, parts=("kkt",), figure="kkt")


@CLAIMS.add(
    "F-q.kkt",
    "Networks that gradient descent trains on clusters satisfy the KKT conditions of the margin problem, nearly.",
)
def stationary(frame: polars.DataFrame) -> Finding:
    """Per seed the relative stationarity residual after training."""
    last = _conditions(frame)
    start = measured(frame, "kkt", "residual", step=0)
    note = (
        "effect: min over λ ≥ 0 of ‖θ − Σ λ_i ∇q_i‖/‖θ‖ at the end "
        f"(at the start {mean(start['value']):.2g}); weight on margins above the smallest: "
        f"{mean(last['slackness']):.2g}; 1 − cos(θ, −∇L): {mean(last['misalignment']):.2g}"
    )
    return verdict(last, "residual", below=SMALL, within=SHARE, note=note)


@CLAIMS.add(
    "F-q.trend",
    "They come closer to a KKT point the longer they are trained.",
    source=f"{_FREI}; Lyu & Li 2020",
)
def approaches(frame: polars.DataFrame) -> Finding:
    """Per seed the Spearman correlation of the residual with the step, over the second half of log time."""
    step = polars.col("step")
    curve = measured(frame, "kkt", "residual").filter(step > 0)
    late = curve.filter(step >= step.max().sqrt())
    trend = rank_correlation(late, "step", "value", by=["seed"])
    note = "effect: Spearman of residual and step, from the square root of the last step on"
    return verdict(trend, below=0.0, within=CORRELATION, note=note)


@CLAIMS.add(
    "F-q.fragile",
    "And they are not robust: one perturbation of length O(√(d/k)) for each class flips nearly every point.",
    figure="kkt-universal",
)
def flipped(frame: polars.DataFrame) -> Finding:
    """Per seed the share of points that survive the universal move of 2√(d/k)."""
    _conditions(frame)
    like = mean(after_training(frame, "kkt-network", "likeness")["value"])
    note = (
        "effect: accuracy on the training points after a move of 2√(d/k) along −y Σ_j y_j μ_j; "
        f"mean cosine of a neuron with the closed-form KKT network's: {like:.3g}"
    )
    survive = after_training(frame, "kkt-network", "universal@2.0")
    return verdict(survive, below=0.1, within=SHARE, note=note)


def _conditions(frame: polars.DataFrame) -> polars.DataFrame:
    """After training: a row per seed, a column per condition.

    The margin problem is one of networks that classify every point: what else would its KKT points be?
    """
    last = after_training(frame, "kkt").pivot("key", index="seed", values="value").sort("seed")
    wrong = int((last["margin"] <= 0).sum())
    if wrong:
        raise InputError(f"{wrong} of {len(last)} networks misclassify a training point: train longer")
    return last
