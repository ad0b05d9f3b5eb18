"""Theorem 4.5 and Figure 5: S(f) = ϱ · √(1 + var/μ²) · ρ · S(head) · S(tail), and which factors matter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from undertow.studies.co_correlation.evidence import by_value, verdict
from undertow.studies.co_correlation.grid import NETWORK, chosen, trajectories
from undertow.studies.co_correlation.setting import LARGEST_Q, PAPER, data_names
from undertow.studies.kit.claim import SHARE, Claim, Finding
from undertow.studies.kit.study import Figure

if TYPE_CHECKING:
    import altair
    import polars

__all__ = ["CLAIMS", "FIGURES", "shares"]


def exact(frame: polars.DataFrame) -> Finding:
    """Per seed the largest relative gap of the identity over the grid and all of training."""
    gaps = trajectories(frame, "identity_gap")
    note = f"effect: largest relative gap over {len(gaps)} measurements, linear and ReLU; {data_names(frame)}"
    return verdict(gaps, over="max", below=1e-6, note=note)


def shares(frame: polars.DataFrame) -> polars.DataFrame:
    """At every moment what ϱ and the other factors change S(f) by, in logarithms.

    Columns: network, epoch, ``own`` = |ln ϱ|, ``others`` = |ln √(1 + var/μ²)| + |ln ρ|, ``value``, the share of
    the others in both together.
    """
    import polars

    on = [*NETWORK, "epoch"]
    table = trajectories(frame, "co_correlation").rename({"value": "co_correlation"})
    for key in ("relative_std", "linear_correlation"):
        table = table.join(trajectories(frame, key).rename({"value": key}), on=on)
    spread = (1 + polars.col("relative_std") ** 2).log() / 2
    return (
        table.filter(polars.col("co_correlation") > 0)
        .with_columns(
            own=-polars.col("co_correlation").log(),
            others=spread + polars.col("linear_correlation").log().abs(),
        )
        .with_columns(value=polars.col("others") / (polars.col("own") + polars.col("others")))
    )


def negligible(frame: polars.DataFrame, *, q: float | None) -> Finding:
    """Per seed the largest share of the other factors over training, ReLU networks."""
    import polars

    table = chosen(shares(frame), activation="relu", q=q)
    largest = table.select(
        polars.col("relative_std").max(),
        (1 - polars.col("linear_correlation")).max().alias("below_one"),
        (1 - polars.col("co_correlation")).min().alias("least"),
    ).row(0, named=True)
    worst = table.group_by("width", "q", "seed").agg(polars.col("value").max())
    note = (
        f"effect: largest share of √(1+var/μ²) and ρ in ln S(f)/(S(head)·S(tail)), over training; std/μ up to "
        f"{largest['relative_std']:.3f}, 1−ρ up to {largest['below_one']:.2g}, 1−ϱ at least {largest['least']:.2g}; "
        f"by width {by_value(worst, 'width', digits=3)}; {data_names(frame)}"
    )
    return verdict(worst, over="max", below=0.05, within=SHARE, note=note)


def factor(frame: polars.DataFrame, key: str, name: str) -> altair.TopLevelMixin:
    """Figure 5: one of the other factors over epochs, one line per width, q = 0.25."""
    from undertow.drawing.curves import curves_by_seed
    from undertow.studies.co_correlation.colours import of_widths

    curves = chosen(trajectories(frame, key), activation="relu", q=LARGEST_Q)
    return curves_by_seed(
        curves,
        x="epoch",
        y=name,
        colour="width",
        legend="width m",
        colours=of_widths(curves["width"]),
        title=f"ReLU networks, q = 0.25, {data_names(frame)}",
    )


FIGURES = (
    Figure(
        "fig-5a",
        "Relative deviation std/μ of ‖J_head‖·‖J_tail‖ over training by width (q = 0.25)",
        lambda frame: factor(frame, "relative_std", "std/μ"),
        parts=("grid",),
    ),
    Figure(
        "fig-5b",
        "Linear correlation ρ of ‖J_head‖ and ‖J_tail‖ over training by width (q = 0.25)",
        lambda frame: factor(frame, "linear_correlation", "linear correlation ρ"),
        parts=("grid",),
    ),
)
CLAIMS = (
    Claim(
        "C-c",
        "S(f) is exactly ϱ · √(1 + var/μ²) · ρ · S(head) · S(tail).",
        f"{PAPER}, Theorem 4.5 (Eq. 15)",
        exact,
        parts=("grid",),
        figure="fig-5a",
        check="an identity: the factors are defined so that their product is S(f), and their gap is rounding",
    ),
    Claim(
        "C-d",
        "All factors but ϱ are negligible: a twentieth of the whole or less, at all times (ReLU, q = 0.25).",
        f"{PAPER}, §4.1 and Fig 5",
        lambda frame: negligible(frame, q=LARGEST_Q),
        parts=("grid",),
        figure="fig-5a",
    ),
    Claim(
        "C-d.all-q",
        "The same at every q of the grid.",
        f"{PAPER}, §4.1",
        lambda frame: negligible(frame, q=None),
        parts=("grid",),
        figure="fig-5b",
    ),
)
