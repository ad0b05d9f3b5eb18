"""Averaging and decoupling on a network's features (row F8): cosines of thirty neurons with the classes' means.

A small residual network is trained on all classes here (the paper takes a downloaded ResNet-18 on CIFAR-10;
at paper scale ours is trained on that, at smaller ones on scikit-learn's digits), then frozen. On its
features two heads of thirty neurons are trained by gradient descent: 15 + 15 on the binary task, ten times
three on all classes. Shown is the mean cosine of each three neurons with the mean feature of each class, on
features as they are and with their overall mean taken away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow.drawing.titles import mean_of_seeds, small_title
from undertow.studies.feature_averaging.lines import after_training, mean
from undertow.studies.kit.claim import SHARE, Claim, Finding, decide
from undertow.studies.kit.data_names import written
from undertow.studies.kit.study import Figure, Part, Scale

if TYPE_CHECKING:
    import altair
    import polars

__all__ = ["CLAIMS", "FIGURES", "PARTS", "cosines"]

_SLIDES = "Li, Pan, Lyu & Li 2025, slides, Fig 1 (CIFAR-10 features)"
_SIZES: dict[Scale, dict[str, Any]] = {
    "smoke": {"of": "digits", "channels": (4,), "train": 100, "epochs": 1, "steps": 30, "seeds": 10},
    "laptop": {
        "of": "digits",
        "channels": (8, 16, 32),
        "train": None,
        "epochs": 15,
        "steps": 1000,
        "seeds": 10,
    },
    "paper": {
        "of": "cifar10",
        "channels": (64, 128, 256, 512),
        "train": None,
        "epochs": 12,
        "batch": 512,
        "steps": 1000,
        "seeds": 10,
    },
}
_PARTS = ("features-two", "features-ten")


def _head(*, classes: int) -> Part:
    def settings(scale: Scale, variant: str) -> dict[str, Any] | None:
        if variant != "paper":
            return None
        size = _SIZES[scale]
        task = "first-last" if size["of"] == "cifar10" else "parity"
        return {
            "data": {
                "name": "features",
                "of": size["of"],
                "task": task if classes == 2 else None,
                "channels": list(size["channels"]),
                "blocks": 2 if scale == "paper" else 1,
                "train": size["train"],
                "epochs": size["epochs"],
                "batch_size": size.get("batch", 128),
            },
            "model": {
                "name": "two-layer",
                "width": 30,
                "init": {"name": "gaussian", "std": 1e-5},
                "head": "balanced-signs" if classes == 2 else "class-means",
            },
            "training": {
                "optimizer": "gd",
                "learning_rate": 0.05,
                "epochs": size["steps"],
                "loss": "logistic" if classes == 2 else "cross-entropy",
                "frozen": ["output.weight"],
            },
            "probe": {"measures": ["feature-cosines", "accuracy"], "every": "end", "split": "test"},
            "grid": {"of": [size["of"]], "centred": [False, True], "seed": list(range(size["seeds"]))},
        }

    return settings


def cosines(frame: polars.DataFrame) -> polars.DataFrame:
    """After training: part, of, centred, seed, three (0 … 9), feature, the mean cosine (``value``), own (boolean)."""
    import polars

    column = polars.col
    pair = column("key").str.split_exact(":", 1).struct.rename_fields(["neuron", "feature"])
    table = (
        after_training(frame, "feature-cosines")
        .filter(column("key").str.contains(r"^\d+:\d+$"))
        .with_columns(pair)
        .unnest("key")
        .with_columns(column("neuron").cast(polars.Int64) // 3, column("feature").cast(polars.Int64))
        .rename({"neuron": "three"})
        .group_by("part", "of", "centred", "seed", "three", "feature")
        .agg(column("value").mean())
    )
    # Parity: odd classes are positive; first against last five: the last. The first five threes are positive neurons.
    positive = (
        polars.when(column("of") == "cifar10")
        .then(column("feature") >= 5)
        .otherwise(column("feature") % 2 == 1)
    )
    two = column("part") == "features-two"
    own = (
        polars.when(two)
        .then((column("three") < 5) == positive)
        .otherwise(column("three") == column("feature"))
    )
    return table.with_columns(own=own).sort("part", "centred", "seed", "three", "feature")


def blocks(frame: polars.DataFrame, *, centred: bool) -> Finding:
    """Per seed, of a side's mean neuron: least cosine with an own class less largest with another."""
    import polars

    column = polars.col
    table = cosines(frame).filter((column("part") == "features-two") & (column("centred") == centred))
    sides = (
        table.with_columns(side=column("three") < 5)
        .group_by("seed", "side", "feature", "own")
        .agg(column("value").mean())
    )
    own, value = column("own"), column("value")
    gaps = sides.group_by("seed", "side").agg(
        gap=value.filter(own).min() - value.filter(~own).max(),
        least=value.filter(own).min(),
        largest=value.filter(own).max(),
    )
    worst = gaps.group_by("seed").agg(column("gap").min()).sort("seed")["gap"]
    note = (
        "effect: least cosine with an own class less largest with another, of a side's mean neuron, worse side; own "
        f"classes {mean(gaps['least']):.2f} to {mean(gaps['largest']):.2f}; on {written(table['of'])}"
    )
    return decide(worst.to_list(), above=0.0, note=note)


def diagonal(frame: polars.DataFrame, *, centred: bool) -> Finding:
    """Per seed the share of threes whose largest mean cosine is with their own class, strictly."""
    import polars

    column = polars.col
    table = cosines(frame).filter((column("part") == "features-ten") & (column("centred") == centred))
    own, value = column("own"), column("value")
    rows = table.group_by("seed", "three").agg(
        first=value.filter(own).first() > value.filter(~own).max(), own=value.filter(own).first()
    )
    shares = rows.group_by("seed").agg(column("first").cast(polars.Float64).mean()).sort("seed")["first"]
    note = (
        "effect: share of threes whose largest mean cosine is with their own class; the mean own cosine is "
        f"{mean(rows['own']):.2f}; on {written(table['of'])}"
    )
    return decide(shares.to_list(), above=0.9, within=SHARE, note=note)


def heat_maps(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Neurons in threes against classes, positive classes first for the binary task; mean over seeds."""
    import altair
    import polars

    from undertow.drawing.cosine_maps import cosine_map

    column = polars.col
    table = cosines(frame)
    means = table.group_by("part", "centred", "three", "feature", "own").agg(column("value").mean())
    positive = means.filter((column("part") == "features-two") & (column("three") == 0) & column("own"))
    sides = sorted(range(10), key=lambda feature: (feature not in set(positive["feature"]), feature))
    maps = [
        cosine_map(
            means.filter((column("part") == part) & (column("centred") == centred)).sort("three", "feature"),
            x="feature",
            y="three",
            x_title="class mean",
            y_title="neurons, in threes",
            side=200,
            number=".1f",
            letters=7,
            order=sides if part == "features-two" else None,
        ).properties(
            title=f"{'10' if part == 'features-ten' else '2'} classes, "
            f"{'centred features' if centred else 'as they are'}"
        )
        for part in _PARTS
        for centred in (False, True)
    ]
    text = f"{written(table['of'])}; {mean_of_seeds([table['seed'].n_unique()], band=False)}"
    chart: altair.TopLevelMixin = altair.concat(*maps, columns=2).properties(title=small_title(text))
    return chart


PARTS: dict[str, Part] = {"features-two": _head(classes=2), "features-ten": _head(classes=10)}
FIGURES = (
    Figure("frozen-features", "Cosines of neurons and class means on frozen features", heat_maps, _PARTS),
)


def _claims(*, centred: bool) -> tuple[Claim, ...]:
    suffix, what = (".centred", "centred features") if centred else ("", "features as they are")
    return (
        Claim(
            f"F-m.blocks{suffix}",
            f"Trained on two classes, neurons align with all classes of their side: two blocks ({what}).",
            _SLIDES,
            lambda frame: blocks(frame, centred=centred),
            _PARTS,
            "frozen-features",
        ),
        Claim(
            f"F-m.diagonal{suffix}",
            f"Trained on ten classes, neurons align with their own class: a diagonal ({what}).",
            _SLIDES,
            lambda frame: diagonal(frame, centred=centred),
            _PARTS,
            "frozen-features",
        ),
    )


CLAIMS = (*_claims(centred=False), *_claims(centred=True))
