"""R-i to R-k: pictures."""

from __future__ import annotations

from typing import Any

import polars

from undertow.studies.kit.claim import POSITIVE, Finding
from undertow.studies.kit.per_seed import verdict
from undertow.studies.kit.statements import Claims
from undertow.studies.stable_rank.rank_tables import SOURCE, epoch, judged_order, stable_ranks

__all__ = ["CLAIMS"]

CLAIMS = Claims(SOURCE)
_MNIST: dict[str, Any] = {"parts": ("mnist",), "figure": "fig4"}
_FASHION: dict[str, Any] = {"parts": ("fashion-mnist",), "figure": "fig4-fashion"}
_CIFAR: dict[str, Any] = {"parts": ("cifar10",), "figure": "fig5"}
_ORDER = "The order of the stable ranks follows that of the starts"


@CLAIMS.add("R-i", f"{_ORDER} (MNIST, ReLU).", "Fig 4", **_MNIST, activation="relu")
@CLAIMS.add("R-i.leaky", f"{_ORDER} (MNIST, leaky ReLU).", "Fig 4", **_MNIST, activation="leaky-relu")
@CLAIMS.add(
    "R-i.fashion", f"{_ORDER} (Fashion-MNIST, ReLU).", "Fig 4, on other data", **_FASHION, activation="relu"
)
@CLAIMS.add(
    "R-i.fashion-leaky",
    f"{_ORDER} (Fashion-MNIST, leaky ReLU).",
    "Fig 4, on other data",
    **_FASHION,
    activation="leaky-relu",
)
@CLAIMS.add("R-j", f"{_ORDER} (CIFAR-10, ReLU).", "Fig 5", **_CIFAR, activation="relu")
@CLAIMS.add("R-j.leaky", f"{_ORDER} (CIFAR-10, leaky ReLU).", "Fig 5", **_CIFAR, activation="leaky-relu")
def in_order(frame: polars.DataFrame, activation: str) -> Finding:
    """Per seed the Spearman correlation of final stable rank and init scale, against 0."""
    return judged_order(frame, activation)


@CLAIMS.add(
    "R-k",
    "From the smallest start the stable rank rises sharply after a twentieth of a long training: it doubles at least.",
    "Fig 6",
    parts=("cifar10-long",),
    figure="fig6",
)
def sharp_rise(frame: polars.DataFrame) -> Finding:
    """Per seed the largest stable rank after a twentieth of the epochs over that at that time, against 2."""
    curve = stable_ranks(frame, by=("seed",)).filter(epoch >= 0.05 * epoch.max())
    rise = curve.group_by("seed").agg(value=polars.col("value").max() / polars.col("value").first())
    note = "effect: largest later stable rank over that after a twentieth of the epochs (100 of 2,000)"
    return verdict(rise, above=2.0, within=POSITIVE, note=note)
