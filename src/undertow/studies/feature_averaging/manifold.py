"""Do the smallest perturbations leave the data manifold? (row F12, the dimpled-manifold picture)

``subspace``: clusters in the first 20 coordinates of a larger space, so that the manifold is known exactly;
the network's start sets how large its weights across it are, which training cannot change. ``pca``: digits on
the plane of their first principal directions, and local PCA around each point. The closest adversarial
examples found (FAB, DeepFool, APGD in shrinking balls) are split into the part along the manifold and the
part across it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow.drawing.titles import small_title
from undertow.studies.feature_averaging.lines import after_training, mean
from undertow.studies.kit.claim import Claim, Finding, decide
from undertow.studies.kit.data_names import written
from undertow.studies.kit.study import Figure, Part, Scale

if TYPE_CHECKING:
    import altair
    import polars

__all__ = ["CLAIMS", "FIGURES", "PARTS", "pca_settings", "subspace_settings"]

_DIMPLED = "Shamir et al. 2021 (dimpled manifold); Li 2024 talk, Robust and Nonrobust"
_SUBSPACE: dict[Scale, dict[str, Any]] = {
    "smoke": {
        "d": 10,
        "k": 4,
        "ambient": 40,
        "n": 80,
        "width": 20,
        "epochs": 200,
        "points": 4,
        "seeds": 10,
        "rounds": 0,
    },
    "laptop": {
        "d": 20,
        "k": 10,
        "ambient": 200,
        "n": 400,
        "width": 50,
        "epochs": 1000,
        "points": 12,
        "seeds": 10,
        "rounds": 1,
    },
    "paper": {
        "d": 50,
        "k": 10,
        "ambient": 3072,
        "n": 1000,
        "width": 1000,
        "epochs": 2000,
        "points": 500,
        "seeds": 10,
        "rounds": 2,
    },
}
_PCA: dict[Scale, dict[str, Any]] = {
    "smoke": {
        "data": "digits",
        "k": 8,
        "width": 20,
        "epochs": 10,
        "points": 4,
        "seeds": 10,
        "tangent": 3,
        "rounds": 0,
    },
    "laptop": {
        "data": "digits",
        "k": 16,
        "width": 100,
        "epochs": 60,
        "points": 12,
        "seeds": 10,
        "tangent": 4,
        "rounds": 1,
    },
    "paper": {
        "data": "mnist",
        "k": 32,
        "width": 1000,
        "epochs": 50,
        "points": 1000,
        "seeds": 10,
        "tangent": 12,
        "rounds": 2,
    },
}


def subspace_settings(scale: Scale, variant: str) -> dict[str, Any] | None:
    """Full-batch gradient descent on clusters in a subspace, from a tiny start and from He's."""
    if variant != "paper":
        return None
    size = _SUBSPACE[scale]
    he = (2 / size["ambient"]) ** 0.5
    return {
        "data": {
            "name": "axis-clusters",
            "n": size["n"],
            "d": size["d"],
            "k": size["k"],
            "sigma": 0.5,
            "ambient": size["ambient"],
        },
        "model": {
            "name": "two-layer",
            "width": size["width"],
            "init": {"name": "gaussian", "std": he},
            "bias": "hidden",
        },
        "training": {
            "optimizer": "gd",
            "learning_rate": 0.1,
            "epochs": size["epochs"],
            "loss": "logistic",
            "frozen": ["output.weight"],
        },
        "probe": {
            "measures": [
                {"name": "off-manifold", "plane": "axes", "dimension": size["d"], "rounds": size["rounds"]},
                "accuracy",
            ],
            "every": "end",
            "split": "test",
            "limit": size["points"],
        },
        "grid": {"std": [1e-4, he], "seed": list(range(size["seeds"]))},
    }


def pca_settings(scale: Scale, variant: str) -> dict[str, Any] | None:
    """A two-layer network on all ten classes of digits (MNIST at paper scale), pixels in [0, 1]."""
    if variant != "paper":
        return None
    size = _PCA[scale]
    measure = {
        "name": "off-manifold",
        "plane": "pca",
        "dimension": size["k"],
        "neighbours": 3 * size["tangent"],
        "tangent": size["tangent"],
        "rounds": size["rounds"],
    }
    return {
        "data": {"name": size["data"]},
        "model": {"name": "mlp", "widths": [size["width"]]},
        "training": {
            "optimizer": "adam",
            "learning_rate": 0.003,
            "batch_size": 128,
            "epochs": size["epochs"],
        },
        "probe": {
            "measures": [measure, "accuracy"],
            "every": "end",
            "split": "test",
            "limit": size["points"],
        },
        "grid": {"data.name": [size["data"]], "seed": list(range(size["seeds"]))},
    }


def splits(frame: polars.DataFrame) -> polars.DataFrame:
    """After training: the readings of ``off-manifold`` as columns, one row per network, smallest start first."""
    index = [name for name in ("std", "data_name", "seed") if name in frame.columns]
    return after_training(frame, "off-manifold").pivot("key", index=index, values="value").sort(index)


def off_subspace(frame: polars.DataFrame, *, start: str) -> Finding:
    """Per seed the share of the squared length off the data's subspace, less that of a random direction."""
    table = _of_start(splits(frame), start)
    note = (
        f"effect: share of ‖δ‖² off the data's subspace ({mean(table['off']):.2g}), less that of a random direction "
        f"({mean(table['chance']):.2g}); within the subspace the boundary is {mean(table['stretch']):.3g} times as far"
    )
    return decide((table["off"] - table["chance"]).to_list(), above=0.0, note=note)


def beyond_chance(frame: polars.DataFrame, *, key: str) -> Finding:
    """Per seed the off-manifold share less that of a random direction."""
    table = splits(frame)
    suffix = "_local" if key == "off_local" else ""
    excess = (table[key] - table[f"chance{suffix}"]).to_list()
    what = "tangent planes of local PCA" if suffix else "plane of the first principal directions"
    note = (
        f"effect: share of ‖δ‖² off the {what} ({mean(table[key]):.2g}), less that of a random direction "
        f"({mean(table[f'chance{suffix}']):.2g}); within the principal plane the boundary is "
        f"{mean(table['stretch']):.3g} times as far; on {written(table['data_name'])}"
    )
    return decide(excess, above=0.0, note=note)


def beyond_data(frame: polars.DataFrame) -> Finding:
    """Per seed the off-plane share of the perturbations less that of the data's own variance."""
    table = splits(frame)
    note = (
        "effect: share of ‖δ‖² off the principal plane, less the share of the data's variance off it "
        f"({mean(table['data']):.2g}); on {written(table['data_name'])}"
    )
    return decide((table["off"] - table["data"]).to_list(), above=0.0, note=note)


def _of_start(table: polars.DataFrame, start: str) -> polars.DataFrame:
    import polars

    starts = table["std"].unique().sort()
    return table.filter(polars.col("std") == (starts[0] if start == "tiny" else starts[-1]))


def shares(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Off-manifold share of every network, beside that of a random direction."""
    import altair
    import polars

    from undertow.drawing.palette import KINDS

    index = [name for name in ("part", "std", "data_name", "seed") if name in frame.columns]
    table = after_training(frame, "off-manifold").pivot("key", index=index, values="value").sort(index)
    rows = []
    for row in table.iter_rows(named=True):
        pca = row["part"] == "manifold-pca"
        where = (
            f"{written([row['data_name']])}, principal plane"
            if pca
            else f"subspace, start σ = {row['std']:.2g}"
        )
        shares = {"share": row["off"], "chance": row["chance"], "data": row["data"]}
        rows.append({"where": where, "seed": row["seed"], **shares})
        if pca:
            local = f"{written([row['data_name']])}, local PCA"
            rows.append(
                {
                    "where": local,
                    "seed": row["seed"],
                    "share": row["off_local"],
                    "chance": row["chance_local"],
                }
            )
    order = polars.DataFrame(rows)["where"].unique(maintain_order=True).to_list()
    base = altair.Chart(altair.InlineData(values=rows)).encode(altair.Y("where:N", title=None, sort=order))
    length = altair.Scale(domain=[0, 1])
    points = base.mark_circle(size=60, opacity=0.7, color=KINDS[0]).encode(
        altair.X("share:Q", title="share of ‖δ‖² off the manifold", scale=length),
        tooltip=["where:N", "seed:Q", "share:Q", "chance:Q"],
    )
    ticks = [
        base.mark_tick(thickness=3, size=22, color=colour).encode(altair.X(f"{key}:Q", scale=length))
        for key, colour in (("chance", KINDS[1]), ("data", KINDS[2]))
    ]
    chart: altair.TopLevelMixin = altair.layer(*ticks, points).properties(
        width=380,
        height=34 * len(order),
        title=small_title(
            "Closest adversarial examples, a point for each seed; orange: a random "
            "direction, green: the data's own variance"
        ),
    )
    return chart


PARTS: dict[str, Part] = {"manifold-subspace": subspace_settings, "manifold-pca": pca_settings}
FIGURES = (
    Figure(
        "manifold",
        "Perturbations on and off the data manifold",
        shares,
        ("manifold-subspace", "manifold-pca"),
    ),
)
_IN_SUBSPACE, _ON_DIGITS = ("manifold-subspace",), ("manifold-pca",)
CLAIMS = (
    Claim(
        "F-r.he",
        "On data in a subspace the smallest perturbations leave it more than a random direction would (He's start).",
        _DIMPLED,
        lambda frame: off_subspace(frame, start="he"),
        _IN_SUBSPACE,
        "manifold",
    ),
    Claim(
        "F-r.tiny",
        "The same from a tiny start (σ = 1e-4).",
        _DIMPLED,
        lambda frame: off_subspace(frame, start="tiny"),
        _IN_SUBSPACE,
        "manifold",
    ),
    Claim(
        "F-r.pca-data",
        "On digit images the smallest perturbations leave the principal plane more than the data themselves do.",
        _DIMPLED,
        beyond_data,
        _ON_DIGITS,
        "manifold",
        check="the plane is chosen to hold the data, so that a random direction leaves it more than they do as well",
    ),
    Claim(
        "F-r.pca-chance",
        "They leave the principal plane more than a random direction would.",
        _DIMPLED,
        lambda frame: beyond_chance(frame, key="off"),
        _ON_DIGITS,
        "manifold",
    ),
    Claim(
        "F-r.local-chance",
        "They leave the tangent planes of local PCA more than a random direction would.",
        _DIMPLED,
        lambda frame: beyond_chance(frame, key="off_local"),
        _ON_DIGITS,
        "manifold",
    ),
)
