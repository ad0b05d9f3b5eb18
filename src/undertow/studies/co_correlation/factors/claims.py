"""The claims about Theorem 4.5: the decomposition is exact, and all factors but ϱ are negligible."""

from __future__ import annotations

import polars

from undertow.studies.co_correlation.outcomes import LARGEST, NETWORK, chosen, trajectories
from undertow.studies.co_correlation.setting import PAPER
from undertow.studies.kit.claim import SHARE, Finding
from undertow.studies.kit.data_names import on_data
from undertow.studies.kit.per_seed import by_value, verdict
from undertow.studies.kit.statements import Claims

__all__ = ["CLAIMS"]

CLAIMS = Claims(PAPER, parts=("grid",), figure="fig-5a")


@CLAIMS.add(
    "C-c",
    "S(f) is exactly ϱ · √(1 + var/μ²) · ρ · S(head) · S(tail).",
    "Theorem 4.5 (Eq. 15)",
    check="an identity: the factors are defined so that their product is S(f), and their gap is rounding",
)
def exact(frame: polars.DataFrame) -> Finding:
    """Per seed the largest relative gap of the identity over the grid and all of training."""
    gaps = trajectories(frame, "identity_gap")
    note = f"effect: largest relative gap over {len(gaps)} measurements, linear and ReLU; {on_data(frame)}"
    return verdict(gaps, over="max", below=1e-6, note=note)


def shares(frame: polars.DataFrame) -> polars.DataFrame:
    """At every moment what ϱ and the other factors change S(f) by, in logarithms.

    Columns: network, epoch, ``own`` = |ln ϱ|, ``others`` = |ln √(1 + var/μ²)| + |ln ρ|, ``value``, the share of
    the others in both together.
    """
    on = [*NETWORK, "epoch"]
    table = trajectories(frame, "co_correlation").rename({"value": "co_correlation"})
    for key in ("relative_std", "linear_correlation"):
        table = table.join(trajectories(frame, key).rename({"value": key}), on=on)
    own = -polars.col("co_correlation").log()
    spread = (1 + polars.col("relative_std") ** 2).log() / 2
    others = spread + polars.col("linear_correlation").log().abs()
    rising = table.filter(polars.col("co_correlation") > 0)
    return rising.with_columns(own=own, others=others, value=others / (own + others))


@CLAIMS.add(
    "C-d",
    "All factors but ϱ are negligible: a twentieth of the whole or less, at all times (ReLU, q = 0.25).",
    "§4.1 and Fig 5",
    where=(LARGEST,),
)
@CLAIMS.add("C-d.all-q", "The same at every q of the grid.", "§4.1", figure="fig-5b", where=())
def negligible(frame: polars.DataFrame, where: tuple[polars.Expr, ...]) -> Finding:
    """Per seed the largest share of the other factors over training, ReLU networks."""
    table = chosen(shares(frame), *where, activation="relu")
    spread, below_one, least = table.select(
        polars.col("relative_std").max(),
        (1 - polars.col("linear_correlation")).max().alias("below_one"),
        (1 - polars.col("co_correlation")).min().alias("least"),
    ).row(0)
    worst = table.group_by("width", "q", "seed").agg(polars.col("value").max())
    note = (
        "effect: largest share of √(1+var/μ²) and ρ in ln S(f)/(S(head)·S(tail)), over training",
        f"std/μ up to {spread:.3f}, 1−ρ up to {below_one:.2g}, 1−ϱ at least {least:.2g}",
        f"by width {by_value(worst, 'width', form='{place:g}: {mean:+.3f}')}",
        on_data(frame),
    )
    return verdict(worst, over="max", below=0.05, within=SHARE, note=note)
