"""Simplicity bias (row F11): gradient descent uses the simplest feature alone, and begins as a linear model.

``slabs``: data of Shah et al. (2020) with one linear coordinate and many that need five slabs. After
training, either kind is exchanged between test points: what is lost is what the network used. ``early-
linear``: a two-layer network with a small start on a task that a linear model solves in part (parity of
digits): how linear its logit is over training, and how far it agrees with the best linear model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow.core.errors import InputError
from undertow.studies.feature_averaging.lines import after_training, lines, mean
from undertow.studies.kit.claim import SHARE, Claim, Finding, decide
from undertow.studies.kit.data_names import written
from undertow.studies.kit.study import Figure, Part, Scale

if TYPE_CHECKING:
    import altair
    import polars

__all__ = ["CLAIMS", "FIGURES", "PARTS", "early_settings", "slab_settings"]

_LEARNED = 0.9
_SHAH = "Shah et al. 2020; Li 2024 talk, Connection to Simplicity Bias"
_SLABS: dict[Scale, dict[str, Any]] = {
    "smoke": {"d": 10, "n": 200, "width": 20, "epochs": 300, "points": 200, "seeds": 10},
    "laptop": {"d": 20, "n": 1000, "width": 50, "epochs": 1000, "points": 1000, "seeds": 10},
    "paper": {"d": 50, "n": 50000, "width": 300, "epochs": 2000, "points": 10000, "seeds": 10},
}
_EARLY: dict[Scale, dict[str, Any]] = {
    "smoke": {"n": 200, "width": 20, "epochs": 300, "seeds": 10},
    "laptop": {"n": 600, "width": 50, "epochs": 2000, "seeds": 10},
    "paper": {"n": 10000, "width": 500, "epochs": 20000, "seeds": 10},
}


def slab_settings(scale: Scale, variant: str) -> dict[str, Any] | None:
    """Full-batch gradient descent on slab data, from a small start (σ = 0.01) and from a usual one (σ = 1/√d)."""
    if variant != "paper":
        return None
    size = _SLABS[scale]
    return {
        "data": {"name": "slabs", "n": size["n"], "d": size["d"], "pieces": 5, "margin": 0.1},
        "model": {
            "name": "two-layer",
            "width": size["width"],
            "init": {"name": "gaussian", "std": 0.01},
            "bias": "hidden",
        },
        "training": {"optimizer": "gd", "learning_rate": 0.3, "epochs": size["epochs"], "loss": "logistic"},
        "probe": {
            "measures": ["randomised-features", {"name": "loss", "kind": "logistic"}],
            "every": "log",
            "split": "test",
            "limit": size["points"],
        },
        "grid": {"std": [0.01, 1.0 / size["d"] ** 0.5], "seed": list(range(size["seeds"]))},
    }


def early_settings(scale: Scale, variant: str) -> dict[str, Any] | None:
    """Parity of scikit-learn's digits (MNIST at paper scale), full-batch gradient descent from a small start."""
    if variant != "paper":
        return None
    size = _EARLY[scale]
    return {
        "data": {
            "name": "mnist" if scale == "paper" else "digits",
            "limit": size["n"],
            "normalise": "standardised",
            "task": "parity",
        },
        "model": {
            "name": "two-layer",
            "width": size["width"],
            "init": {"name": "gaussian", "std": 0.001},
            "bias": "hidden",
        },
        "training": {
            "optimizer": "gd",
            "learning_rate": 0.5,
            "epochs": size["epochs"],
            "loss": "logistic",
            "frozen": ["output.weight"],
        },
        "probe": {"measures": ["linear-likeness"], "every": "log", "split": "test"},
        "grid": {
            "data.name": ["mnist" if scale == "paper" else "digits"],
            "seed": list(range(size["seeds"])),
        },
    }


def exchanged(frame: polars.DataFrame) -> polars.DataFrame:
    """After training: std, seed and the accuracy with nothing, the simple or the complex coordinates exchanged.

    A network at chance loses nothing by any exchange, and says nothing about what gradient descent uses.
    """
    last = after_training(frame, "randomised-features")
    table = last.pivot("key", index=["std", "seed"], values="value").sort("std", "seed")
    poor = int((table["none"] < _LEARNED).sum())
    if poor:
        raise InputError(f"{poor} of {len(table)} networks have not learned the slabs: train longer")
    return table


def ignores_complex(frame: polars.DataFrame) -> Finding:
    """Per seed what exchanging the complex coordinates costs in accuracy, the larger of both starts."""
    import polars

    table = exchanged(frame).with_columns(lost=polars.col("none") - polars.col("complex"))
    lost = table.group_by("seed").agg(polars.col("lost").max()).sort("seed")["lost"]
    note = f"effect: accuracy lost, larger of two starts; accuracy {mean(table['none']):.3f} before"
    return decide(lost.to_list(), below=0.05, note=note)


def needs_simple(frame: polars.DataFrame) -> Finding:
    """Per seed the accuracy once the linear coordinate is exchanged, the larger of both starts; chance is 1/2."""
    import polars

    left = exchanged(frame).group_by("seed").agg(polars.col("simple").max()).sort("seed")["simple"]
    return decide(
        left.to_list(),
        below=0.6,
        within=SHARE,
        note="effect: accuracy left, larger of two starts; chance is 0.5",
    )


def likeness(frame: polars.DataFrame) -> polars.DataFrame:
    """Over training: seed, step, agree, beyond, linearity, accuracy, linear_accuracy."""
    import polars

    chosen = frame.filter(polars.col("measure") == "linear-likeness")
    if chosen.is_empty():
        raise InputError("no record of the likeness to a linear model")
    return chosen.pivot("key", index=["seed", "step"], values="value").sort("seed", "step")


def early_linear(frame: polars.DataFrame) -> Finding:
    """Per seed R² of the logit's linear fit when the network first is as accurate as the linear model, to a point."""
    import polars

    table = likeness(frame)
    reached = table.filter(polars.col("accuracy") >= polars.col("linear_accuracy") - 0.01)
    first = reached.group_by("seed", maintain_order=True).first().sort("seed")
    start = table.group_by("seed", maintain_order=True).first().sort("seed")
    last = table.group_by("seed", maintain_order=True).last().sort("seed")
    if first.is_empty():
        raise InputError("no network became as accurate as the linear model: train longer")
    agree = [f"{mean(each['agree']):.3f}" for each in (first, last)]
    accuracy = [f"{mean(last[key]):.3f}" for key in ("accuracy", "linear_accuracy")]
    note = (
        "effect: R² of the logit's best linear fit when the network first is as accurate as the best linear model "
        f"(before training, by chance, {mean(start['linearity']):.3f}; at the end {mean(last['linearity']):.3f}); "
        f"share of decisions equal to that model's then {agree[0]}, at the end {agree[1]}; "
        f"accuracy at the end {accuracy[0]} against {accuracy[1]}"
    )
    return decide(first["linearity"].to_list(), above=0.9, within=SHARE, note=note)


def features_used(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Accuracy over training with either kind of coordinates exchanged between test points."""
    import polars

    names = {
        "none": "as they are",
        "complex": "slab coordinates exchanged",
        "simple": "linear coordinate exchanged",
    }
    tidy = frame.filter(
        (polars.col("measure") == "randomised-features") & (polars.col("step") > 0)
    ).with_columns(
        kind=polars.col("key").replace_strict(names),
        panel=polars.format("start σ = {}", polars.col("std").round_sig_figs(2)),
    )
    return lines(
        tidy,
        x="step",
        x_title="step",
        y_title="test accuracy",
        colour="kind",
        order=list(names.values()),
        panel="panel",
        log=True,
        note="Slab data",
    )


def linear_then_not(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Agreement with the best linear model over training."""
    import polars

    names = {
        "agree": "agreement with the best linear model",
        "linearity": "R² of the logit's linear fit",
        "accuracy": "accuracy",
        "linear_accuracy": "accuracy of the linear model",
    }
    chosen = (polars.col("measure") == "linear-likeness") & polars.col("key").is_in(list(names))
    return lines(
        frame.filter(chosen & (polars.col("step") > 0)).with_columns(
            kind=polars.col("key").replace_strict(names)
        ),
        x="step",
        x_title="step",
        y_title="share",
        colour="kind",
        order=list(names.values()),
        log=True,
        width=420,
        y_domain=(0.75, 1.0),
        note=f"Parity on {written(frame['data_name'])}, test points",
    )


PARTS: dict[str, Part] = {"slabs": slab_settings, "early-linear": early_settings}
FIGURES = (
    Figure("slabs", "Which coordinates of slab data a network uses", features_used, ("slabs",)),
    Figure("early-linear", "A network beside the best linear model", linear_then_not, ("early-linear",)),
)
CLAIMS = (
    Claim(
        "F-t.complex",
        "On slab data gradient descent ignores the complex features: exchanging them costs no accuracy.",
        _SHAH,
        ignores_complex,
        ("slabs",),
        "slabs",
    ),
    Claim(
        "F-t.simple",
        "It relies on the linear feature alone: exchanging that leaves chance.",
        _SHAH,
        needs_simple,
        ("slabs",),
        "slabs",
    ),
    Claim(
        "F-t.early",
        "Early in training a two-layer network with a small start behaves as a linear model.",
        "Li 2024 talk, Outline (Early phase of GD: like a linear model)",
        early_linear,
        ("early-linear",),
        "early-linear",
        check="seven of ten untrained networks pass the line of 0.9 too: near linear they are from the start",
    ),
)
