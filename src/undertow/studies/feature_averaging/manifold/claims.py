"""F-r: the smallest perturbations leave the manifold more than a random direction would, or than the data do."""

from __future__ import annotations

import polars

from undertow.studies.kit.claim import Finding
from undertow.studies.kit.data_names import written
from undertow.studies.kit.per_seed import mean, verdict
from undertow.studies.kit.readings import after_training
from undertow.studies.kit.statements import Claims

__all__ = ["CLAIMS"]

_SUBSPACE, _PCA = ("manifold-subspace",), ("manifold-pca",)

CLAIMS = Claims(
    "Shamir et al. 2021 (dimpled manifold); Li 2024 talk, Robust and Nonrobust", figure="manifold"
)


@CLAIMS.add(
    "F-r.he",
    "On data in a subspace the smallest perturbations leave it more than a random direction would (He's start).",
    parts=_SUBSPACE,
    start="he",
)
@CLAIMS.add("F-r.tiny", "The same from a tiny start (σ = 1e-4).", parts=_SUBSPACE, start="tiny")
def off_subspace(frame: polars.DataFrame, start: str) -> Finding:
    """Per seed the share of the squared length off the data's subspace, less that of a random direction."""
    std = polars.col("std")
    table = _beyond(frame, "off", "chance").filter(std == (std.min() if start == "tiny" else std.max()))
    note = (
        f"effect: share of ‖δ‖² off the data's subspace ({mean(table['off']):.2g}), less that of a random direction "
        f"({mean(table['chance']):.2g}); within the subspace the boundary is {mean(table['stretch']):.3g} times as far"
    )
    return verdict(table, "more", above=0.0, note=note)


@CLAIMS.add(
    "F-r.pca-chance",
    "They leave the principal plane more than a random direction would.",
    parts=_PCA,
    suffix="",
    what="plane of the first principal directions",
)
@CLAIMS.add(
    "F-r.local-chance",
    "They leave the tangent planes of local PCA more than a random direction would.",
    parts=_PCA,
    suffix="_local",
    what="tangent planes of local PCA",
)
def beyond_chance(frame: polars.DataFrame, suffix: str, what: str) -> Finding:
    """Per seed the off-manifold share less that of a random direction."""
    off, chance = f"off{suffix}", f"chance{suffix}"
    table = _beyond(frame, off, chance)
    note = (
        f"effect: share of ‖δ‖² off the {what} ({mean(table[off]):.2g}), less that of a random direction "
        f"({mean(table[chance]):.2g}); within the principal plane the boundary is "
        f"{mean(table['stretch']):.3g} times as far; on {written(table['data_name'])}"
    )
    return verdict(table, "more", above=0.0, note=note)


@CLAIMS.add(
    "F-r.pca-data",
    "On digit images the smallest perturbations leave the principal plane more than the data themselves do.",
    parts=_PCA,
    check="the plane is chosen to hold the data, so that a random direction leaves it more than they do as well",
)
def beyond_data(frame: polars.DataFrame) -> Finding:
    """Per seed the off-plane share of the perturbations less that of the data's own variance."""
    table = _beyond(frame, "off", "data")
    note = (
        "effect: share of ‖δ‖² off the principal plane, less the share of the data's variance off it "
        f"({mean(table['data']):.2g}); on {written(table['data_name'])}"
    )
    return verdict(table, "more", above=0.0, note=note)


def _beyond(frame: polars.DataFrame, share: str, less: str) -> polars.DataFrame:
    """After training: the readings of ``off-manifold`` as columns, one row per network, and ``share`` − ``less``."""
    index = [name for name in ("std", "data_name", "seed") if name in frame.columns]
    table = after_training(frame, "off-manifold").pivot("key", index=index, values="value").sort(index)
    return table.with_columns(more=polars.col(share) - polars.col(less))
