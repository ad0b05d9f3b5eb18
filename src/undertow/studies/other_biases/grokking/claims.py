"""B-h … B-j: generalising long after fitting, how long, what changes; B-o and B-p: what the radii do meanwhile."""

from __future__ import annotations

from functools import partial

import polars

from undertow.core.errors import InputError
from undertow.studies.kit.claim import Finding
from undertow.studies.kit.per_seed import by_value, mean, per_seed, slopes, verdict
from undertow.studies.kit.readings import after_training, compared, measured, present
from undertow.studies.kit.statements import Claims, PublishedNumbers

__all__ = ["CLAIMS", "FITTED", "GENERALISES", "HALF", "ON_IMAGES", "PUBLISHED", "jumps"]

_AXES = ["weight_decay", "gain", "learning_rate", "seed"]
step, value = polars.col("step"), polars.col("value")
FITTED, GENERALISES, ON_IMAGES, HALF, LONG_AFTER = 0.99, 0.9, 0.8, 0.5, 3.0
CLAIMS = Claims("Power et al. 2022; Liu et al. 2023", parts=("grokking",), figure="grokking")
about_delay = partial(CLAIMS.add, source="Liu et al. 2023; Lyu et al. 2024", figure="grokking-delay")
about_descent = CLAIMS.on(
    "grokking-descent",
    source="Lyu et al. 2024",
    hindsight="two starts were looked at when rate and decay were chosen",
)
about_transformer = CLAIMS.on(
    "grokking-transformer",
    source="Power et al. 2022; Nanda et al. 2023",
    hindsight="rate, decay and start were chosen on two to four starts",
)
through_jump = partial(CLAIMS.add, figure="grokking-through")
PUBLISHED = PublishedNumbers("Liu et al. 2023", parts=("grokking-published",))


def jumps(frame: polars.DataFrame, *, generalises: float = GENERALISES) -> polars.DataFrame:
    """When every network has ``fitted`` and ``generalises`` (null: never), the ``ratio``, and ``all`` of its steps."""
    seen, unseen = (measured(frame, "late-generalisation", key) for key in ("seen", "unseen"))
    reached = {"fitted": (seen, value >= FITTED), "generalises": (unseen, value >= generalises)}
    network = present(frame, _AXES)
    times = [
        curve.group_by(network).agg(step.filter(there).min().alias(name), step.max().alias(f"all {name}"))
        for name, (curve, there) in reached.items()
    ]
    both = times[0].join(times[1], on=network).rename({"all generalises": "all"})
    ratio = polars.col("generalises") / polars.col("fitted").clip(lower_bound=1)
    return both.with_columns(ratio=ratio).sort(network)


@CLAIMS.add("B-h", "A network that fits modular addition generalises long after.", "Fig 1")
@about_transformer("B-h.transformer", "The same of a transformer.")
@about_descent(
    "B-h.descent",
    "The same of two-layer ReLU networks under gradient descent with weight decay, from a large start.",
)
@CLAIMS.on("grokking-images")(
    "B-h.images",
    "The same on images, from eight times the usual start.",
    source="Liu et al. 2023",
    generalises=ON_IMAGES,
    hindsight="rate and decay were chosen on three starts, after it had failed with a decay that left no time "
    "between the two",
)
def long_after(frame: polars.DataFrame, generalises: float = GENERALISES) -> Finding:
    """Per seed steps until it generalises over steps until it has fitted; smallest start, largest decay."""
    table = _usual(jumps(frame, generalises=generalises))
    steps = table["generalises"].drop_nulls()
    told = f"{mean(steps):.0f} steps to generalise in the mean" if len(steps) else ""
    return verdict(
        table, "ratio", above=LONG_AFTER, note=("effect: steps to generalise over steps to fit", told)
    )


@CLAIMS.on("grokking-without-decay")(
    "B-h.without-decay",
    "Without weight decay accuracy on the other pairs goes on growing long after, with steps in units of the loss.",
    source="Lyu et al. 2024",
    hindsight="two starts were looked at when the rate was chosen",
)
def grows_without_decay(frame: polars.DataFrame) -> Finding:
    """Per seed accuracy on pairs not seen at the end less that at three times the steps to fit; null: not fitted."""
    when = jumps(frame).select(*present(frame, _AXES), "fitted")
    curve = measured(frame, "late-generalisation", "unseen").join(when, on=present(frame, _AXES))
    late = value.filter(step >= LONG_AFTER * polars.col("fitted"))
    table = curve.sort("step").group_by("seed").agg(value=late.last() - late.first(), last=value.last())
    note = (
        "effect: accuracy at the end less that at three times the steps to fit",
        f"{mean(table['last']):.2f} at last",
    )
    return verdict(table, above=0.05, note=note)


@about_delay("B-i.start", "The delay grows with the scale of the start (AdamW).", axis="gain")
@about_delay("B-i.decay", "And shrinks with weight decay (AdamW).", axis="weight_decay")
def delays(frame: polars.DataFrame, axis: str) -> Finding:
    """Per seed log₁₀ of the steps to generalise at the largest value of the axis over those at the smallest."""
    table = jumps(frame).with_columns(polars.col("generalises").fill_null(polars.col("all")))
    ends = [float(table[axis].sort()[place]) for place in (-1, 0)]
    if ends[0] == ends[1]:
        raise InputError(f"one {axis} alone: delays are compared between two")
    others = [name for name in present(table, _AXES) if name != axis]
    both = compared(table, axis, *ends, value="generalises", on=others)
    both = both.with_columns(value=polars.col("ratio").log10())
    means = by_value(table, axis, value="generalises", form="{place:.3g}: {mean:.0f}")
    note = (f"effect: log₁₀ of steps at {axis} {ends[0]:.3g} over {ends[1]:.3g}", f"steps by {axis}: {means}")
    above, below = (0.0, None) if axis == "gain" else (None, 0.0)
    return verdict(both, above=above, below=below, note=note)


@about_descent(
    "B-i.limit",
    "Under gradient descent on homogeneous networks the delay is log α/λ: its slope in log α, times λ, is 1.",
    hindsight="line, rate and decay were written after a look at two starts",
)
def delay_in_log_start(frame: polars.DataFrame) -> Finding:
    """Per seed the slope of ηλ·steps, until half of the other pairs are right, against log α."""
    table = jumps(frame, generalises=HALF).drop_nulls("generalises")
    time = polars.col("generalises") * polars.col("learning_rate") * polars.col("weight_decay")
    table = table.with_columns(time=time, log_start=polars.col("gain").log())
    means = by_value(table, "gain", value="time", form="{place:.3g}: {mean:.2f}")
    note = ("effect: slope of ηλ·steps to half of the other pairs against log α", f"ηλ·steps by α: {means}")
    return verdict(slopes(table, "log_start", "time"), between=(0.5, 2.0), note=note)


_MARGIN, _FREQUENCY = ("late-generalisation", "margin"), ("late-generalisation", "frequency")
_RADIUS, _SAME = ("robustness-profile", "relative:2"), "The same under gradient descent."
about_margin = partial(through_jump, source="Lyu et al. 2024; Morwani et al. 2024")
about_radii = partial(about_descent, source="ours", figure="grokking-descent-radii")


@about_margin("B-j.margin", "Through the jump the normalised margin grows.", reading=_MARGIN)
@about_descent("B-j.margin-descent", _SAME, reading=_MARGIN)
@about_margin("B-j.frequency", "The neurons' weights concentrate on one frequency.", reading=_FREQUENCY)
@about_descent("B-j.frequency-descent", _SAME, reading=_FREQUENCY)
@about_transformer("B-j.frequency-transformer", "The same of a transformer's embedding.", reading=_FREQUENCY)
@through_jump(
    "B-j.rank",
    "The stable rank of the first layer falls (two-sided: either answer is news).",
    source="ours",
    reading=("stable-rank", "hidden1.weight"),
    falls=True,
)
@through_jump(
    "B-j.collaboration",
    "The co-correlation ϱ of the layers falls (two-sided).",
    source="ours",
    reading=("robustness-profile", "co-correlation"),
    falls=True,
)
@through_jump(
    "B-j.energy",
    "The energy falls (two-sided).",
    source="ours",
    reading=("robustness-profile", "energy"),
    falls=True,
)
@through_jump(
    "B-o",
    "The radius, relative to half the distance to the nearest pair of another sum, grows at the jump.",
    source="ours",
    reading=_RADIUS,
)
@through_jump(
    "B-o.certified",
    "And so does the radius that is proved.",
    source="ours",
    reading=("robustness-profile", "certified:2"),
)
@about_radii("B-o.descent", _SAME, reading=_RADIUS)
def through_the_jump(frame: polars.DataFrame, reading: tuple[str, str], falls: bool = False) -> Finding:
    """Per seed the last reading less the first one after the network has fitted, at the usual start and decay."""
    curve = _since_fitting(frame, *reading)
    if curve.is_empty():
        raise InputError("no network has fitted: train longer")
    jumped, change = polars.col("generalises").first().is_not_null(), value.last() - value.first()
    table = curve.group_by("seed").agg(
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


@about_radii(
    "B-p.relu",
    "On modular addition ReLU networks swap the attacker too: the L∞ radius grows by more than the L2 radius.",
)
def swaps_the_attacker(frame: polars.DataFrame) -> Finding:
    """Per seed log₁₀ of L∞ over L2 radius at the end, relative to that when the network has fitted."""
    radii = [
        _since_fitting(frame, "robustness-profile", f"attacked:{norm}")
        .group_by("seed")
        .agg(change=(value.last() / value.first()).log10())
        for norm in ("inf", "2")
    ]
    both = radii[0].join(radii[1], on="seed", suffix=" 2")
    table = both.with_columns(value=polars.col("change") - polars.col("change 2"))
    means = f"{mean(both['change']):+.2f} in L∞ and {mean(both['change 2']):+.2f} in L2"
    note = ("effect: log₁₀ of the growth of the L∞ radius over that of the L2 radius", means)
    return verdict(table, above=0.0, note=note)


def _since_fitting(frame: polars.DataFrame, measure: str, key: str) -> polars.DataFrame:
    """A reading from the step on at which the network has fitted, at the smallest start and the largest decay."""
    network = present(frame, _AXES)
    when = _usual(jumps(frame)).select(*network, "fitted", "generalises")
    curve = measured(frame, measure, key).join(when, on=network).sort("step")
    return curve.filter(step >= polars.col("fitted"))


def _usual(table: polars.DataFrame) -> polars.DataFrame:
    """The networks from the smallest start with the largest weight decay."""
    for name, end in (("gain", polars.col("gain").min()), ("weight_decay", polars.col("weight_decay").max())):
        if name in table.columns:
            table = table.filter(polars.col(name) == end)
    return table


@PUBLISHED.add("steps to 90 % of the other pairs", "100 % at epoch 111 to 143", "the quick setting")
def steps_to_generalise(frame: polars.DataFrame) -> list[float | None]:
    """Per seed; null: not within the steps."""
    return per_seed(jumps(frame), "generalises")


@PUBLISHED.add("accuracy on the other pairs after 200 steps", "1.00", "the quick setting")
def accuracy_at_last(frame: polars.DataFrame) -> list[float | None]:
    """Per seed."""
    return per_seed(after_training(frame, "late-generalisation", "unseen"))
