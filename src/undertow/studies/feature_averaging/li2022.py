"""The lower-bound example of Li et al. 2022 (row F12): linear, perfect and fragile, while a robust classifier exists.

Points (s, yγ): vertices s of a cube with arbitrary labels, and one short coordinate that gives the label
away. A linear classifier, trained by gradient descent, has only that coordinate to go by; the nearest-
neighbour classifier of the same points, constructed and not trained, is robust within half the distance of
two vertices, and has to remember them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow.studies.feature_averaging.lines import after_training, lines
from undertow.studies.kit.claim import SHARE, Claim, Finding, decide
from undertow.studies.kit.study import Figure, Part, Scale

if TYPE_CHECKING:
    import altair
    import polars

__all__ = ["CLAIMS", "FIGURES", "PARTS", "linear_settings", "nearest_settings", "relu_settings"]

MARGIN = 0.05
RADIUS = 0.5
"""Half of what the nearest-neighbour classifier is sure to withstand, ten times the linear one's margin."""
_LI = "Li et al. 2022 (Why Robust Generalization in Deep Learning is Difficult); Li 2024 talk, lower bound examples"
_RADII = (0.02, 0.1, 0.2, RADIUS, 0.9)
_SIZES: dict[Scale, dict[str, Any]] = {
    "smoke": {
        "d": 9,
        "corners": 60,
        "epochs": 400,
        "points": 4,
        "seeds": 10,
        "width": 10,
        "radii": (RADIUS,),
    },
    "laptop": {
        "d": 21,
        "corners": 200,
        "epochs": 3000,
        "points": 25,
        "seeds": 10,
        "width": 50,
        "radii": _RADII,
    },
    "paper": {
        "d": 51,
        "corners": 5000,
        "epochs": 20000,
        "points": 2000,
        "seeds": 10,
        "width": 2000,
        "radii": _RADII,
    },
}
_PARTS = ("li2022-linear", "li2022-nearest", "li2022-relu")


def linear_settings(scale: Scale, variant: str) -> dict[str, Any] | None:
    """Logistic regression by gradient descent."""
    model = {"name": "mlp", "widths": [], "init": {"name": "gaussian", "std": 0.0}}
    return _settings(scale, variant, model, {"learning_rate": 4.0, "loss": "logistic"})


def nearest_settings(scale: Scale, variant: str) -> dict[str, Any] | None:
    """The nearest-neighbour classifier, which is not trained."""
    return _settings(scale, variant, {"name": "nearest"}, {"epochs": 0, "loss": "cross-entropy"})


def relu_settings(scale: Scale, variant: str) -> dict[str, Any] | None:
    """A two-layer ReLU network by gradient descent, free to remember the vertices or not."""
    model = {"name": "mlp", "widths": [_SIZES[scale]["width"]]}
    return _settings(scale, variant, model, {"learning_rate": 0.3, "loss": "logistic"})


def _settings(
    scale: Scale, variant: str, model: dict[str, Any], training: dict[str, Any]
) -> dict[str, Any] | None:
    if variant != "paper":
        return None
    size = _SIZES[scale]
    data = {
        "name": "lower-bound",
        "n": 4 * size["corners"],
        "d": size["d"],
        "corners": size["corners"],
        "margin": MARGIN,
    }
    return {
        "data": data,
        "model": model,
        "training": {"optimizer": "gd", "epochs": size["epochs"], **training},
        "probe": {
            "measures": [
                "accuracy",
                {"name": "robust-accuracy", "eps": list(size["radii"]), "attack": "apgd-ce+fab-t"},
            ],
            "every": "end",
            "split": "test",
            "limit": size["points"],
        },
        "grid": {"seed": list(range(size["seeds"]))},
    }


def accuracies(frame: polars.DataFrame) -> polars.DataFrame:
    """After training: part, seed, radius (0 for clean) and accuracy within it."""
    import polars

    column = polars.col
    clean = after_training(frame, "accuracy").with_columns(radius=polars.lit(0.0))
    robust = after_training(frame, "robust-accuracy").with_columns(radius=column("key").cast(polars.Float64))
    return polars.concat([each.select("part", "seed", "radius", "value") for each in (clean, robust)]).sort(
        "part", "seed", "radius"
    )


def _at(frame: polars.DataFrame, part: str, radius: float) -> list[float]:
    import polars

    chosen = (polars.col("part") == part) & (polars.col("radius") == radius)
    values: list[float] = accuracies(frame).filter(chosen).sort("seed")["value"].to_list()
    return values


def linear_is_fragile(frame: polars.DataFrame) -> Finding:
    """Per seed the linear classifier's clean accuracy less its robust accuracy at the radius."""
    clean, robust = (_at(frame, "li2022-linear", radius) for radius in (0.0, RADIUS))
    note = (
        f"effect: accuracy of the linear classifier at ε = 0 less that at ε = {RADIUS:g}; clean "
        f"{sum(clean) / len(clean):.3g}, robust {sum(robust) / len(robust):.3g}; margin γ = {MARGIN:g}"
    )
    return decide([c - r for c, r in zip(clean, robust, strict=True)], above=0.95, note=note)


def robust_exists(frame: polars.DataFrame) -> Finding:
    """Per seed the robust accuracy of the nearest-neighbour classifier at the radius.

    An attack alone would prove no robustness; here it confirms what the distance between vertices proves.
    """
    note = (
        f"effect: robust accuracy of the nearest-neighbour classifier at ε = {RADIUS:g}, by attack; proved is 1 at "
        "every ε < 1, as vertices are 2 apart or more"
    )
    return decide(_at(frame, "li2022-nearest", RADIUS), above=0.95, within=SHARE, note=note)


def by_radius(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Accuracy of the three classifiers against the radius."""
    import polars

    names = {
        "li2022-linear": "linear, trained",
        "li2022-relu": "two-layer ReLU, trained",
        "li2022-nearest": "nearest neighbour, constructed",
    }
    return lines(
        accuracies(frame).with_columns(kind=polars.col("part").replace_strict(names)),
        x="radius",
        x_title="ε, L2 (vertices are 2 apart or more)",
        y_title="accuracy within ε",
        colour="kind",
        order=list(names.values()),
        width=420,
        note=f"Vertices with arbitrary labels, linear margin {MARGIN:g}",
    )


PARTS: dict[str, Part] = dict(zip(_PARTS, (linear_settings, nearest_settings, relu_settings), strict=True))
FIGURES = (Figure("li2022", "A fragile linear and a robust classifier of the same data", by_radius, _PARTS),)
CLAIMS = (
    Claim(
        "F-s.linear",
        "A linear classifier has perfect clean and nearly zero robust accuracy.",
        _LI,
        linear_is_fragile,
        ("li2022-linear",),
        "li2022",
    ),
    Claim(
        "F-s.robust",
        "On the same data a robust classifier exists.",
        _LI,
        robust_exists,
        ("li2022-nearest",),
        "li2022",
        check="the nearest-neighbour classifier is built, and vertices 2 apart prove it robust within 1",
    ),
)
