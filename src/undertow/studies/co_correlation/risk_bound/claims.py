"""The claims about Theorem 4.1: to first order, and as printed at every r up to the paper's 0.5."""

from __future__ import annotations

import statistics

import polars

from undertow.studies.co_correlation.outcomes import NETWORK
from undertow.studies.co_correlation.setting import PAPER
from undertow.studies.kit.claim import Finding
from undertow.studies.kit.data_names import on_data
from undertow.studies.kit.per_seed import verdict
from undertow.studies.kit.readings import measured, side_by_side, split_key
from undertow.studies.kit.statements import Claims

__all__ = ["CLAIMS", "both_sides", "reaches"]

CLAIMS = Claims(f"{PAPER}, Theorem 4.1 (Eq. 8)", parts=("risk-bound",), figure="theorem-4-1-gap")
_LEFT, _R, _GAP = polars.col("left"), polars.col("r"), polars.col("gap")


def both_sides(frame: polars.DataFrame, *, trained: bool = True) -> polars.DataFrame:
    """Theorem 4.1 in numbers, after training or before: one row per network and radius.

    Columns: activation, width, q, seed, r, risk, energy, adversarial, bound, gap, ``left`` = gap/(r·S); ``upper``, a
    proved upper bound of the adversarial risk, in records that have one.
    """
    moment = polars.col("step") > 0 if trained else polars.col("step") == 0
    rows = measured(frame.filter(moment), "risk-bound", what="the adversarial risk and its bound")
    whole = side_by_side(rows, "risk-bound", by=NETWORK, keys=["risk", "energy"])
    sides = split_key(rows.filter(polars.col("key").str.contains("@")), ["side", "r"], at="@")
    return (
        sides.with_columns(_R.cast(polars.Float64))
        .pivot("side", index=[*NETWORK, "r"], values="value")
        .join(whole, on=NETWORK)
        .with_columns(left=_GAP / (_R * polars.col("energy")))
        .sort(*NETWORK, "r")
    )


@CLAIMS.add(
    "C-b.first-order",
    "R_rob(r) ≤ R + r·S(L∘f) to first order, as r → 0 (linear and ReLU networks).",
    check="as r → 0 the share is 1 − E‖∇L‖/S(L∘f), which is no less than 0 in any network (Cauchy–Schwarz)",
)
def first_order(frame: polars.DataFrame) -> Finding:
    """Per seed the smallest share left over as r → 0, over the grid: the line through the two smallest r."""
    sides = both_sides(frame)
    near, far = sides["r"].unique().sort()[:2]
    at_near, at_far = (_LEFT.filter(r == _R).first() for r in (near, far))
    limits = sides.group_by(NETWORK).agg(value=(at_near * far - at_far * near) / (far - near))
    note = f"effect: smallest gap/(r·S) over the grid as r → 0; {on_data(frame)}"
    return verdict(limits, over="min", above=0.0, note=note)


@CLAIMS.add(
    "C-b.linear",
    "R_rob(r) ≤ R + r·S(L∘f) as printed, at every r up to the paper's 0.5 (linear networks).",
    activation="linear",
)
@CLAIMS.add(
    "C-b.relu",
    "R_rob(r) ≤ R + r·S(L∘f) as printed, at every r up to the paper's 0.5 (ReLU networks).",
    activation="relu",
)
def as_printed(frame: polars.DataFrame, activation: str) -> Finding:
    """Per seed the smallest share of the allowance left over, over the grid and every r up to the budget."""
    sides = both_sides(frame).filter(polars.col("activation") == activation)
    # The sign and the size of the gap over r: the smallest share of the grid, a mean over seeds.
    worst = sides.group_by("r", "seed").agg(_LEFT.min()).group_by("r").agg(_LEFT.mean()).sort("r").rows()
    reach = reaches(sides)["reach"].to_list()
    note = (
        "effect: smallest gap/(r·S) over the grid and r",
        f"by r: {', '.join(f'{100 * left:+.2g} % at {r:g}' for r, left in worst)}",
        f"as printed it holds up to r = {min(reach):g} … {max(reach):g} "
        f"(median {statistics.median(reach):g} of {len(reach)} networks)",
        _proved(sides),
        on_data(frame),
        "R_rob by attack, a lower bound",
    )
    return verdict(sides, "left", over="min", above=0.0, note=note)


def reaches(sides: polars.DataFrame) -> polars.DataFrame:
    """For every network the largest r before the first negative gap (column ``reach``), 0 when there is none.

    ``measured`` is the largest r at all: a reach equal to it is only a lower bound.
    """
    first_failure = _R.filter(_GAP < 0).min().fill_null(float("inf"))
    return sides.group_by(NETWORK).agg(
        reach=_R.filter(first_failure > _R).max().fill_null(0.0), measured=_R.max()
    )


def _proved(sides: polars.DataFrame) -> str:
    """Up to which r the certificate's upper bound of R_rob proves the inequality, over the networks."""
    if "upper" not in sides.columns:
        return ""
    reach = reaches(sides.with_columns(gap=polars.col("bound") - polars.col("upper")))["reach"].to_list()
    return f"R_rob bounded from above it is proved up to r = {min(reach):g} … {max(reach):g}"
