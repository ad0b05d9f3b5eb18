"""The claims about the rise of the co-correlation: where it rises, when, and more for which width and q.

The theorems speak of ϱ's growth for q > 0 in networks that are not narrow. Here the rise is ϱ after training less
ϱ before it; the claims are about q = 0.25, as Figures 1c and 1d are, except where they compare values of q.
"""

from __future__ import annotations

from typing import Any

import polars

from undertow.core.errors import InputError
from undertow.studies.co_correlation.outcomes import (
    LARGEST,
    NAMES,
    NARROW,
    NETWORK,
    WIDE,
    chosen,
    outcomes,
    trajectories,
)
from undertow.studies.co_correlation.setting import PAPER
from undertow.studies.kit.claim import CORRELATION, Finding
from undertow.studies.kit.data_names import on_data
from undertow.studies.kit.per_seed import by_value, rank_correlation, verdict
from undertow.studies.kit.readings import compared, interpolated
from undertow.studies.kit.statements import Claims

__all__ = ["CLAIMS", "FLAT", "shares_of_rise"]

FLAT = 0.05
"""A change of ϱ, which lies in [0, 1], that a reader of Figure 3 would call flat."""
CLAIMS = Claims(PAPER, parts=("grid",), figure="fig-1d")
BY_SIZE = Claims(f"{PAPER}, Property 2, Fig 6 and Appendix D", parts=("grid",), figure="fig-6")
_LARGER = "At the same width, ϱ rises more the larger q is"
_RISE, _Q = polars.col("rise"), polars.col("q")


@CLAIMS.add(
    "C-e",
    "In linear networks that are not narrow, ϱ rises during training (q = 0.25).",
    "§5.1 and Fig 1c",
    figure="fig-1c",
    activation="linear",
)
@CLAIMS.add(
    "C-f.rise",
    "In ReLU networks that are not narrow, ϱ rises during training (q = 0.25).",
    "§5.2 and Fig 1d",
    activation="relu",
)
def rises(frame: polars.DataFrame, activation: str) -> Finding:
    """Per seed the smallest rise over widths beyond the narrow ones."""
    table = chosen(outcomes(frame), LARGEST, activation=activation)
    by_width = by_value(table, "width", value="rise")
    note = (
        f"effect: smallest rise of ϱ over widths > {NARROW}, q = 0.25; by width {by_width}; {on_data(frame)}"
    )
    return verdict(table.filter(WIDE), "rise", over="min", above=0.0, note=note)


@CLAIMS.add("C-f.flatter", "The rise is smaller in ReLU networks than in linear ones.", "§6.1")
def flatter(frame: polars.DataFrame) -> Finding:
    """Per seed the mean over widths of the linear network's rise less the ReLU network's, same width and draw."""
    table = outcomes(frame).filter(LARGEST, WIDE)
    both = compared(table, "activation", "linear", "relu", value="rise", on=["width", "q", "seed"])
    by_width = by_value(both, "width", value="difference")
    note = (
        f"effect: rise of linear less rise of ReLU networks, q = 0.25; by width {by_width}; {on_data(frame)}"
    )
    return verdict(both, "difference", above=0.0, note=note)


@CLAIMS.add("C-g.exception", "Networks of widths 16 and 32 are the exception: their ϱ does not rise.", "§6.1")
def narrow_do_not_rise(frame: polars.DataFrame) -> Finding:
    """Per seed the mean rise of the narrow networks, linear and ReLU."""
    table = outcomes(frame).filter(~WIDE, LARGEST)
    parts = _by_kind(table, "width", "rise")
    note = f"effect: mean rise of ϱ at widths ≤ {NARROW}, q = 0.25; by width {parts}; {on_data(frame)}"
    return verdict(table, "rise", below=0.0, note=note)


@CLAIMS.add("C-g.less", "Networks of widths 16 and 32 rise less than wider ones.", "§6.1")
def narrow_rise_less(frame: polars.DataFrame) -> Finding:
    """Per seed the mean rise of the wider networks less that of the narrow ones."""
    more = _RISE.filter(WIDE).mean() - _RISE.filter(~WIDE).mean()
    seeds = outcomes(frame).filter(LARGEST).group_by("seed").agg(value=more).drop_nulls()
    note = (
        f"effect: mean rise at widths > {NARROW} less that at widths ≤ {NARROW}, q = 0.25; {on_data(frame)}"
    )
    return verdict(seeds, above=0.0, note=note)


def shares_of_rise(frame: polars.DataFrame) -> polars.DataFrame:
    """Of every network with q > 0 that was trained to the end and whose ϱ rose by more than ``FLAT``: the share of the
    rise in the first fifth of training (``early``) and in the last (``late``), interpolated between epochs."""
    curves = trajectories(frame, "co_correlation").filter(_Q > 0)
    last: Any = frame["epoch"].max()
    value, here = polars.col("value"), polars.col("epoch")
    ends = curves.group_by(NETWORK).agg(
        start=value.first(), end=value.last(), moments=polars.len(), until=here.last()
    )
    # A network that did not get to the last epoch diverged.
    rose = (polars.col("end") - polars.col("start") > FLAT) & (polars.col("moments") >= 6)
    ends = ends.filter(rose & (polars.col("until") == last))
    if ends.is_empty():
        raise InputError(
            f"no network with q > 0 has a rise of ϱ above {FLAT}, or too few moments are recorded"
        )
    fifths = interpolated(curves.join(ends, on=NETWORK), [0.2 * last, 0.8 * last], by=NETWORK)
    between = fifths.group_by(NETWORK).agg(fifth=value.first(), rest=value.last())
    start, end = polars.col("start"), polars.col("end")
    early, late = (polars.col("fifth") - start) / (end - start), (end - polars.col("rest")) / (end - start)
    return ends.join(between, on=NETWORK).select(*NETWORK, early=early, late=late).sort(NETWORK)


@CLAIMS.add(
    "C-h.early",
    "ϱ develops early: more than half of its rise comes in the first fifth of training (q > 0).",
    "Property 1",
    figure="fig-1c",
)
def early(frame: polars.DataFrame) -> Finding:
    """Per seed the mean share of the rise in the first fifth of training."""
    shares = shares_of_rise(frame)
    note = (
        f"effect: share of the rise in the first fifth, {len(shares)} networks",
        f"by q: {_by_kind(shares, 'q', 'early')}",
        f"by width {by_value(shares, 'width', value='early')}",
        on_data(frame),
    )
    return verdict(shares, "early", above=0.5, note=note)


@CLAIMS.add(
    "C-h.saturates",
    "ϱ saturates: the last fifth of training brings less than half of what an even pace would.",
    "Property 1",
    figure="fig-1c",
)
def saturated(frame: polars.DataFrame) -> Finding:
    """Per seed the mean share of the rise in the last fifth of training; an even pace would make it 0.2."""
    shares = shares_of_rise(frame)
    note = (
        f"effect: share of the rise in the last fifth (even pace: 0.2), {len(shares)} networks",
        f"by width {by_value(shares, 'width', value='late')}",
        on_data(frame),
    )
    return verdict(shares, "late", below=0.1, note=note)


@CLAIMS.add(
    "C-k.flat",
    f"For q < 0 the curves stay flat: no |Δϱ| above {FLAT} (ReLU networks).",
    "§6.2 and Fig 3",
    figure="fig-3d",
)
def flat_below_zero(frame: polars.DataFrame) -> Finding:
    """Per seed the largest |Δϱ| over ReLU networks with q < 0."""
    change = chosen(outcomes(frame), activation="relu").with_columns(value=_RISE.abs())
    means = change.group_by("q").agg(polars.col("value").mean()).sort("q")
    moving = means.filter(polars.col("value") > FLAT)["q"]
    where = f"first above {FLAT} at q = {moving[0]:g}" if len(moving) else f"nowhere above {FLAT}"
    note = (
        "effect: largest |Δϱ| over ReLU networks with q < 0",
        f"mean |Δϱ| by q {by_value(change, 'q')}, {where}",
        on_data(frame),
    )
    return verdict(change.filter(_Q < 0), over="max", below=FLAT, note=note)


@CLAIMS.add(
    "C-k.contrast",
    "|Δϱ| is larger for q > 0 than for q < 0 (ReLU networks that are not narrow).",
    "§6.2 and Fig 3",
    figure="fig-3d",
)
def flatter_below_zero(frame: polars.DataFrame) -> Finding:
    """Per seed the mean |Δϱ| for q > 0 less that for q < 0, ReLU networks."""
    more = _RISE.abs().filter(_Q > 0).mean() - _RISE.abs().filter(_Q < 0).mean()
    seeds = chosen(outcomes(frame), WIDE, activation="relu").group_by("seed", "width").agg(value=more)
    note = (
        f"effect: mean |Δϱ| for q > 0 less that for q < 0, ReLU networks of widths > {NARROW}",
        f"by width {by_value(seeds, 'width')}",
        on_data(frame),
    )
    return verdict(seeds, above=0.0, note=note)


def _by_kind(table: polars.DataFrame, axis: str, value: str) -> str:
    """Means by an axis, of linear networks and of ReLU ones."""
    kinds = {kind: table.filter(polars.col("activation") == kind) for kind in NAMES}
    return ", ".join(f"{kind} {by_value(own, axis, value=value)}" for kind, own in kinds.items())


@BY_SIZE.add(
    "C-i.linear", "At the same q, ϱ rises more in wider linear networks.", axis="width", activation="linear"
)
@BY_SIZE.add(
    "C-i.relu", "At the same q, ϱ rises more in wider ReLU networks.", axis="width", activation="relu"
)
@BY_SIZE.add("C-j.linear", f"{_LARGER} (linear networks).", axis="q", activation="linear")
@BY_SIZE.add("C-j.relu", f"{_LARGER} (ReLU networks).", axis="q", activation="relu")
def along(frame: polars.DataFrame, axis: str, activation: str) -> Finding:
    """Per seed the mean Spearman correlation of Δϱ with one axis, the other held fixed."""
    other = "q" if axis == "width" else "width"
    table = outcomes(frame).filter(polars.col("activation") == activation)
    ranks = rank_correlation(table, axis, "rise", by=["seed", other])
    note = (
        f"effect: Spearman of Δϱ with {axis} at the same {other}, {activation} networks",
        f"by {other} {by_value(ranks, other)}",
        on_data(frame),
    )
    return verdict(ranks, above=0.0, within=CORRELATION, note=note)


@CLAIMS.add(
    "C-y.below", "Wide networks resist: at q ≤ 0 ϱ rises less in wider ReLU networks.", "§7", positive=False
)
@CLAIMS.add("C-y.above", "The same at q > 0, against §5 (C-i.relu).", "§7", positive=True)
def wide_resist(frame: polars.DataFrame, positive: bool) -> Finding:
    """Per seed the mean over q, on one side of 0, of Spearman's correlation of Δϱ with width."""
    side = (_Q > 0) if positive else (_Q <= 0)
    table = chosen(outcomes(frame), side, activation="relu")
    ranks = rank_correlation(table, "width", "rise", by=["seed", "q"])
    note = (
        f"effect: Spearman of Δϱ with width at the same q, ReLU networks, q {'>' if positive else '≤'} 0",
        f"by q {by_value(ranks, 'q')}",
        f"mean Δϱ by width {by_value(table, 'width', value='rise')}",
        on_data(frame),
    )
    return verdict(ranks, below=0.0, within=CORRELATION, note=note)


CLAIMS.extend(BY_SIZE)
