"""Figures 1c, 1d and 3: the co-correlation over training, and the claims about its rise (§5, §6).

The theorems speak of ϱ's growth for q > 0 in networks that are not narrow. Here the rise is ϱ after training less
ϱ before it; the claims are about q = 0.25, as Figures 1c and 1d are, except where they compare values of q.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from undertow.core.errors import InputError
from undertow.studies.co_correlation.evidence import by_value, verdict
from undertow.studies.co_correlation.grid import NARROW, NETWORK, chosen, outcomes, trajectories
from undertow.studies.co_correlation.setting import LARGEST_Q, PAPER, data_names
from undertow.studies.kit.claim import Claim, Finding
from undertow.studies.kit.study import Figure

if TYPE_CHECKING:
    import altair
    import polars

__all__ = ["CLAIMS", "FIGURES", "FLAT", "by_width", "fig_3_width", "shares_of_rise"]

FLAT = 0.05
"""A change of ϱ, which lies in [0, 1], that a reader of Figure 3 would call flat."""
RANGE = (0.2, 1.0)
"""The vertical axis of ϱ in all figures; random networks of the paper's largest width start at 0.24."""
_NAMES = {"linear": "linear networks", "relu": "ReLU networks"}


def rises(frame: polars.DataFrame, activation: str) -> Finding:
    """Per seed the smallest rise over widths beyond the narrow ones."""
    import polars

    table = chosen(outcomes(frame), activation=activation, q=LARGEST_Q)
    rise = table.rename({"rise": "value"})
    note = f"effect: smallest rise of ϱ over widths > {NARROW}, q = 0.25; by width {by_value(rise, 'width')}"
    wide = rise.filter(polars.col("width") > NARROW)
    return verdict(wide, over="min", above=0.0, note=f"{note}; {data_names(frame)}")


def flatter(frame: polars.DataFrame) -> Finding:
    """Per seed the mean over widths of the linear network's rise less the ReLU network's, same width and draw."""
    import polars

    table = outcomes(frame)
    on = ["width", "q", "seed"]
    linear = chosen(table, activation="linear", q=LARGEST_Q, wide=True)
    relu = chosen(table, activation="relu", q=LARGEST_Q, wide=True)
    both = linear.join(relu, on=on, suffix="_relu").with_columns(
        value=polars.col("rise") - polars.col("rise_relu")
    )
    note = f"effect: rise of linear less rise of ReLU networks, q = 0.25; by width {by_value(both, 'width')}"
    return verdict(both, above=0.0, note=f"{note}; {data_names(frame)}")


def narrow_do_not_rise(frame: polars.DataFrame) -> Finding:
    """Per seed the mean rise of the narrow networks, linear and ReLU."""
    import polars

    table = outcomes(frame).filter(
        (polars.col("width") <= NARROW) & ((polars.col("q") - LARGEST_Q).abs() < 1e-9)
    )
    rise = table.rename({"rise": "value"})
    parts = ", ".join(
        f"{name} {by_value(rise.filter(polars.col('activation') == name), 'width')}" for name in _NAMES
    )
    note = f"effect: mean rise of ϱ at widths ≤ {NARROW}, q = 0.25; by width {parts}; {data_names(frame)}"
    return verdict(rise, below=0.0, note=note)


def narrow_rise_less(frame: polars.DataFrame) -> Finding:
    """Per seed the mean rise of the wider networks less that of the narrow ones."""
    import polars

    table = outcomes(frame).filter((polars.col("q") - LARGEST_Q).abs() < 1e-9)
    narrow = polars.col("width") <= NARROW
    rise = polars.col("rise")
    seeds = table.group_by("seed").agg(value=rise.filter(~narrow).mean() - rise.filter(narrow).mean())
    note = f"effect: mean rise at widths > {NARROW} less that at widths ≤ {NARROW}, q = 0.25; {data_names(frame)}"
    return verdict(seeds.drop_nulls(), above=0.0, note=note)


def shares_of_rise(frame: polars.DataFrame) -> polars.DataFrame:
    """Of every network with q > 0 that was trained to the end and whose ϱ rose by more than ``FLAT``: the share of the
    rise in the first fifth of training (``early``) and in the last (``late``), interpolated between epochs."""
    import numpy as np
    import polars

    rows = []
    curves = trajectories(frame, "co_correlation").filter(polars.col("q") > 0)
    last: Any = frame["epoch"].max()
    for curve in curves.partition_by(NETWORK, maintain_order=True):
        epochs, values = curve["epoch"].to_numpy(), curve["value"].to_numpy()
        rise = values[-1] - values[0]
        if rise <= FLAT or len(values) < 6 or epochs[-1] < last:  # the last: it diverged
            continue
        fifth, rest = np.interp([0.2 * last, 0.8 * last], epochs, values)
        early, late = (fifth - values[0]) / rise, (values[-1] - rest) / rise
        rows.append({**curve.select(NETWORK).row(0, named=True), "early": float(early), "late": float(late)})
    if not rows:
        raise InputError(
            f"no network with q > 0 has a rise of ϱ above {FLAT}, or too few moments are recorded"
        )
    return polars.DataFrame(rows)


def early(frame: polars.DataFrame) -> Finding:
    """Per seed the mean share of the rise in the first fifth of training."""
    import polars

    shares = shares_of_rise(frame).with_columns(value="early")
    parts = ", ".join(
        f"{kind} {by_value(shares.filter(polars.col('activation') == kind), 'q')}" for kind in _NAMES
    )
    note = f"effect: share of the rise in the first fifth, {len(shares)} networks; by q: {parts}; by width"
    return verdict(shares, above=0.5, note=f"{note} {by_value(shares, 'width')}; {data_names(frame)}")


def saturated(frame: polars.DataFrame) -> Finding:
    """Per seed the mean share of the rise in the last fifth of training; an even pace would make it 0.2."""
    shares = shares_of_rise(frame).with_columns(value="late")
    note = f"effect: share of the rise in the last fifth (even pace: 0.2), {len(shares)} networks"
    return verdict(
        shares, below=0.1, note=f"{note}; by width {by_value(shares, 'width')}; {data_names(frame)}"
    )


def flat_below_zero(frame: polars.DataFrame) -> Finding:
    """Per seed the largest |Δϱ| over ReLU networks with q < 0."""
    import polars

    change = chosen(outcomes(frame), activation="relu").with_columns(value=polars.col("rise").abs())
    means = change.group_by("q").agg(polars.col("value").mean()).sort("q")
    moving = means.filter(polars.col("value") > FLAT)["q"]
    where = f"first above {FLAT} at q = {moving[0]:g}" if len(moving) else f"nowhere above {FLAT}"
    note = (
        f"effect: largest |Δϱ| over ReLU networks with q < 0; mean |Δϱ| by q {by_value(change, 'q')}, {where}"
    )
    negative = change.filter(polars.col("q") < 0)
    return verdict(negative, over="max", below=FLAT, note=f"{note}; {data_names(frame)}")


def flatter_below_zero(frame: polars.DataFrame) -> Finding:
    """Per seed the mean |Δϱ| for q > 0 less that for q < 0, ReLU networks."""
    import polars

    table = chosen(outcomes(frame), activation="relu", wide=True)
    change, q = polars.col("rise").abs(), polars.col("q")
    seeds = table.group_by("seed", "width").agg(
        value=change.filter(q > 0).mean() - change.filter(q < 0).mean()
    )
    note = f"effect: mean |Δϱ| for q > 0 less that for q < 0, ReLU networks of widths > {NARROW}"
    return verdict(seeds, above=0.0, note=f"{note}; by width {by_value(seeds, 'width')}; {data_names(frame)}")


def by_width(frame: polars.DataFrame, activation: str) -> altair.TopLevelMixin:
    """Figures 1c and 1d: ϱ over epochs, one line per width, q = 0.25."""
    from undertow.drawing.curves import curves_by_seed
    from undertow.studies.co_correlation.colours import of_widths

    curves = chosen(trajectories(frame, "co_correlation"), activation=activation, q=LARGEST_Q)
    return curves_by_seed(
        curves,
        x="epoch",
        y="co-correlation ϱ",
        colour="width",
        legend="width m",
        colours=of_widths(curves["width"]),
        domain=RANGE,
        title=f"{_NAMES[activation]}, q = 0.25, {data_names(frame)}",
    )


def fig_3_width(widths: list[int], panel: int) -> int:
    """The width of a panel of Figure 3: the paper's where the grid has all four, else spread over the grid's.

    >>> fig_3_width([16, 32, 512, 2048, 8192], 1), fig_3_width([16, 64, 256, 1024], 1)
    (512, 64)
    """
    printed = (32, 512, 2048, 8192)
    if set(printed) <= set(widths):
        return printed[panel]
    return sorted(widths)[round(panel * (len(widths) - 1) / 3)]


def by_q(frame: polars.DataFrame, panel: int) -> altair.TopLevelMixin:
    """A panel of Figure 3: ϱ over epochs, one line per q, at one width; linear networks beside ReLU ones."""
    import polars

    from undertow.drawing.curves import curves_by_seed
    from undertow.studies.co_correlation.colours import of_q

    curves = trajectories(frame, "co_correlation")
    width = fig_3_width(curves["width"].unique().to_list(), panel)
    shown = curves.filter(polars.col("width") == width).with_columns(polars.col("activation").replace(_NAMES))
    return curves_by_seed(
        shown,
        x="epoch",
        y="co-correlation ϱ",
        colour="q",
        facet="activation",
        colours=of_q(shown["q"]),
        domain=RANGE,
        title=f"width {width}, {data_names(frame)}",
    )


def _panel(panel: int) -> Callable[[polars.DataFrame], Any]:
    return lambda frame: by_q(frame, panel)


FIGURES = (
    Figure(
        "fig-1c",
        "Co-correlation over training by width, linear networks (q = 0.25)",
        lambda frame: by_width(frame, "linear"),
        parts=("grid",),
    ),
    Figure(
        "fig-1d",
        "Co-correlation over training by width, ReLU networks (q = 0.25)",
        lambda frame: by_width(frame, "relu"),
        parts=("grid",),
    ),
    *(
        Figure(
            f"fig-3{letter}",
            "Co-correlation over training by q, "
            + ("narrowest", "second", "third", "widest")[panel]
            + " of four widths",
            _panel(panel),
            parts=("grid",),
        )
        for panel, letter in enumerate("abcd")
    ),
)


def _claim(id: str, text: str, place: str, test: Callable[[polars.DataFrame], Finding], figure: str) -> Claim:
    return Claim(id, text, f"{PAPER}, {place}", test, parts=("grid",), figure=figure)


CLAIMS = (
    _claim(
        "C-e",
        "In linear networks that are not narrow, ϱ rises during training (q = 0.25).",
        "§5.1 and Fig 1c",
        lambda frame: rises(frame, "linear"),
        "fig-1c",
    ),
    _claim(
        "C-f.rise",
        "In ReLU networks that are not narrow, ϱ rises during training (q = 0.25).",
        "§5.2 and Fig 1d",
        lambda frame: rises(frame, "relu"),
        "fig-1d",
    ),
    _claim(
        "C-f.flatter", "The rise is smaller in ReLU networks than in linear ones.", "§6.1", flatter, "fig-1d"
    ),
    _claim(
        "C-g.exception",
        "Networks of widths 16 and 32 are the exception: their ϱ does not rise.",
        "§6.1",
        narrow_do_not_rise,
        "fig-1d",
    ),
    _claim(
        "C-g.less",
        "Networks of widths 16 and 32 rise less than wider ones.",
        "§6.1",
        narrow_rise_less,
        "fig-1d",
    ),
    _claim(
        "C-h.early",
        "ϱ develops early: more than half of its rise comes in the first fifth of training (q > 0).",
        "Property 1",
        early,
        "fig-1c",
    ),
    _claim(
        "C-h.saturates",
        "ϱ saturates: the last fifth of training brings less than half of what an even pace would.",
        "Property 1",
        saturated,
        "fig-1c",
    ),
    _claim(
        "C-k.flat",
        f"For q < 0 the curves stay flat: no |Δϱ| above {FLAT} (ReLU networks).",
        "§6.2 and Fig 3",
        flat_below_zero,
        "fig-3d",
    ),
    _claim(
        "C-k.contrast",
        "|Δϱ| is larger for q > 0 than for q < 0 (ReLU networks that are not narrow).",
        "§6.2 and Fig 3",
        flatter_below_zero,
        "fig-3d",
    ),
)
