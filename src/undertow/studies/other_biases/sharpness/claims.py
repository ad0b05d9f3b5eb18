"""B-a … B-d: sharpness rises to the edge of stability and stays there."""

from __future__ import annotations

from functools import partial

import polars

from undertow.studies.kit.claim import CORRELATION, Finding
from undertow.studies.kit.per_seed import by_value, per_seed, rank_correlation, verdict
from undertow.studies.kit.readings import after_training, measured, present
from undertow.studies.kit.statements import Claims, PublishedNumbers
from undertow.studies.other_biases.sharpness.parts import BETA
from undertow.theory.edge_of_stability import Momentum, stability_threshold

__all__ = ["CLAIMS", "PUBLISHED", "at_the_edge", "over_loss", "over_training"]

_SOURCE = "Cohen et al. 2021"
_KINDS = ["activation", "degree"]
_STARTS, _AXES = ["seed", *_KINDS], ["seed", *_KINDS, "learning_rate"]
rate, ratio, reached = polars.col("learning_rate"), polars.col("ratio"), polars.col("reached")
_REDEFINED = (
    "the largest value was compared at first, which cannot fail; changed after the records of smoke scale"
)
_ONE_START = "one start was looked at when the rates were chosen"
_LONGER = "6,000 steps were too few to leave the start; steps and rates were then chosen on one other start"
_LOWERED = "β was 0.9 at first, and thresholds were higher: networks diverged, or did not meet them"
_FIRST_READING = (
    "the start was counted where it is above 2/η; left out after the records of laptop and paper scale"
)
CLAIMS = Claims(_SOURCE, parts=("edge",), figure="edge")
about_linear, about_images = CLAIMS.on("edge-linear"), CLAIMS.on("edge-images")
about_degrees = CLAIMS.on("edge-chebyshev", hindsight=_LONGER)
about_entropy = CLAIMS.on("edge-cross-entropy", hindsight=_REDEFINED)
_DEGREES = "The same with one hidden layer, on polynomials of degree 3 to 5."
PUBLISHED = PublishedNumbers(_SOURCE, parts=("edge-images",))


def over_training(
    frame: polars.DataFrame, *, beta: float = 0.0, momentum: Momentum = "heavy-ball"
) -> polars.DataFrame:
    """Sharpness of every network over training, its ``ratio`` to the threshold, and the step where that first is 1."""
    rates = frame["learning_rate"].unique().to_list()
    lines = {each: stability_threshold(each, beta=beta, momentum=momentum) for each in rates}
    table = measured(frame, "sharpness", "").with_columns(
        threshold=rate.replace_strict(lines, return_dtype=polars.Float64)
    )
    network = present(table, _AXES)
    table = table.select(*network, "step", "value", "threshold").sort(*network, "step")
    table = table.with_columns(ratio=polars.col("value") / polars.col("threshold"))
    first = polars.col("step").filter(ratio >= 1).min().over(network)
    return table.with_columns(reached=first)


def at_the_edge(frame: polars.DataFrame) -> polars.DataFrame:
    """The rates whose threshold the flow's sharpness exceeds, of every seed, within the time that both have."""
    table = over_training(frame)
    flow = table.filter(rate == rate.min())
    own = present(table, _STARTS)
    highest = flow.group_by(own).agg(flow=polars.col("value").max())
    found = table.filter(rate > rate.min()).join(highest, on=own)
    return found.filter(polars.col("flow") > polars.col("threshold"))


@CLAIMS.add(
    "B-a.rises", "Sharpness rises during training (progressive sharpening).", "§3.1", hindsight=_REDEFINED
)
@about_degrees("B-a.rises-chebyshev", _DEGREES)
@about_linear("B-a.rises-linear", "The same of deep linear networks.", "Appendix", hindsight=_REDEFINED)
@about_images("B-a.rises-images", "The same of networks on images.", "§3.1, Fig 5")
def rises(frame: polars.DataFrame) -> Finding:
    """Per seed the last sharpness of the flow over that of the start."""
    flow = over_training(frame).filter(rate == rate.min())
    value = polars.col("value")
    grown = flow.group_by(present(flow, _STARTS)).agg(value=value.last() / value.first())
    return verdict(grown, above=1.0, note="effect: last sharpness over that of the start, smallest rate")


@CLAIMS.add(
    "B-a.reaches",
    "It rises until it reaches 2/η, where gradient flow's sharpness exceeds 2/η.",
    "§3.1, Fig 1",
)
@about_degrees("B-a.reaches-chebyshev", _DEGREES)
@about_linear("B-a.reaches-linear", "The same of deep linear networks.", "Appendix")
@about_images("B-a.reaches-images", "The same of networks on images.", "§3.1, Fig 5")
def reaches(frame: polars.DataFrame) -> Finding:
    """Per seed the largest sharpness over 2/η, the smallest of the rates whose threshold the flow exceeds."""
    table = at_the_edge(frame)
    highest = table.group_by(present(table, _AXES)).agg(value=ratio.max())
    places = by_value(highest.with_columns(edge=2 / rate), "edge", form="{place:.0f}: {mean:.3f}")
    note = ("effect: largest sharpness over 2/η, smallest over rates", f"by 2/η: {places}")
    return verdict(highest, over="min", above=1.0, note=note)


def _hovering(table: polars.DataFrame) -> polars.DataFrame:
    """Mean ratio after twice the step where the threshold was first met; null where it never was, or too late.

    The start is no such step: a network that begins above the threshold, and diverges, has no reading that counts.
    """
    step = polars.col("step")
    late = (step >= 2 * reached) & (step > 0)
    network = present(table, _AXES)
    return table.group_by(network).agg(value=ratio.filter(late).mean()).sort(network)


@CLAIMS.add("B-b.hovers", "And then it hovers there.", "§3.2, Fig 1", hindsight=_ONE_START)
@about_degrees("B-b.hovers-chebyshev", _DEGREES)
@about_linear("B-b.hovers-linear", "The same of deep linear networks.", "Appendix", hindsight=_ONE_START)
@about_images("B-b.hovers-images", "The same of networks on images.", "§3.2, Fig 5", hindsight=_FIRST_READING)
def hovers(frame: polars.DataFrame) -> Finding:
    """Per seed the mean of sharpness over 2/η after the edge was met, over the rates."""
    table = _hovering(at_the_edge(frame)).with_columns(edge=2 / rate)
    places = [by_value(table, axis, form="{place}: {mean:.3f}") for axis in present(table, _KINDS)]
    places.insert(0, f"by 2/η: {by_value(table, 'edge', form='{place:.0f}: {mean:.3f}')}")
    note = ("effect: mean sharpness over 2/η, after it was met", *places)
    return verdict(table, between=(0.9, 1.2), note=note)


about_momentum = partial(CLAIMS.add, figure="edge-momentum", hindsight=_LOWERED)


@about_momentum(
    "B-c.heavy-ball",
    "With v ← βv + g it hovers at (2+2β)/η.",
    "§2, Appendix B",
    parts=("edge-heavy-ball",),
    momentum="heavy-ball",
)
@about_momentum(
    "B-c.nesterov",
    "With Nesterov's momentum it hovers at (2+2β)/((1+2β)η).",
    "Appendix B",
    parts=("edge-nesterov",),
    momentum="nesterov",
)
def hovers_with_momentum(frame: polars.DataFrame, momentum: Momentum) -> Finding:
    """Per seed the mean of sharpness over the method's own threshold."""
    table = _hovering(over_training(frame, beta=BETA, momentum=momentum))
    return verdict(
        table, between=(0.9, 1.2), note="effect: mean sharpness over the threshold, after it was met"
    )


def _losses(frame: polars.DataFrame) -> polars.DataFrame:
    """Decimal logarithm of the loss over training, from the step at which the edge was met on."""
    network = present(frame, _AXES)
    edge = at_the_edge(frame).group_by(network).agg(reached.first())
    losses = measured(frame, "loss", "log10").select(*network, "step", "value")
    return losses.join(edge, on=network).filter(polars.col("step") >= reached).sort(*network, "step")


@CLAIMS.add("B-b.falls", "At the edge the loss goes on falling.", "§3.2", figure="edge-loss")
@about_degrees("B-b.falls-chebyshev", _DEGREES)
def loss_falls(frame: polars.DataFrame) -> Finding:
    """Per seed log₁₀ of the last loss over the one where the edge was met, the largest of the rates."""
    value = polars.col("value")
    change = _losses(frame).group_by(present(frame, _AXES)).agg(value=value.last() - value.first())
    return verdict(change, over="max", below=0.0, note="effect: log₁₀ loss at the end less that at the edge")


@CLAIMS.add(
    "B-b.bumpy",
    "But not monotonically.",
    "§3.2",
    figure="edge-loss",
    hindsight="the line was 0, which nothing is below; 0.05 was chosen after the records of smoke scale",
)
@about_degrees("B-b.bumpy-chebyshev", _DEGREES)
def loss_rises_at_times(frame: polars.DataFrame) -> Finding:
    """Per seed the share of readings above the one before, the smallest of the rates; 0 is monotone."""
    up = (polars.col("value").diff() > 0).mean()
    shares = _losses(frame).group_by(present(frame, _AXES), maintain_order=True).agg(value=up)
    return verdict(shares, over="min", above=0.05, note="effect: share of readings above the one before")


def over_loss(frame: polars.DataFrame, table: polars.DataFrame) -> polars.DataFrame:
    """Sharpness over the loss of the same moment."""
    by = ["seed", "learning_rate", "step"]
    loss = measured(frame, "loss", "mean").select(*by, loss="value")
    return table.join(loss, on=by).with_columns(value=polars.col("value") / polars.col("loss"))


@about_entropy(
    "B-d.late", "Under cross-entropy sharpness comes down late in training.", "§3, Appendix C", relative=False
)
@about_entropy(
    "B-d.relative",
    "Relative to the loss it comes down as well (H ∝ L forces part of it).",
    source="ours",
    relative=True,
)
def comes_down(frame: polars.DataFrame, relative: bool) -> Finding:
    """Per seed log₁₀ of the last sharpness (over the loss) over that after half of the steps, of the smallest rate."""
    table = over_training(frame).filter(rate == rate.min())
    if relative:
        table = over_loss(frame, table)
    value = polars.col("value")
    fall = (
        table.sort("step").group_by("seed").agg(value=(value.last() / value.get(polars.len() // 2)).log10())
    )
    what = "sharpness/loss" if relative else "sharpness"
    return verdict(
        fall,
        below=0.0,
        note=f"effect: log₁₀ of the last {what} over that after half of the steps, smallest rate",
    )


@CLAIMS.on("edge-batches")(
    "B-b.batches", "With smaller batches sharpness stays lower at the same rate.", "§6"
)
def lower_with_batches(frame: polars.DataFrame) -> Finding:
    """Per seed Spearman's correlation of the size of a batch and the sharpness after training."""
    table = after_training(frame, "sharpness", "")
    ranks = rank_correlation(table, "batch_size", "value", by=["seed"])
    means = by_value(table, "batch_size", form="{place:.0f}: {mean:.3g}")
    note = ("effect: Spearman of batch size and sharpness", f"by batch size: {means}")
    return verdict(ranks, above=0.0, within=CORRELATION, note=note)


PUBLISHED.add(
    "sharpness at the edge over 2/η, η = 0.01", "about 1.025 to 1.05 on 5,000 of CIFAR-10", "Fig 1"
)(lambda frame: per_seed(_hovering(at_the_edge(frame).filter(rate == 0.01))))
