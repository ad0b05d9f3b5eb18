"""Gradient descent's networks against the KKT network of Frei et al. (row F10), on the clusters of D_binary.

Two-layer ReLU networks with biases and a fixed head are trained by full-batch gradient descent on the
logistic loss. As the loss falls, their direction should approach a KKT point of the margin problem; on
clusters such a point averages features, and one perturbation for each class, −y Σ_j y_j μ_j of length
O(√(d/k)), flips nearly every point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow.core.errors import InputError
from undertow.studies.feature_averaging.lines import after_training, lines, mean
from undertow.studies.kit.claim import CORRELATION, SHARE, Claim, Finding, decide
from undertow.studies.kit.study import Figure, Part, Scale

if TYPE_CHECKING:
    import altair
    import polars

__all__ = ["CLAIMS", "FIGURES", "PARTS", "settings"]

SMALL = 0.25
_FREI = "Frei, Vardi, Bartlett & Srebro 2023; Li 2024 talk, Implicit Bias of GD"
_MOVES = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
_SIZES: dict[Scale, dict[str, Any]] = {
    "smoke": {"d": 120, "n": 40, "k": 4, "rate": 0.05, "steps": 200, "seeds": 10},
    "laptop": {"d": 500, "n": 100, "k": 10, "rate": 0.02, "steps": 4000, "seeds": 10},
    "paper": {"d": 3072, "n": 1000, "k": 10, "rate": 0.001, "steps": 100000, "seeds": 10},
}


def settings(scale: Scale, variant: str) -> dict[str, Any] | None:
    """Measured on the points trained on, where the KKT conditions live; only in the variant ``paper``."""
    if variant != "paper":
        return None
    size = _SIZES[scale]
    return {
        "data": {"name": "d-binary", "n": size["n"], "d": size["d"], "k": size["k"]},
        "model": {
            "name": "two-layer",
            "width": 10,
            "init": {"name": "gaussian", "std": 1e-5, "bias": 1e-5},
            "bias": "hidden",
            "head": "balanced-signs",
        },
        "training": {
            "optimizer": "gd",
            "learning_rate": size["rate"],
            "epochs": size["steps"],
            "loss": "logistic",
            "frozen": ["output.weight"],
        },
        "probe": {
            "measures": [
                {"name": "kkt", "parameters": ["hidden"]},
                {"name": "kkt-network", "moves": list(_MOVES)},
                {"name": "loss", "kind": "logistic"},
            ],
            "every": "log",
        },
        "grid": {"seed": list(range(size["seeds"]))},
    }


def stationary(frame: polars.DataFrame) -> Finding:
    """Per seed the relative stationarity residual after training."""
    last = after_training(frame, "kkt").pivot("key", index="seed", values="value").sort("seed")
    _require_margins(last)
    start = frame.filter((frame["measure"] == "kkt") & (frame["key"] == "residual") & (frame["step"] == 0))
    note = (
        "effect: min over λ ≥ 0 of ‖θ − Σ λ_i ∇q_i‖/‖θ‖ at the end "
        f"(at the start {mean(start['value']):.2g}); weight on margins above the smallest: "
        f"{mean(last['slackness']):.2g}; 1 − cos(θ, −∇L): {mean(last['misalignment']):.2g}"
    )
    return decide(last["residual"].to_list(), below=SMALL, within=SHARE, note=note)


def approaches(frame: polars.DataFrame) -> Finding:
    """Per seed the Spearman correlation of the residual with the step, over the second half of log time."""
    import polars

    column = polars.col
    curve = frame.filter((column("measure") == "kkt") & (column("key") == "residual") & (column("step") > 0))
    late = curve.filter(column("step") >= column("step").max().sqrt())
    trend = late.group_by("seed").agg(rho=polars.corr("step", "value", method="spearman")).sort("seed")["rho"]
    note = "effect: Spearman of residual and step, from the square root of the last step on"
    return decide(trend.to_list(), below=0.0, within=CORRELATION, note=note)


def flipped(frame: polars.DataFrame) -> Finding:
    """Per seed the share of points that survive the universal move of 2√(d/k)."""
    import polars

    _require_margins(after_training(frame, "kkt").pivot("key", index="seed", values="value"))
    last = after_training(frame, "kkt-network")
    survive = last.filter(polars.col("key") == "universal@2.0").sort("seed")["value"]
    like = mean(last.filter(polars.col("key") == "likeness")["value"])
    note = (
        "effect: accuracy on the training points after a move of 2√(d/k) along −y Σ_j y_j μ_j; "
        f"mean cosine of a neuron with the closed-form KKT network's: {like:.3g}"
    )
    return decide(survive.to_list(), below=0.1, within=SHARE, note=note)


def _require_margins(last: polars.DataFrame) -> None:
    """The margin problem is one of networks that classify every point: what else would its KKT points be?"""
    wrong = int((last["margin"] <= 0).sum())
    if wrong:
        raise InputError(f"{wrong} of {len(last)} networks misclassify a training point: train longer")


def residuals(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """The KKT conditions over training."""
    import polars

    names = {
        "residual": "stationarity ‖θ − Σ λ_i ∇q_i‖/‖θ‖",
        "slackness": "weight on margins above the smallest",
        "misalignment": "1 − cos(θ, −∇L)",
    }
    chosen = (
        (polars.col("measure") == "kkt") & polars.col("key").is_in(list(names)) & (polars.col("step") > 0)
    )
    return lines(
        frame.filter(chosen).with_columns(kind=polars.col("key").replace_strict(names)),
        x="step",
        x_title="step",
        y_title="residual",
        colour="kind",
        order=list(names.values()),
        log=True,
        width=420,
        rule=SMALL,
        y_domain=(0.0, 1.0),
        note="KKT conditions on the training points",
    )


def universal(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Accuracy against the length of the one move that all points of a class make."""
    import polars

    column = polars.col
    moved = frame.filter((column("measure") == "kkt-network") & column("key").str.starts_with("universal@"))
    tidy = moved.filter(column("step") == column("step").max()).with_columns(
        move=column("key").str.strip_prefix("universal@").cast(polars.Float64),
        moment=polars.lit("trained network, training points"),
    )
    return lines(
        tidy,
        x="move",
        x_title="length of the move, in √(d/k)",
        y_title="accuracy on moved points",
        colour="moment",
        order=["trained network, training points"],
        width=320,
        note="All points of a class moved alike",
    )


PARTS: dict[str, Part] = {"kkt": settings}
FIGURES = (
    Figure("kkt", "Residuals of the KKT conditions over training", residuals, ("kkt",)),
    Figure("kkt-universal", "One perturbation per class flips the network", universal, ("kkt",)),
)
CLAIMS = (
    Claim(
        "F-q.kkt",
        "Networks that gradient descent trains on clusters satisfy the KKT conditions of the margin problem, nearly.",
        _FREI,
        stationary,
        ("kkt",),
        "kkt",
    ),
    Claim(
        "F-q.trend",
        "They come closer to a KKT point the longer they are trained.",
        f"{_FREI}; Lyu & Li 2020",
        approaches,
        ("kkt",),
        "kkt",
    ),
    Claim(
        "F-q.fragile",
        "And they are not robust: one perturbation of length O(√(d/k)) for each class flips nearly every point.",
        _FREI,
        flipped,
        ("kkt",),
        "kkt-universal",
    ),
)
