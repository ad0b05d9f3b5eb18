"""M-s, M-p: exact radii of narrow networks as training goes on, beside f_robust's and the KKT residual."""

from __future__ import annotations

from functools import partial

import polars

from undertow.core.errors import InputError
from undertow.studies.kit.claim import CORRELATION, POSITIVE, SHARE, Finding
from undertow.studies.kit.per_seed import by_value, mean, per_seed, slopes, verdict
from undertow.studies.kit.readings import after_training, largest, present, smallest, split_key
from undertow.studies.kit.statements import Claims
from undertow.studies.margin.curves_of_loss import against_loss

__all__ = ["CLAIMS", "beside_robust", "radii_over_training", "slopes_of_radii"]

_FRAGILE, _NEARLY, _AVERAGED = 0.5, 0.1, 0.95
_OURS = "Li 2024 talk, Robustness, against Frei et al. 2023 and Vardi et al. 2022 (ours)"
CLAIMS = Claims(_OURS, figure="radius-by-loss")
_KINKS = (
    "the line is the first one; residuals were taken with slopes free within 1e-6 of a kink at first, less than a step "
    "puts between a unit and its kink, and then within 1e-2"
)
beside = partial(CLAIMS.add, parts=("clusters-trained", "robust"), hindsight=_KINKS)


@CLAIMS.add(
    "M-s.clusters", "On clusters, training on makes a network more robust.", parts=("clusters-trained",)
)
@CLAIMS.add("M-s.clusters-fixed", "The same with a fixed head.", parts=("clusters-fixed",))
@CLAIMS.add("M-s.orthogonal", "And on nearly orthogonal points.", parts=("orthogonal-trained",))
@CLAIMS.add("M-s.orthogonal-fixed", "And on these with a fixed head.", parts=("orthogonal-fixed",))
def helps(frame: polars.DataFrame) -> Finding:
    """Per seed the slope of log radius on log log 1/𝓛 after t0, mean over clusters, points and starts."""
    found = slopes_of_radii(radii_over_training(frame))
    told = [f"by {axis}: {by_value(found, axis)}" for axis in present(found, ("k", "n", "std"))]
    return verdict(found, above=0.0, note=["effect: slope of log radius on log log 1/𝓛", *told])


@beside("M-s.fragile", "On many clusters networks near a KKT point are far less robust than f_robust.")
def fragile(frame: polars.DataFrame) -> Finding:
    """Per seed the radius at the end over f_robust's, at the largest k."""
    last = beside_robust(frame)
    most, near = largest(last, "k"), last.filter(polars.col("residual") < _NEARLY)
    note = [
        f"effect: exact radius over f_robust's at the end, largest k; KKT residual {mean(last['residual']):.2g}",
        f"all k: {by_value(last, 'k', value='ratio')}",
        f"of nearly KKT points alone: {by_value(near, 'k', value='ratio')}" if len(near) else "",
    ]
    return verdict(most, "ratio", below=_FRAGILE, within=POSITIVE, note=note)


@beside("M-s.onset", "Networks become fragile only once they are nearly KKT points.")
def onset(frame: polars.DataFrame) -> Finding:
    """Per seed the share of networks, of those fragile at the end, that are nearly KKT when they are first fragile."""
    table = radii_over_training(frame.filter(polars.col("part") != "robust"))
    bar = _robust_radius(frame)
    by = _networks(table)
    both = table.join(bar, on=["seed", "k", "n"]).sort("fallen")
    near = both.filter(polars.col("radius") < _FRAGILE * polars.col("robust"))
    if near.is_empty():
        raise InputError("no network is fragile: its radius stays above half of f_robust's")
    first = near.group_by(by, maintain_order=True).agg(polars.col("residual", "fallen").first())
    point = both.filter(polars.col("residual") < _NEARLY).group_by(by).agg(polars.col("fallen").min())
    dates = per_seed(point, "fallen") if len(point) else []
    early = first.with_columns(value=(polars.col("residual") < _NEARLY).cast(polars.Float64))
    every = set(frame["seed"].unique().to_list()) - set(early["seed"].unique().to_list())
    note = (
        f"effect: share of fragile networks whose residual is below {_NEARLY:g} when their radius first is below half "
        f"of f_robust's; that is at a mean loss of 10^-{mean(first['fallen']):.2g}, with a residual of "
        f"{mean(first['residual']):.2g}; seeds without a fragile network: {len(every)}; nearly KKT points: "
        f"{len(point)} of {both.select(by).n_unique()} networks"
    )
    if dates:
        from_here = mean(polars.Series(dates))
        note += f", in the mean from 10^-{from_here:.3g} on, {_earlier(first, point, by)}"
    return verdict(early, above=0.5, within=SHARE, note=note)


def _earlier(fragile: polars.DataFrame, point: polars.DataFrame, by: list[str]) -> str:
    """Of networks that come to be both, how many were fragile before they were nearly KKT points."""
    both = fragile.join(point, on=by, suffix="_point")
    before = both.filter(polars.col("fallen") < polars.col("fallen_point")).height
    return f"of {both.height} that are both {before} were fragile first"


@CLAIMS.add(
    "M-s.averaged",
    "From a small start what training adds to a neuron is the average of its class's clusters.",
    parts=("clusters-trained",),
)
def averaged(frame: polars.DataFrame) -> Finding:
    """Per seed the smallest cosine of a neuron's change with its Σμ_j at the end, at the largest k; as F-e.change."""
    last = after_training(frame, "feature-coefficients")
    own = {key: last.filter(polars.col("key") == key) for key in ("aligned", "cross_share")}
    told = [f"{key} by {axis}: {by_value(own[key], axis)}" for key in own for axis in ("k", "std")]
    small = smallest(own["aligned"], "std")
    note = ["effect: smallest cosine of a neuron's change with the sum of its class's centres", *told]
    return verdict(largest(small, "k"), over="min", above=_AVERAGED, within=CORRELATION, note=note)


@beside(
    "M-p",
    "Margin and radius can disagree: there is a network with a smaller normalised margin and a larger radius.",
    source="Li 2024 talk, Margin and Robustness",
    figure="margin-and-radius",
    hindsight=None,
)
def disagree(frame: polars.DataFrame) -> Finding:
    """Per seed the share of trained networks that f_robust beats in radius while its normalised margin is smaller."""
    last = beside_robust(frame)
    beats = (polars.col("margin_robust") < polars.col("normalised")) & (polars.col("ratio") < 1)
    table = last.with_columns(value=beats.cast(polars.Float64))
    own = sum(share > 0 for share in per_seed(table) if share is not None)
    note = (
        "effect: share of trained networks with a larger normalised margin and a smaller radius than f_robust; "
        f"{own} seeds have one or more"
    )
    return verdict(table, above=0.5, within=SHARE, note=note)


def radii_over_training(frame: polars.DataFrame) -> polars.DataFrame:
    """Mean exact radius, half the distance to others, margins and KKT conditions of every network after t0."""
    by = _networks(frame)
    table = against_loss(frame, "kkt", by=by)
    return table.join(_mean_radii(frame, by), on=[*by, "step"]).sort(*by, "step")


def slopes_of_radii(table: polars.DataFrame) -> polars.DataFrame:
    """For each network the slope of log radius on log log 1/𝓛."""
    return slopes(table.filter(polars.col("radius") > 0), "fallen", "radius", by=_networks(table), log=True)


def _mean_radii(frame: polars.DataFrame, by: list[str]) -> polars.DataFrame:
    points = split_key(frame.filter(polars.col("measure") == "point-radii"), ["side", "i"])
    value = polars.col("value")
    if "exact" not in points["side"].unique().to_list():
        raise InputError("no record of exact radii")
    return points.group_by(*by, "step").agg(
        radius=value.filter(polars.col("side") == "exact").mean(),
        half=value.filter(polars.col("side") == "half").mean(),
    )


def _robust_radius(frame: polars.DataFrame) -> polars.DataFrame:
    """f_robust's mean radius and its normalised margin, by seed, k and n."""
    own, by = frame.filter(polars.col("part") == "robust"), ["seed", "k", "n"]
    radius = _mean_radii(own, by).select(*by, robust="radius")
    margin = own.filter(polars.col("measure") == "margins", polars.col("key") == "normalised")
    return radius.join(margin.select(*by, margin_robust="value"), on=by)


def beside_robust(frame: polars.DataFrame) -> polars.DataFrame:
    """Networks at the end of training with ``ratio``, radius over that of f_robust on the same points."""
    table = radii_over_training(frame.filter(polars.col("part") != "robust"))
    last = table.filter(polars.col("step") == polars.col("step").max().over(_networks(table)))
    both = last.join(_robust_radius(frame), on=["seed", "k", "n"])
    return both.with_columns(ratio=polars.col("radius") / polars.col("robust"))


def _networks(table: polars.DataFrame) -> list[str]:
    """The axes that these networks have: records of several parts have columns that mean nothing to some."""
    names = present(table, ("seed", "k", "n", "std"))
    return [name for name in names if not table[name].is_null().all()]
