"""B-k … B-m: singular values come one by one, deeper products are of lower rank, and what that is good for."""

from __future__ import annotations

from functools import partial

import polars

from undertow.core.errors import InputError
from undertow.studies.kit.claim import CORRELATION, Finding
from undertow.studies.kit.per_seed import by_value, rank_correlation, verdict
from undertow.studies.kit.readings import after_fitting, compared, measured, split_key
from undertow.studies.kit.statements import Claims
from undertow.theory.incremental_learning import half_time

__all__ = ["CLAIMS", "beside_theory", "fitted", "of_classifiers", "singular_values"]

_FITTED = -2.0  # log₁₀ of the training loss that a network must have come down to
_CLASSES_FITTED = -1.4  # of classifiers, which are to stop at −1.5
_NETWORK = ["depth", "start", "seed"]
_SEEN = "rank 2 was looked at before rank 3 was set at laptop scale, so that an order has a rank correlation"
CLAIMS = Claims("Arora et al. 2019", parts=("completion",), hindsight=_SEEN)


def singular_values(frame: polars.DataFrame) -> polars.DataFrame:
    """σ_k of every product over training: depth, start, seed, step, place and value, and ``last``, where it ended."""
    sigma = measured(frame, "completion").filter(polars.col("key").str.starts_with("sigma:"))
    table = split_key(sigma, ["kind", "place"]).with_columns(polars.col("place").cast(polars.Int64))
    table = table.select(*_NETWORK, "step", "place", "value").sort(*_NETWORK, "place", "step")
    return table.with_columns(last=polars.col("value").last().over(*_NETWORK, "place"))


def fitted(frame: polars.DataFrame, measure: str, key: str) -> polars.DataFrame:
    """A number after training of products that fit the entries seen, by depth, start and seed."""
    return after_fitting(frame, measure, key, line=_FITTED).select(*_NETWORK, "value").sort(*_NETWORK)


def over_nuclear(frame: polars.DataFrame) -> polars.DataFrame:
    """log₁₀ of the error over entries not seen, relative to that of least nuclear norm."""
    ours, theirs = fitted(frame, "completion", "error"), fitted(frame, "nuclear", "error")
    both = ours.join(theirs, on=_NETWORK, suffix=" nuclear")
    return both.select(*_NETWORK, value=(polars.col("value") / polars.col("value nuclear")).log10())


def half_grown(frame: polars.DataFrame) -> polars.DataFrame:
    """The first ``step`` at which σ_k has half of its last value, for every product and place up to the rank."""
    place = polars.col("place")
    table = singular_values(frame).filter(place < place.max() - 1)  # two more than the rank are recorded
    grown = table.filter(polars.col("value") >= polars.col("last") / 2)
    return grown.group_by(*_NETWORK, "place").agg(polars.col("step").min()).sort(*_NETWORK, "place")


about_values = partial(
    CLAIMS.add, source="Li, Luo & Lyu 2021, Fig 1; Arora et al. 2019, Fig 2", figure="singular-values"
)

about_greedy = CLAIMS.on(
    "completion-greedy", source="Li, Luo & Lyu 2021, Fig 1", figure="singular-values-greedy", hindsight=""
)
_GREEDY = "The same of rank 3 in 100 dimensions."


@about_values("B-k", "The singular values of a deep factorisation are learned one after the other.")
@about_greedy("B-k-greedy", _GREEDY)
def one_after_the_other(frame: polars.DataFrame) -> Finding:
    """Per seed how much of its last value σ_k has when σ_(k+1) comes to half of its own, mean over k up to the rank."""
    following = half_grown(frame).with_columns(polars.col("place") - 1)
    both = singular_values(frame).join(following, on=[*_NETWORK, "place", "step"])
    table = both.with_columns(value=polars.col("value") / polars.col("last"))
    note = (
        "effect: σ_k over its last value when σ_(k+1) has half of its own",
        f"by depth: {by_value(table, 'depth')}",
    )
    return verdict(table, above=0.8, note=note)


@about_values("B-k.order", "The larger ones first.")
@about_greedy("B-k.order-greedy", _GREEDY)
def larger_first(frame: polars.DataFrame) -> Finding:
    """Per seed Spearman's correlation of k and the step at which σ_k has half of its last value, mean over products."""
    ranks = rank_correlation(half_grown(frame), "place", "step", by=_NETWORK)
    note = ("effect: Spearman of k and step", f"by depth: {by_value(ranks, 'depth')}")
    return verdict(ranks, above=0.0, within=CORRELATION, note=note)


def beside_theory(frame: polars.DataFrame) -> polars.DataFrame:
    """Half-grown steps with ``last`` and ``theory``, the equation's time from the start's scale; null: never grew."""
    ends = singular_values(frame).group_by(*_NETWORK, "place").agg(polars.col("last").first())
    table = half_grown(frame).join(ends, on=[*_NETWORK, "place"]).sort(*_NETWORK, "place")
    rows = table.select("last", "start", "depth").iter_rows()
    times = [half_time(s, start=start, depth=n) if s > 2 * start else None for s, start, n in rows]
    return table.with_columns(theory=polars.Series(times, dtype=polars.Float64))


@about_values("B-k.time", "When, relative to the first, is what the equation of one singular value says.")
@about_greedy("B-k.time-greedy", _GREEDY)
def near_the_equation(frame: polars.DataFrame) -> Finding:
    """Per seed step_k/step_1 over the equation's t_k/t_1, mean over k from 2 and products; between a half and two."""
    step, theory = polars.col("step"), polars.col("theory")
    apart = (step / step.first()) / (theory / theory.first())
    table = beside_theory(frame).with_columns(value=apart.over(_NETWORK)).filter(polars.col("place") > 0)
    note = ("effect: steps over steps relative to theory's", f"by depth: {by_value(table, 'depth')}")
    return verdict(table, between=(0.5, 2.0), note=note)


@CLAIMS.add("B-l", "Deeper products end at lower rank.", "§2.3, Fig 2", figure="completion", axis="depth")
@CLAIMS.add(
    "B-l.start", "So do those from a smaller start.", "§2.3, Fig 2", figure="completion", axis="start"
)
def ends_lower(frame: polars.DataFrame, axis: str) -> Finding:
    """Per seed the effective rank of the deepest product, or of the smallest start, less that at the other end."""
    table = fitted(frame, "completion", "rank")
    values = sorted(table[axis].unique().to_list(), reverse=axis == "depth")
    if len(values) < 2:
        raise InputError(f"one {axis} alone: more are there at paper scale")
    others = [name for name in _NETWORK if name != axis]
    both = compared(table, axis, values[0], values[-1], value="value", on=others)
    note = (
        f"effect: effective rank at {axis} {values[0]:g} less that at {values[-1]:g}",
        f"by {axis}: {by_value(table, axis, form='{place:g}: {mean:.2f}')}",
    )
    return verdict(both, "difference", below=0.0, note=note)


@CLAIMS.add(
    "B-m",
    "And complete the matrix better than the solution of least nuclear norm when few entries are seen.",
    "§2.3, Fig 2",
    figure="completion",
)
def better_than_nuclear(frame: polars.DataFrame) -> Finding:
    """Per seed log₁₀ of the error over that of least nuclear norm, mean over products of three layers and more."""
    table = over_nuclear(frame)
    note = (
        "effect: log₁₀ of error over entries not seen, relative to least nuclear norm; depth 3 and more",
        f"by depth: {by_value(table, 'depth')}",
    )
    return verdict(table.filter(polars.col("depth") >= 3), below=0.0, note=note)


@CLAIMS.add(
    "B-m.many",
    "With more entries less of that is left.",
    "§2.3, Fig 2",
    parts=("completion", "completion-many"),
    figure="completion-many",
    hindsight="",
)
def less_with_many(frame: polars.DataFrame) -> Finding:
    """Per seed log₁₀ of error over least nuclear norm's with many entries, less the same with few; depth 3 and more."""
    few, many = (
        over_nuclear(frame.filter(polars.col("part") == part)) for part in ("completion", "completion-many")
    )
    both = many.join(few, on=_NETWORK, suffix=" few")
    table = both.with_columns(change=polars.col("value") - polars.col("value few"))
    note = (
        "effect: log₁₀ of error over least nuclear norm's with many entries less that with few, depth 3 and more",
        f"with many, by depth: {by_value(both, 'depth')}",
    )
    return verdict(table.filter(polars.col("depth") >= 3), "change", above=0.0, note=note)


_RANK, _RADIUS = ("linear-product", "rank"), ("robustness-profile", "attacked:2")
_PILOT = "start and rate were chosen on two starts, whose ranks were seen and whose radii were not"
about_classes = CLAIMS.on("linear-classes", source="ours", figure="linear-classes", hindsight=_PILOT)


def of_classifiers(frame: polars.DataFrame, measure: str, key: str) -> polars.DataFrame:
    """The same of linear classifiers by ``depth``, the number of matrices, and seed."""
    table = after_fitting(frame, measure, key, line=_CLASSES_FITTED)
    return table.select("seed", "value", depth=polars.col("widths").list.len() + 1)


@about_classes("B-l.classes", "Deeper linear classifiers are of lower rank.", reading=_RANK, rises=False)
@about_classes("B-l.radius", "And more robust.", reading=_RADIUS, rises=True, hindsight="")
def deeper_at_equal_loss(frame: polars.DataFrame, reading: tuple[str, str], rises: bool) -> Finding:
    """Per seed log₁₀ of what the deepest product has at last over what that of two matrices has."""
    table = of_classifiers(frame, *reading)
    deepest = max(table["depth"].unique().to_list())
    both = compared(table, "depth", deepest, 2, value="value", on=["seed"])
    note = (
        f"effect: log₁₀ of {reading[1]} at depth {deepest} over that at 2, at one loss",
        f"by depth: {by_value(table, 'depth', form='{place}: {mean:.3g}')}",
    )
    below, above = (None, 0.0) if rises else (0.0, None)
    return verdict(both.with_columns(value=polars.col("ratio").log10()), below=below, above=above, note=note)
