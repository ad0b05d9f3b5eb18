"""B-h … B-j: generalising long after fitting, how long, and what changes meanwhile; B-o: whether the radius does."""

from __future__ import annotations

import polars

from undertow.core.errors import InputError
from undertow.studies.kit.claim import Finding
from undertow.studies.kit.per_seed import by_value, mean, verdict
from undertow.studies.kit.readings import compared, measured
from undertow.studies.kit.statements import Claims

__all__ = ["CLAIMS", "jumps"]

_NETWORK, step, value = ["weight_decay", "gain", "seed"], polars.col("step"), polars.col("value")
FITTED, GENERALISES, LONG_AFTER = 0.99, 0.9, 3.0
CLAIMS = Claims("Power et al. 2022; Liu et al. 2023", parts=("grokking",), figure="grokking")


def jumps(frame: polars.DataFrame) -> polars.DataFrame:
    """When every network has ``fitted`` and ``generalises`` (null: never), the ``ratio``, and ``all`` of its steps."""
    times = {}
    for key, line in (("seen", FITTED), ("unseen", GENERALISES)):
        curve = measured(frame, "late-generalisation", key)
        first = step.filter(value >= line).min().alias(key)
        times[key] = curve.group_by(_NETWORK).agg(first, step.max().alias("all"))
    both = times["seen"].join(times["unseen"].drop("all"), on=_NETWORK)
    both = both.rename({"seen": "fitted", "unseen": "generalises"})
    ratio = polars.col("generalises") / polars.col("fitted").clip(lower_bound=1)
    return both.with_columns(ratio=ratio).sort(_NETWORK)


@CLAIMS.add("B-h", "A network that fits modular addition generalises long after.", "Fig 1")
def long_after(frame: polars.DataFrame) -> Finding:
    """Per seed steps until it generalises over steps until it has fitted, at the usual start and the largest decay."""
    table = _usual(jumps(frame))
    means = by_value(table, "weight_decay", value="generalises", form="{mean:.0f}")
    note = ("effect: steps to generalise over steps to fit", f"{means} steps to generalise in the mean")
    return verdict(table, "ratio", above=LONG_AFTER, note=note)


@CLAIMS.add(
    "B-i.start",
    "The delay grows with the scale of the start (AdamW).",
    source="Liu et al. 2023; Lyu et al. 2024",
    figure="grokking-delay",
    axis="gain",
)
@CLAIMS.add(
    "B-i.decay",
    "And shrinks with weight decay (AdamW).",
    source="Liu et al. 2023; Lyu et al. 2024",
    figure="grokking-delay",
    axis="weight_decay",
)
def delays(frame: polars.DataFrame, axis: str) -> Finding:
    """Per seed log₁₀ of the steps to generalise at the largest value of the axis over those at the smallest."""
    table = jumps(frame).with_columns(polars.col("generalises").fill_null(polars.col("all")))
    values = table[axis].sort().to_list()
    ends = values[-1], values[0]
    others = [name for name in _NETWORK if name != axis]
    both = compared(table, axis, *ends, value="generalises", on=others)
    both = both.with_columns(value=polars.col("ratio").log10())
    means = by_value(table, axis, value="generalises", form="{place:.3g}: {mean:.0f}")
    note = (f"effect: log₁₀ of steps at {axis} {ends[0]:.3g} over {ends[1]:.3g}", f"steps by {axis}: {means}")
    above, below = (0.0, None) if axis == "gain" else (None, 0.0)
    return verdict(both, above=above, below=below, note=note)


@CLAIMS.add(
    "B-j.margin",
    "Through the jump the normalised margin grows.",
    source="Lyu et al. 2024; Morwani et al. 2024",
    figure="grokking-through",
    reading=("late-generalisation", "margin"),
)
@CLAIMS.add(
    "B-j.frequency",
    "The neurons' weights concentrate on one frequency.",
    source="Morwani et al. 2024",
    figure="grokking-through",
    reading=("late-generalisation", "frequency"),
)
@CLAIMS.add(
    "B-j.rank",
    "The stable rank of the first layer falls (two-sided: either answer is news).",
    source="ours",
    figure="grokking-through",
    reading=("stable-rank", "hidden1.weight"),
    falls=True,
)
@CLAIMS.add(
    "B-o",
    "The radius, relative to half the distance to the nearest pair of another sum, grows at the jump.",
    source="ours",
    figure="grokking-through",
    reading=("attacked-radius", "relative"),
)
def through_the_jump(frame: polars.DataFrame, reading: tuple[str, str], falls: bool = False) -> Finding:
    """Per seed the last reading less the first one after the network has fitted, at the usual start and decay."""
    when = _usual(jumps(frame)).select(*_NETWORK, "fitted", "generalises")
    curve = measured(frame, *reading).join(when, on=_NETWORK).sort("step")
    curve = curve.filter(step >= polars.col("fitted"))
    if curve.is_empty():
        raise InputError("no network has fitted: train longer")
    jumped, change = polars.col("generalises").first().is_not_null(), value.last() - value.first()
    table = curve.group_by(_NETWORK).agg(
        before=value.first(),
        after=value.last(),
        value=polars.when(jumped).then(change).otherwise(float("nan")),
    )
    note = (
        f"effect: {reading[1]} at the end less that when it has fitted",
        f"{mean(table['before']):.3g} and then {mean(table['after']):.3g} in the mean",
    )
    above, below = (None, 0.0) if falls else (0.0, None)
    return verdict(table, above=above, below=below, note=note)


def _usual(table: polars.DataFrame) -> polars.DataFrame:
    """The networks from the smallest start with the largest weight decay."""
    gain, decay = polars.col("gain"), polars.col("weight_decay")
    return table.filter((gain == gain.min()) & (decay == decay.max()))
