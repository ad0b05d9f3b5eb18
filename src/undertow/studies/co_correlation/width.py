"""Figure 6: the total rise of ϱ by width and q, and the claims that it grows with both (Property 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow.studies.co_correlation.evidence import by_value, rank_correlation, verdict
from undertow.studies.co_correlation.grid import outcomes
from undertow.studies.co_correlation.setting import PAPER, data_names
from undertow.studies.kit.claim import CORRELATION, Claim, Finding
from undertow.studies.kit.study import Figure

if TYPE_CHECKING:
    import altair
    import polars

__all__ = ["CLAIMS", "FIGURES"]

_SOURCE = f"{PAPER}, Property 2, Fig 6 and Appendix D"


def along(frame: polars.DataFrame, axis: str, *, activation: str) -> Finding:
    """Per seed the mean Spearman correlation of Δϱ with one axis, the other held fixed."""
    import polars

    other = "q" if axis == "width" else "width"
    table = outcomes(frame).filter(polars.col("activation") == activation)
    ranks = rank_correlation(table, axis, "rise", by=["seed", other])
    note = (
        f"effect: Spearman of Δϱ with {axis} at the same {other}, {activation} networks; "
        f"by {other} {by_value(ranks, other)}; {data_names(frame)}"
    )
    return verdict(ranks, above=0.0, within=CORRELATION, note=note)


def total_rise(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Figure 6: Δϱ against the width, one line per q; ReLU networks above, linear ones below."""
    import altair
    import polars

    from undertow.drawing.curves import curves_by_seed
    from undertow.studies.co_correlation.colours import of_q

    table = outcomes(frame).rename({"rise": "value"})
    low, high = float(table["value"].min()), float(table["value"].max())  # type: ignore[arg-type]
    panels: list[Any] = []
    for activation, name in (("relu", "ReLU networks"), ("linear", "linear networks")):
        shown = table.filter(polars.col("activation") == activation)
        panels.append(
            curves_by_seed(
                shown,
                x="width",
                y="total Δϱ",
                colour="q",
                colours=of_q(shown["q"]),
                domain=(min(low, 0.0) - 0.02, high + 0.02),
                title=f"{name}, {data_names(frame)}",
                log_x=True,
                points=True,
            )
        )
    both: altair.TopLevelMixin = altair.vconcat(*panels)
    return both


FIGURES = (
    Figure("fig-6", "Total rise of the co-correlation by width, one line per q", total_rise, parts=("grid",)),
)


def _claim(id: str, text: str, axis: str, activation: str) -> Claim:
    return Claim(
        id,
        text,
        _SOURCE,
        lambda frame: along(frame, axis, activation=activation),
        parts=("grid",),
        figure="fig-6",
    )


CLAIMS = (
    _claim("C-i.linear", "At the same q, ϱ rises more in wider linear networks.", "width", "linear"),
    _claim("C-i.relu", "At the same q, ϱ rises more in wider ReLU networks.", "width", "relu"),
    _claim("C-j.linear", "At the same width, ϱ rises more the larger q is (linear networks).", "q", "linear"),
    _claim("C-j.relu", "At the same width, ϱ rises more the larger q is (ReLU networks).", "q", "relu"),
)
