"""Min & Vidal's conjecture (row F6): pReLU networks become one ridge per class for p = 1, one per cluster for p ≥ 3.

Data x = μ_k + N(0, (α²/D) I) around K = 10 orthonormal directions, K₁ = 6 of them positive; two-layer pReLU
networks, both layers trained by mini-batch gradient descent on the exponential loss from a balanced start of
scale 1e-7. After training the distance inf_c sup_{‖x‖=1} |c f − F| to the averaged F and to the decoupled
F^(p) is measured, each relative to sup |F|, which is the distance of the zero function. "Much smaller than 1"
is read as below a quarter of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow.studies.feature_averaging.lines import after_training, lines
from undertow.studies.kit.claim import SHARE, Claim, Finding, decide
from undertow.studies.kit.study import Figure, Part, Scale

if TYPE_CHECKING:
    import altair
    import polars

__all__ = ["CLAIMS", "FIGURES", "PARTS", "settings"]

SMALL = 0.25
_CONJECTURE = "Min & Vidal 2024, Conjecture 1; Li 2024 talk, GD learns Average Features"
_RADII = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
_SIZES: dict[Scale, dict[str, Any]] = {
    "smoke": {
        "d": 20,
        "n": 200,
        "width": 60,
        "epochs": 120,
        "alphas": (0.1,),
        "points": 4,
        "seeds": 10,
        "scale": 1e-2,
        "powers": (1.0, 3.0),
        "starts": 4,
        "radii": (0.5,),
    },
    "laptop": {
        "d": 100,
        "n": 2000,
        "width": 100,
        "epochs": 100,
        "alphas": (0.03, 0.3),
        "points": 40,
        "seeds": 10,
        "scale": 1e-7,
        "powers": (1.0, 3.0),
        "starts": 64,
        "radii": _RADII,
    },
    "paper": {
        "d": 1000,
        "n": 20000,
        "width": 2000,
        "epochs": 40,
        "alphas": (0.01, 0.03, 0.1, 0.2, 0.3),
        "points": 500,
        "seeds": 10,
        "scale": 1e-7,
        "powers": (1.0, 3.0),
        "starts": 256,
        "radii": _RADII,
    },
}


def settings(scale: Scale, variant: str) -> dict[str, Any] | None:
    """The grid of powers p and noises α; only in the variant ``paper``, as nothing here depends on it."""
    if variant != "paper":
        return None
    size = _SIZES[scale]
    noises = [alpha / size["d"] ** 0.5 for alpha in size["alphas"]]
    return {
        "data": {
            "name": "axis-clusters",
            "n": size["n"],
            "d": size["d"],
            "k": 10,
            "positive": 6,
            "norm": 1.0,
            "sigma": noises[0],
        },
        "model": {"name": "prelu", "width": size["width"], "power": 1.0, "scale": size["scale"]},
        "training": {
            "optimizer": "sgd",
            "learning_rate": 0.2,
            "batch_size": 100,
            "epochs": size["epochs"],
            "loss": "exponential",
        },
        "probe": {
            "measures": [
                {"name": "feature-distance", "starts": size["starts"]},
                "accuracy",
                {"name": "loss", "kind": "exponential"},
                {"name": "robust-accuracy", "eps": list(size["radii"]), "attack": "apgd-ce"},
            ],
            "every": "end",
            "split": "test",
            "limit": size["points"],
        },
        "grid": {
            "power": list(size["powers"]),
            "sigma": noises,
            "seed": list(range(size["seeds"])),
        },
    }


def distances(frame: polars.DataFrame) -> polars.DataFrame:
    """After training: power, alpha, seed, target (averaged, decoupled), lower, upper and relative distance."""
    import polars

    parts = polars.col("key").str.split_exact(":", 1).struct.rename_fields(["target", "side"])
    return (
        after_training(frame, "feature-distance")
        .with_columns(parts)
        .unnest("key")
        .pivot("side", index=["power", "sigma", "seed", "target"], values="value")
        .sort("power", "sigma", "target", "seed")
    )


def is_close(frame: polars.DataFrame, *, target: str) -> Finding:
    """Per seed the relative distance of the conjecture's networks to the target, the largest over powers and noises."""
    import polars

    power, aim = polars.col("power"), polars.col("target")
    table = distances(frame).filter(power == 1 if target == "averaged" else power >= 3)
    chosen, other = table.filter(aim == target), table.filter(aim != target)
    worst = chosen.group_by("seed").agg(polars.col("relative").max()).sort("seed")["relative"]
    least = min(other["relative"].to_list())
    # Both ends of the bracket have one unit: upper/lower is the same relative to sup |F|.
    proved = max((chosen["upper"] * chosen["relative"] / chosen["lower"]).drop_nans().to_list(), default=1.0)
    note = (
        f"effect: distance to the {target} features relative to sup |F|, largest over the noises and p = "
        f"{', '.join(f'{p:g}' for p in table['power'].unique().sort())}; to the other kind it is {least:.2g} or more; "
        f"a lower bound, found by ascent; proved is no more than {proved:.2g}"
    )
    return decide(worst.to_list(), below=SMALL, within=SHARE, note=note)


def more_robust(frame: polars.DataFrame) -> Finding:
    """Per seed the mean over radii and noises of robust accuracy, p = 3 less p = 1."""
    import polars

    by_power = (
        after_training(frame, "robust-accuracy").group_by("seed", "power").agg(polars.col("value").mean())
    )
    means = by_power.sort("seed", "power").pivot("power", index="seed", values="value")
    gain = (means["3.0"] - means["1.0"]).to_list()
    return decide(
        gain, above=0.0, note="effect: robust accuracy of p = 3 less that of p = 1, mean over ε up to 0.7"
    )


def by_noise(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Distance to either target against the noise, one panel per power."""
    import polars

    titles = {"averaged": "to averaged features, F", "decoupled": "to one feature each, F^(p)"}
    tidy = distances(frame).with_columns(
        _panel(), value=polars.col("relative"), target=polars.col("target").replace_strict(titles)
    )
    return lines(
        tidy,
        x="sigma",
        x_title="noise per coordinate, α/√D",
        x_format=".1~g",
        y_title="inf sup |c f − F| / sup |F|",
        colour="target",
        order=list(titles.values()),
        panel="panel",
        log=True,
        rule=SMALL,
        y_domain=(0.0, 1.0),
        note="Distance on the unit sphere, a lower bound",
    )


def robust_by_radius(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Robust accuracy against the radius, for ReLU and for higher powers."""
    import polars

    tidy = after_training(frame, "robust-accuracy").with_columns(
        _panel().alias("kind"),
        radius=polars.col("key").cast(polars.Float64),
        noise=polars.format("α/√D = {}", polars.col("sigma").round_sig_figs(2)),
    )
    return lines(
        tidy,
        x="radius",
        x_title="ε, L2, with centres of norm 1",
        y_title="robust accuracy",
        colour="kind",
        order=sorted(tidy["kind"].unique()),
        panel="noise",
        note="Under APGD",
    )


def _panel() -> polars.Expr:
    import polars

    return polars.format("p = {}", polars.col("power").cast(polars.Int64)).alias("panel")


PARTS: dict[str, Part] = {"min-vidal": settings}
FIGURES = (
    Figure(
        "min-vidal",
        "Distance of pReLU networks to averaged and to decoupled features",
        by_noise,
        ("min-vidal",),
    ),
    Figure(
        "min-vidal-robust", "Robust accuracy of ReLU and pReLU networks", robust_by_radius, ("min-vidal",)
    ),
)
CLAIMS = (
    Claim(
        "F-o",
        "For p = 1 the trained network is close to the averaged-feature function F.",
        _CONJECTURE,
        lambda frame: is_close(frame, target="averaged"),
        ("min-vidal",),
        "min-vidal",
    ),
    Claim(
        "F-p",
        "For p ≥ 3 the trained network is close to F^(p), one feature per cluster.",
        _CONJECTURE,
        lambda frame: is_close(frame, target="decoupled"),
        ("min-vidal",),
        "min-vidal",
    ),
    Claim(
        "F-p.robust",
        "pReLU networks with p = 3 are more robust than ReLU networks on the same data.",
        "Min & Vidal 2024, abstract",
        more_robust,
        ("min-vidal",),
        "min-vidal-robust",
    ),
)
