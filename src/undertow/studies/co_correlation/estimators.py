"""The paper's own estimators beside this library's: Algorithm 1 (plain means) and Algorithm 2 (power iteration).

Equation 9 defines ϱ by roots of mean squares; Algorithm 1 prints plain means. Algorithm 2 iterates to a relative
change of 1e-6, the authors' code stops after 30 iterations or at the first change below 1e-4, a fall included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow.core.errors import InputError
from undertow.drawing.titles import small_title
from undertow.studies.co_correlation.evidence import verdict
from undertow.studies.co_correlation.grid import SEAM
from undertow.studies.co_correlation.setting import LARGEST_Q, PAPER, data_names, shared
from undertow.studies.kit.claim import Claim, Finding
from undertow.studies.kit.study import Figure, Scale

if TYPE_CHECKING:
    import altair
    import polars

__all__ = ["CLAIMS", "FIGURES", "deviations", "estimators"]

_NAMES = {
    "equation-9:power": "Eq. 9, Algorithm 2",
    "equation-9:power-authors": "Eq. 9, authors' 30 iterations",
    "algorithm-1:auto": "Algorithm 1, exact norms",
    "algorithm-1:power": "Algorithms 1 and 2",
}
_SIZES: dict[Scale, dict[str, Any]] = {
    "smoke": {"widths": (64,), "seeds": 10, "points": 6},
    "laptop": {"widths": (64, 256), "seeds": 10, "points": 10},
    "paper": {"widths": (64, 512, 2048), "seeds": 10, "points": 1000},
}


def estimators(scale: Scale, variant: str) -> dict[str, Any]:
    """A few ReLU networks with q = 0.25, measured by every estimator along training."""
    size = _SIZES[scale]
    sections = shared(scale, variant, activation="relu")
    printed = {"name": "printed-collaboration", "seam": SEAM}
    return {
        **sections,
        "probe": {"measures": [printed], "every": "epoch", "split": "test", "limit": size["points"]},
        "grid": {
            "data.name": [sections["data"]["name"]],
            "width": list(size["widths"]),
            "q": [LARGEST_Q],
            "seed": list(range(size["seeds"])),
        },
    }


def deviations(frame: polars.DataFrame) -> polars.DataFrame:
    """ϱ by each printed estimator relative to Eq. 9 with exact norms: width, seed, epoch, estimator, value."""
    import polars

    rows = frame.filter(polars.col("measure") == "printed-collaboration")
    if rows.is_empty():
        raise InputError("no record of the printed estimators")
    on = ["width", "seed", "epoch"]
    exact = rows.filter(polars.col("key") == "equation-9:auto").select(
        *on, polars.col("value").alias("exact")
    )
    return (
        rows.filter(polars.col("key").is_in(list(_NAMES)))
        .join(exact, on=on)
        .select(
            *on,
            polars.col("key").replace_strict(_NAMES).alias("estimator"),
            (polars.col("value") / polars.col("exact") - 1).alias("value"),
        )
        .sort("estimator", *on)
    )


def agrees(frame: polars.DataFrame, key: str) -> Finding:
    """Per seed the largest relative deviation from Eq. 9 with exact norms, over widths and training."""
    import polars

    table = deviations(frame).filter(polars.col("estimator") == _NAMES[key])
    size = table.with_columns(polars.col("value").abs())
    first = float(size.filter(polars.col("epoch") == 0)["value"].mean())  # type: ignore[arg-type]
    last = float(size.filter(polars.col("epoch") == polars.col("epoch").max())["value"].mean())  # type: ignore[arg-type]
    note = (
        f"effect: largest relative deviation over training; {first:.2%} before training, {last:.2%} after it on "
        f"average; ReLU networks, q = 0.25, {data_names(frame)}"
    )
    return verdict(size, over="max", below=0.01, note=note)


def over_training(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """The deviation of each printed estimator over training."""
    import altair
    import polars

    from undertow.drawing.palette import KINDS

    table = (
        deviations(frame)
        .group_by("width", "estimator", "epoch")
        .agg(
            mean=polars.col("value").mean(),
            low=polars.col("value").min(),
            high=polars.col("value").max(),
        )
        .with_columns(network=polars.format("width {}", "width"))
        .sort("width", "estimator", "epoch")
    )
    names = list(_NAMES.values())
    panels = list(dict.fromkeys(table["network"]))
    colour = altair.Color(
        "estimator:N",
        sort=names,
        title=None,
        scale=altair.Scale(domain=names, range=list(KINDS[:4])),
        legend=altair.Legend(symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=3, labelLimit=240),
    )
    base = altair.Chart().encode(
        altair.X("epoch:Q", scale=altair.Scale(nice=False)),
        colour,
        tooltip=[
            "network:N",
            "estimator:N",
            "epoch:Q",
            *(altair.Tooltip(f"{name}:Q", format="+.3%") for name in ("mean", "low", "high")),
        ],
    )
    band = base.mark_area(opacity=0.12).encode(altair.Y("low:Q"), altair.Y2("high:Q"))
    line = base.mark_line(strokeWidth=1.5, point=altair.OverlayMarkDef(size=14)).encode(
        altair.Y("mean:Q", title="deviation from ϱ of Eq. 9", axis=altair.Axis(format="+.1%"))
    )
    text = (
        f"Co-correlation by the paper's estimators, relative to exact norms in Eq. 9; ReLU, {data_names(frame)}; "
        f"mean of {frame['seed'].n_unique()} seeds; band: smallest to largest"
    )
    chart: Any = (
        altair.layer(band, line, data=altair.InlineData(values=table.to_dicts()))
        .properties(width=300, height=220)
        .facet(column=altair.Column("network:N", title=None, sort=panels))
        .properties(title=small_title(text))
    )
    drawn: altair.TopLevelMixin = chart
    return drawn


FIGURES = (
    Figure(
        "estimators",
        "The paper's estimators of ϱ beside exact norms in Eq. 9",
        over_training,
        parts=("estimators",),
    ),
)


def _claim(id: str, text: str, place: str, key: str) -> Claim:
    return Claim(
        id,
        text,
        f"{PAPER}, {place}",
        lambda frame: agrees(frame, key),
        parts=("estimators",),
        figure="estimators",
    )


CLAIMS = (
    _claim(
        "C-u.algorithm-1",
        "Algorithm 1's plain means estimate the ϱ of Equation 9 to 1 %.",
        "Appendix E, Algorithm 1",
        "algorithm-1:auto",
    ),
    _claim(
        "C-u.algorithm-2",
        "Algorithm 2's power iteration estimates ϱ to 1 %.",
        "Appendix E, Algorithm 2",
        "equation-9:power",
    ),
    _claim(
        "C-u.authors",
        "The authors' 30 iterations estimate ϱ to 1 %.",
        "Appendix E, and the authors' code",
        "equation-9:power-authors",
    ),
)
