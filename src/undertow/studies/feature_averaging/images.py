"""Two classes or the ten behind them (row F9): does detailed supervision make the binary decision more robust?

Networks of one architecture are trained on parity (MNIST; scikit-learn's digits where that is not on this
machine) or on first five against last five classes (CIFAR-10, paper scale): with one logit, or with ten
classes whose binary read-out is Σ_{J+} s_j − Σ_{J−} s_j. The slides do not say what exactly is attacked, and
it matters: here the read-out itself (PGD, and AutoAttack's three gradient attacks; on MNIST all four of them at
one radius, at paper scale at every radius), the side of the largest class, and each network's own training loss
(plain PGD, judged by the read-out). ε is L2, in raw pixels.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow.core.errors import InputError
from undertow.studies.feature_averaging.lines import after_training, lines, mean
from undertow.studies.kit.claim import Claim, Finding, decide
from undertow.studies.kit.data_names import written
from undertow.studies.kit.presence import present
from undertow.studies.kit.study import Figure, Part, Scale

if TYPE_CHECKING:
    import altair
    import polars

__all__ = ["CLAIMS", "FIGURES", "PARTS"]

_SLIDES = "Li, Pan, Lyu & Li 2025, slides, Fig 2"
_RADII = {"digits": (0.2, 0.4, 0.6, 0.9, 1.2), "mnist": (0.5, 1.0, 1.5, 2.0, 3.0)}  # images of norm 3 and 9
_CIFAR_RADII = [0.1, 0.25, 0.5, 1.0]
_SIZES: dict[Scale, dict[str, Any]] = {
    "smoke": {
        "epochs": 5,
        "points": 8,
        "radii": 1,
        "square": "none",
        "seeds": 10,
        "width": 16,
        "plain": "pgd-once",
    },
    "laptop": {
        "epochs": 30,
        "points": 30,
        "radii": 5,
        "square": "one",
        "seeds": 10,
        "width": 128,
        "plain": "pgd",
    },
    "paper": {
        "epochs": 30,
        "points": 1000,
        "radii": 5,
        "square": "all",
        "seeds": 10,
        "width": 512,
        "plain": "pgd",
    },
}
_AREA = "areas were taken after means over radii had turned out to depend on the radii"
_MNIST, _CIFAR = ("images-two", "images-ten"), ("cifar-two", "cifar-ten")


def _digits(*, classes: int) -> Part:
    """MNIST's parity with one logit or ten classes: two-layer networks on pixels in [0, 1]."""

    def settings(scale: Scale, variant: str) -> dict[str, Any] | None:
        if variant != "paper":
            return None
        size = _SIZES[scale]
        name, limit = _training_set(scale)
        eps = _RADII[name][: size["radii"]]
        square = {"none": (), "one": eps[1:2], "all": eps}[size["square"]]
        return {
            "data": {"name": name, "limit": limit, "task": "parity" if classes == 2 else None},
            "model": {"name": "mlp", "widths": [size["width"]]},
            "training": {
                "optimizer": "adam",
                "learning_rate": 0.003,
                "batch_size": 128,
                "epochs": size["epochs"],
                "loss": "bce" if classes == 2 else "cross-entropy",
            },
            "probe": {
                "measures": [
                    {
                        "name": "supervision",
                        "task": "parity",
                        "eps": list(eps),
                        "square": list(square),
                        "plain": size["plain"],
                    }
                ],
                "every": "end",
                "split": "test",
                "limit": size["points"],
                "examples": 4,  # for the report's grid browser
            },
            "grid": {"data.name": [name], "seed": list(range(size["seeds"]))},
        }

    return settings


def _cifar(*, classes: int) -> Part:
    """First five against last five classes of CIFAR-10, for a small residual network; at paper scale only."""

    def settings(scale: Scale, variant: str) -> dict[str, Any] | None:
        if variant != "paper" or scale != "paper":
            return None
        return {
            "data": {"name": "cifar10", "task": "first-last" if classes == 2 else None},
            "model": {"name": "resnet", "image": [3, 32, 32], "channels": [32, 64, 128], "blocks": 1},
            "training": {
                "optimizer": "adam",
                "learning_rate": 0.001,
                "batch_size": 128,
                "epochs": 12,
                "loss": "bce" if classes == 2 else "cross-entropy",
                "matmul_precision": "tf32",
            },
            "probe": {
                "measures": [
                    {"name": "supervision", "task": "halves", "eps": _CIFAR_RADII, "plain": "pgd-once"}
                ],
                "every": "end",
                "split": "test",
                "limit": 500,
            },
            "grid": {"data.name": ["cifar10"], "seed": list(range(10))},
        }

    return settings


def _training_set(scale: Scale) -> tuple[str, int | None]:
    """MNIST at paper scale; on a laptop 5,000 images of it where it is on this machine, and digits otherwise."""
    if scale == "paper":
        return "mnist", None
    if scale == "laptop" and present("mnist"):
        return "mnist", 5000
    return "digits", None


def accuracies(frame: polars.DataFrame) -> polars.DataFrame:
    """After training: part, data_name, seed, how (sum:pgd, native, …), radius and accuracy (``value``)."""
    import polars

    parts = polars.col("key").str.split_exact("@", 1).struct.rename_fields(["how", "radius"])
    return (
        after_training(frame, "supervision")
        .with_columns(parts)
        .unnest("key")
        .with_columns(polars.col("radius").cast(polars.Float64))
        .select("part", "data_name", "seed", "how", "radius", "value")
        .sort("part", "seed", "how", "radius")
    )


def gain(frame: polars.DataFrame, *, how: str, against: str) -> Finding:
    """Per seed how much farther ten-class networks hold out than two-class ones, in pixels.

    The area under robust accuracy up to the largest ε is the mean distance of the closest error found, errors beyond
    it counted there: unlike a mean over radii it does not depend on which of them were looked at. Where only some
    radii were attacked (all of AutoAttack), the effect is the mean difference at these.
    """
    import polars

    column = polars.col
    table = accuracies(frame)
    names = {"ten": how, "two": against}
    chosen = polars.concat(
        table.filter(column("part").str.ends_with(kind) & (column("how") == key)).with_columns(
            kind=polars.lit(kind)
        )
        for kind, key in names.items()
    )
    if chosen.is_empty():
        raise InputError(f"no record of {how}: not every scale runs every attack")
    clean = table.filter((column("radius") == 0) & column("how").str.ends_with("gradient")).with_columns(
        kind=column("part").str.tail(3)
    )
    if how == "native":  # the decision before any attack is that of the read-out
        chosen = polars.concat([chosen, clean.filter(column("how") == "sum:gradient").select(chosen.columns)])
    wide = chosen.pivot("kind", index=["seed", "radius"], values="value").sort("seed", "radius")
    wide = wide.with_columns(more=column("ten") - column("two"))
    whole = 0.0 in wide["radius"]
    values = [
        float(np.trapezoid(one["more"], one["radius"])) if whole else mean(one["more"])
        for one in wide.partition_by("seed", maintain_order=True)
    ]
    by_radius = ", ".join(
        f"{100 * more:+.0f} at {radius:g}"
        for radius, more in wide.group_by("radius").agg(column("more").mean()).sort("radius").rows()
    )
    means = {
        (kind, key[:3]): value
        for kind, key, value in clean.group_by("kind", "how").agg(column("value").mean()).rows()
    }
    effect = "mean distance of the closest error, in pixels" if whole else "robust accuracy"
    note = (
        f"effect: {effect}, ten-class less two-class supervision; points of accuracy by ε: {by_radius}; clean "
        f"{means['two', 'sum']:.3g} (two), {means['ten', 'sum']:.3g} (ten, by Σ−Σ), {means['ten', 'max']:.3g} (ten, by "
        f"the largest); on {written(table['data_name'])}"
    )
    return decide(values, above=0.0, note=note)


def curves(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Robust accuracy against ε, one panel for each way of attacking."""
    import polars

    panels = {
        "sum:pgd": "read-out Σ−Σ, PGD",
        "sum:gradient": "read-out Σ−Σ, APGD + FAB",
        "max:gradient": "side of the largest class, APGD + FAB",
        "native": "own training loss, PGD",
    }
    column = polars.col
    table = accuracies(frame).filter(column("how").is_in(list(panels)))
    by_sum = table.filter(column("how") == "sum:gradient")
    # A one-logit network has a single decision: it is the same curve in the panel of the largest class.
    one = by_sum.filter(column("part").str.ends_with("two")).with_columns(how=polars.lit("max:gradient"))
    # Before any attack the decision is that of the read-out.
    clean = by_sum.filter(column("radius") == 0).with_columns(how=polars.lit("native"))
    table = polars.concat([table, one, clean])
    two, ten = "trained on 2 classes", "trained on 10 classes"
    tidy = table.with_columns(
        panel=column("how").replace_strict(panels),
        kind=polars.when(column("part").str.ends_with("two"))
        .then(polars.lit(two))
        .otherwise(polars.lit(ten)),
    )
    return lines(
        tidy,
        x="radius",
        x_title="ε, L2, raw pixels",
        y_title="robust accuracy (2 classes)",
        colour="kind",
        order=[two, ten],
        panel="panel",
        panels=list(panels.values()),
        width=190,
        note=f"{written(table['data_name'])}, test images",
    )


PARTS: dict[str, Part] = {
    "images-two": _digits(classes=2),
    "images-ten": _digits(classes=10),
    "cifar-two": _cifar(classes=2),
    "cifar-ten": _cifar(classes=10),
}
FIGURES = (
    Figure("images", "Two-class and ten-class supervision on MNIST or digits", curves, _MNIST),
    Figure("cifar", "Two-class and ten-class supervision on CIFAR-10", curves, _CIFAR),
)


_WAYS = {
    "readout": (
        "attacked at its read-out Σ−Σ (AutoAttack's gradient attacks)",
        "sum:gradient",
        "sum:gradient",
    ),
    "autoattack": ("attacked at its read-out Σ−Σ (all of AutoAttack)", "sum:autoattack", "sum:autoattack"),
    "pgd": ("attacked at its read-out Σ−Σ (PGD)", "sum:pgd", "sum:pgd"),
    "argmax": (
        "decided by its largest class (AutoAttack's gradient attacks)",
        "max:gradient",
        "sum:gradient",
    ),
    "native": ("attacked through its own training loss (PGD)", "native", "native"),
}
"""In words, and by the keys of ten-class and of two-class networks."""


def _claims(
    ways: Iterable[str], parts: tuple[str, ...], *, suffix: str, figure: str, where: str
) -> tuple[Claim, ...]:
    return tuple(
        Claim(
            f"F-n.{way}{suffix}",
            f"Trained on ten classes a network is more robust at the binary task than on two, {text}; {where}.",
            _SLIDES,
            lambda frame, how=how, against=against: gain(frame, how=how, against=against),  # type: ignore[misc]
            parts,
            figure,
            hindsight=_AREA,
        )
        for way in ways
        for text, how, against in [_WAYS[way]]
    )


CLAIMS = (
    *_claims(_WAYS, _MNIST, suffix="", figure="images", where="parity of MNIST or digits"),
    *_claims(
        [way for way in _WAYS if way != "autoattack"],  # Square would take most of the time
        _CIFAR,
        suffix="-cifar",
        figure="cifar",
        where="first against last five classes of CIFAR-10",
    ),
)
