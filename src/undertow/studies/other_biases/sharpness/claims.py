"""B-a … B-d: sharpness rises to the edge of stability and stays there; B-n: whether lower sharpness is robust."""

from __future__ import annotations

import polars

from undertow.studies.kit.claim import CORRELATION, Finding
from undertow.studies.kit.per_seed import by_value, per_seed, rank_correlation, verdict
from undertow.studies.kit.readings import after_training, measured
from undertow.studies.kit.statements import Claims, PublishedNumbers
from undertow.theory.edge_of_stability import Momentum, stability_threshold

__all__ = ["CLAIMS", "PUBLISHED", "at_the_edge", "over_training"]

_SOURCE = "Cohen et al. 2021"
_NETWORK, rate = ["seed", "learning_rate"], polars.col("learning_rate")
ratio, reached = polars.col("ratio"), polars.col("reached")
_REDEFINED = (
    "the largest value was compared at first, which cannot fail; changed after the records of smoke scale"
)
_ONE_START = "one start was looked at when the rates were chosen"
CLAIMS = Claims(_SOURCE, parts=("edge",), figure="edge")
PUBLISHED = PublishedNumbers(_SOURCE, parts=("edge",))


def over_training(
    frame: polars.DataFrame, *, beta: float = 0.0, momentum: Momentum = "heavy-ball"
) -> polars.DataFrame:
    """Sharpness of every network over training, its ``ratio`` to the threshold, and the step where that first is 1."""
    rates = frame["learning_rate"].unique().to_list()
    lines = {each: stability_threshold(each, beta=beta, momentum=momentum) for each in rates}
    table = measured(frame, "sharpness", "").with_columns(
        threshold=rate.replace_strict(lines, return_dtype=polars.Float64)
    )
    table = table.select(*_NETWORK, "step", "value", "threshold").sort(*_NETWORK, "step")
    table = table.with_columns(ratio=polars.col("value") / polars.col("threshold"))
    first = polars.col("step").filter(ratio >= 1).min().over(_NETWORK)
    return table.with_columns(reached=first, time=polars.col("step") * rate)


def at_the_edge(frame: polars.DataFrame) -> polars.DataFrame:
    """The rates whose threshold the flow's sharpness exceeds, of every seed, within the time that both have."""
    table = over_training(frame)
    flow = table.filter(rate == rate.min())
    highest = flow.group_by("seed").agg(flow=polars.col("value").max())
    found = table.filter(rate > rate.min()).join(highest, on="seed")
    return found.filter(polars.col("flow") > polars.col("threshold"))


@CLAIMS.add(
    "B-a.rises", "Sharpness rises during training (progressive sharpening).", "§3.1", hindsight=_REDEFINED
)
@CLAIMS.add(
    "B-a.rises-linear",
    "The same of deep linear networks.",
    "Appendix",
    parts=("edge-linear",),
    figure="edge-linear",
    hindsight=_REDEFINED,
)
def rises(frame: polars.DataFrame) -> Finding:
    """Per seed the last sharpness of the flow over that of the start."""
    flow = over_training(frame).filter(rate == rate.min())
    value = polars.col("value")
    grown = flow.group_by("seed").agg(value=value.last() / value.first())
    return verdict(grown, above=1.0, note="effect: last sharpness over that of the start, smallest rate")


@CLAIMS.add(
    "B-a.reaches",
    "It rises until it reaches 2/η, where gradient flow's sharpness exceeds 2/η.",
    "§3.1, Fig 1",
)
@CLAIMS.add(
    "B-a.reaches-linear",
    "The same of deep linear networks.",
    "Appendix",
    parts=("edge-linear",),
    figure="edge-linear",
)
def reaches(frame: polars.DataFrame) -> Finding:
    """Per seed the largest sharpness over 2/η, the smallest of the rates whose threshold the flow exceeds."""
    highest = at_the_edge(frame).group_by(_NETWORK).agg(value=ratio.max())
    places = by_value(highest.with_columns(edge=2 / rate), "edge", form="{place:.0f}: {mean:.3f}")
    note = ("effect: largest sharpness over 2/η, smallest over rates", f"by 2/η: {places}")
    return verdict(highest, over="min", above=1.0, note=note)


def _hovering(table: polars.DataFrame) -> polars.DataFrame:
    """Mean ratio after twice the step where the threshold was first met; null where it never was, or too late."""
    late = polars.col("step") >= 2 * reached
    return table.group_by(_NETWORK).agg(value=ratio.filter(late).mean()).sort(_NETWORK)


@CLAIMS.add("B-b.hovers", "And then it hovers there.", "§3.2, Fig 1", hindsight=_ONE_START)
@CLAIMS.add(
    "B-b.hovers-linear",
    "The same of deep linear networks.",
    "Appendix",
    parts=("edge-linear",),
    figure="edge-linear",
    hindsight=_ONE_START,
)
def hovers(frame: polars.DataFrame) -> Finding:
    """Per seed the mean of sharpness over 2/η after the edge was met, over the rates."""
    table = _hovering(at_the_edge(frame))
    return verdict(table, between=(0.9, 1.2), note="effect: mean sharpness over 2/η, after it was met")


@CLAIMS.add(
    "B-c.heavy-ball",
    "With v ← βv + g it hovers at (2+2β)/η.",
    "§2, Appendix B",
    parts=("edge-heavy-ball",),
    figure="edge-momentum",
    momentum="heavy-ball",
)
@CLAIMS.add(
    "B-c.nesterov",
    "With Nesterov's momentum it hovers at (2+2β)/((1+2β)η).",
    "Appendix B",
    parts=("edge-nesterov",),
    figure="edge-momentum",
    momentum="nesterov",
)
def hovers_with_momentum(frame: polars.DataFrame, momentum: Momentum) -> Finding:
    """Per seed the mean of sharpness over the method's own threshold (β = 0.9)."""
    table = _hovering(over_training(frame, beta=0.9, momentum=momentum))
    return verdict(
        table, between=(0.9, 1.2), note="effect: mean sharpness over the threshold, after it was met"
    )


def _losses(frame: polars.DataFrame) -> polars.DataFrame:
    """Decimal logarithm of the loss over training, from the step at which the edge was met on."""
    edge = at_the_edge(frame).group_by(_NETWORK).agg(reached.first())
    losses = measured(frame, "loss", "log10").select(*_NETWORK, "step", "value")
    return losses.join(edge, on=_NETWORK).filter(polars.col("step") >= reached).sort(*_NETWORK, "step")


@CLAIMS.add("B-b.falls", "At the edge the loss goes on falling.", "§3.2", figure="edge-loss")
def loss_falls(frame: polars.DataFrame) -> Finding:
    """Per seed log₁₀ of the last loss over the one where the edge was met, the largest of the rates."""
    value = polars.col("value")
    change = _losses(frame).group_by(_NETWORK).agg(value=value.last() - value.first())
    return verdict(change, over="max", below=0.0, note="effect: log₁₀ loss at the end less that at the edge")


@CLAIMS.add(
    "B-b.bumpy",
    "But not monotonically.",
    "§3.2",
    figure="edge-loss",
    hindsight="the line was 0, which nothing is below; 0.05 was chosen after the records of smoke scale",
)
def loss_rises_at_times(frame: polars.DataFrame) -> Finding:
    """Per seed the share of readings above the one before, the smallest of the rates; 0 is monotone."""
    up = (polars.col("value").diff() > 0).mean()
    shares = _losses(frame).group_by(_NETWORK, maintain_order=True).agg(value=up)
    return verdict(shares, over="min", above=0.05, note="effect: share of readings above the one before")


@CLAIMS.add(
    "B-d.late",
    "Under cross-entropy sharpness comes down late in training.",
    "§3, Appendix C",
    parts=("edge-cross-entropy",),
    figure="edge-cross-entropy",
    hindsight=_REDEFINED,
    relative=False,
)
@CLAIMS.add(
    "B-d.relative",
    "Relative to the loss it comes down as well (H ∝ L forces part of it).",
    source="ours",
    parts=("edge-cross-entropy",),
    figure="edge-cross-entropy",
    hindsight=_REDEFINED,
    relative=True,
)
def comes_down(frame: polars.DataFrame, relative: bool) -> Finding:
    """Per seed log₁₀ of the last sharpness (over the loss) over that after half of the steps, of the smallest rate."""
    table = over_training(frame).filter(rate == rate.min())
    if relative:
        loss = measured(frame, "loss", "mean").select(*_NETWORK, "step", loss="value")
        table = table.join(loss, on=[*_NETWORK, "step"]).with_columns(
            value=polars.col("value") / polars.col("loss")
        )
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


@CLAIMS.add(
    "B-n.sharpness",
    "At equal loss, from one start, a larger η has lower sharpness.",
    source="ours",
    parts=("edge-radius",),
    figure="edge-radius",
    key="sharpness",
)
@CLAIMS.add(
    "B-n",
    "And goes with a larger radius.",
    source="ours",
    parts=("edge-radius",),
    figure="edge-radius",
    key="radius",
)
def follows_the_rate(frame: polars.DataFrame, key: str) -> Finding:
    """Per seed Spearman's correlation of η and what is found after training to one loss; the flow is one arm."""
    table = after_training(
        frame, *(("sharpness", "") if key == "sharpness" else ("attacked-radius", "radius"))
    )
    ranks = rank_correlation(table, "learning_rate", "value", by=["seed"])
    means = by_value(table.with_columns(edge=2 / rate), "edge", form="{place:.0f}: {mean:.3g}")
    note = (f"effect: Spearman of η and {key} at equal loss", f"{key} by 2/η: {means}")
    below, above = (0.0, None) if key == "sharpness" else (None, 0.0)
    return verdict(ranks, below=below, above=above, within=CORRELATION, note=note)


PUBLISHED.add("sharpness at the edge over 2/η", "about 1.025 to 1.05 at η = 0.01", "Fig 1")(
    lambda frame: per_seed(_hovering(at_the_edge(frame)))
)
