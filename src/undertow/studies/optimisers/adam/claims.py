"""O-e: Adam follows the signs until gradients are as small as ε; O-f: what it reaches with single samples."""

from __future__ import annotations

import math

import polars

from undertow.core.errors import InputError
from undertow.studies.kit.claim import CORRELATION, Finding, Verdict
from undertow.studies.kit.per_seed import by_value, mean, verdict
from undertow.studies.kit.readings import compared, side_by_side
from undertow.studies.kit.statements import Claims
from undertow.studies.optimisers.adam.parts import MEMORIES
from undertow.studies.optimisers.margin_tables import end_and_half, progress

__all__ = ["CLAIMS", "by_memory", "crossings", "ways"]

NOT_REACHED, REACHED = 0.95, 0.95
_EPSILON = "Wang et al. 2021; Zhang, Zou & Cao 2024"
_LONGER = "with half as many steps it was left open, its gap still shrinking; no line was moved"

CLAIMS = Claims("Baek et al. 2025", figure="single")


def ways(frame: polars.DataFrame) -> polars.DataFrame:
    """epsilon, seed, step, the cosines ``sign`` and ``gradient``, and ``below``, log₁₀ of the steepest slope over ε."""
    table = side_by_side(frame, "step-geometry", by=["epsilon", "seed", "step"])
    if not {"sign", "gradient", "log10-steepest"} <= set(table.columns):
        raise InputError("no record of the way that Adam goes")
    return table.with_columns(below=polars.col("log10-steepest") - polars.col("epsilon").log10()).drop_nulls()


def crossings(frame: polars.DataFrame) -> polars.DataFrame:
    """For every ε and problem: where the way first is nearer to the gradient than to its signs, for good from there on.

    ``below`` is the log₁₀ of max |∂L/∂w|/ε there, 0 as predicted; null where it has not happened.
    """
    table = ways(frame).sort("epsilon", "seed", "step")
    signs = polars.col("sign") > polars.col("gradient")
    last = polars.col("step").filter(signs).max().fill_null(-1)
    after = polars.col("below").filter(polars.col("step") > last).first()
    return table.group_by("epsilon", "seed", maintain_order=True).agg(below=after, from_step=last)


@CLAIMS.add(
    "O-e.crossing",
    "Adam goes along the signs until its gradients are as small as ε, and along the gradient from there on.",
    source=_EPSILON,
    parts=("epsilon-adam",),
    figure="epsilon",
)
def crosses_at_epsilon(frame: polars.DataFrame) -> Finding:
    """Per problem the mean over ε of log₁₀(max |∂L/∂w|/ε) where it turns, within a decade of 0."""
    table = crossings(frame)
    missing = int(table["below"].is_null().sum())
    if missing:
        raise InputError(f"{missing} of {len(table)} networks have not turned yet: train longer")
    means = by_value(table, "epsilon", value="below", form="{mean:+.2f} at ε = {place:g}")
    note = f"effect: log₁₀ of max |∂L/∂w|/ε at the turn, predicted 0; {means}"
    return verdict(table, "below", between=(-1.0, 1.0), note=note)


@CLAIMS.add(
    "O-e.signs",
    "Long before, it goes along the signs.",
    source=_EPSILON,
    parts=("epsilon-adam",),
    figure="epsilon",
    column="sign",
    low=1.0,
    high=math.inf,
)
@CLAIMS.add(
    "O-e.gradient",
    "Long after, it goes along the gradient.",
    source=_EPSILON,
    parts=("epsilon-adam",),
    figure="epsilon",
    column="gradient",
    low=-math.inf,
    high=-1.0,
)
def goes_along(frame: polars.DataFrame, column: str, low: float, high: float) -> Finding:
    """Per problem the mean cosine with it minus that with the other, a decade and more from ε, against 0."""
    other = "gradient" if column == "sign" else "sign"
    table = ways(frame).filter(polars.col("below").is_between(low, high), polars.col("step") > 0)
    rows = table.with_columns(value=polars.col(column) - polars.col(other))
    note = f"effect: cosine of the way with the {column} minus that with the {other}, a decade or more from ε"
    return verdict(rows, above=0.0, note=note, within=(-2.0, 2.0))


@CLAIMS.add(
    "O-f.adam",
    "Adam with single samples does not reach the L∞ margin, on points whose coordinates all have one size.",
    "Theorem on generalised Rademacher data",
    parts=("single-adam",),
)
def falls_short(frame: polars.DataFrame) -> Finding:
    """Per problem the margin in L∞ after training as a share of the largest, below 0.95 and no longer rising."""
    end, shrunk = end_and_half(progress(frame), "inf")
    beside = f"in L2 it has {mean(end['2']):.3f} of the largest"
    found = verdict(
        end, "inf", below=NOT_REACHED, note=("effect: margin in L∞, share of the largest", beside)
    )
    rising = found.verdict is Verdict.HOLDS and shrunk < 0.9
    return found.left_open(f"its gap fell by {1 - shrunk:.0%} while steps doubled") if rising else found


@CLAIMS.add("O-f.whole", "With whole batches, on the same points, Adam does reach it.", parts=("whole-adam",))
@CLAIMS.add(
    "O-f.signum", "Signum with single samples does reach it.", parts=("single-signum",), hindsight=_LONGER
)
def still_reaches(frame: polars.DataFrame) -> Finding:
    """Per problem the margin in L∞ after training as a share of the largest, above 0.95."""
    end, shrunk = end_and_half(progress(frame), "inf")
    found = verdict(end, "inf", above=REACHED, note="effect: margin in L∞, share of the largest")
    rising = found.verdict is Verdict.FAILS and shrunk < 0.9
    return found.left_open(f"its gap fell by {1 - shrunk:.0%} while steps doubled") if rising else found


@CLAIMS.add(
    "O-f.l2",
    "It goes to the L2 margin instead.",
    "the same theorem, β₂ → 1",
    parts=("single-adam",),
)
def euclidean_instead(frame: polars.DataFrame) -> Finding:
    """Per problem the cosine with the L2 optimum minus that with the L∞ one, against 0."""
    end, _ = end_and_half(progress(frame), "2")
    rows = end.with_columns(value=polars.col("cosine:2") - polars.col("cosine:inf"))
    note = "effect: cosine of the weights with the L2 optimum minus that with the L∞ optimum"
    return verdict(rows, above=0.0, within=(-2.0, 2.0), note=note)


def by_memory(frame: polars.DataFrame, norm: str) -> polars.DataFrame:
    """beta2, seed, and ``share``: of the largest margin in a norm, after training."""
    ends = [
        end_and_half(progress(own), norm)[0].select("seed", share=norm).with_columns(beta2=polars.lit(beta2))
        for (beta2,), own in frame.group_by("beta2")
    ]
    return polars.concat(ends).sort("beta2", "seed")


@CLAIMS.add(
    "O-b.memory",
    "The longer Adam remembers g², the later its L∞ margin comes: after as many steps it is smaller.",
    source="Zhang, Zou & Cao 2024",
    parts=("memory-adam",),
    figure="memory",
    norm="inf",
    one=MEMORIES[0],
    other=MEMORIES[-1],
)
@CLAIMS.add(
    "O-f.memory",
    "With single samples, the nearer β₂ is to 1 the nearer Adam's margin is to the largest in L2.",
    "the same theorem, β₂ → 1",
    parts=("lasting-adam",),
    figure="lasting",
    norm="2",
    one=MEMORIES[-1],
    other=MEMORIES[0],
)
def changes_with_memory(frame: polars.DataFrame, norm: str, one: float, other: float) -> Finding:
    """Per problem the share of the largest margin with one β₂ minus that with the other, against 0."""
    table = by_memory(frame, norm)
    both = compared(table, "beta2", one, other, value="share", on=["seed"])
    means = by_value(table, "beta2", value="share", form="{mean:.3f} at β₂ = {place:g}")
    note = f"effect: share of the largest margin with β₂ = {one:g} minus that with {other:g}; {means}"
    found = verdict(both, "difference", above=0.0, within=CORRELATION, note=note)
    _, shrunk = end_and_half(progress(frame.filter(polars.col("beta2") == one)), norm)
    growing = found.verdict is Verdict.FAILS and shrunk < 0.9
    return found.left_open(f"with β₂ = {one:g} the gap fell by {1 - shrunk:.0%}") if growing else found
