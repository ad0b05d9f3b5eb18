"""What records of the measure ``growth`` say of Theorems 5.3 and 5.5 of Wang, Min & Ruan (2024).

The theorems end in O(·), which no single network can contradict. Tested are what can be: the inequality with the bounds
that its proof gives (and how loose those are), the powers of m and of the norm, the steps that the proof takes on the
way, and the conclusion that ϱ grows.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from undertow.studies.co_correlation.grid import NETWORK
from undertow.studies.co_correlation.growth_records import (
    Network,
    exponent,
    networks,
    rates,
    slack_exponents,
)
from undertow.studies.co_correlation.setting import data_names
from undertow.studies.kit.claim import CORRELATION, SHARE, Finding, decide

if TYPE_CHECKING:
    import polars

__all__ = [
    "acute",
    "bounded_slopes",
    "frozen",
    "grows",
    "inverse",
    "inverse_square",
    "keeps_bound",
    "never_shrinks",
    "saturates",
    "slack_falls",
    "smooth",
    "update",
]

_OFTEN = 0.95
"""What "with high probability" is taken to mean."""
_BOUNDS = {"linear": 1.0, "relu": 1.0, "leaky-relu": 1.0, "tanh": 1.0, "gelu": 1.129}
"""M = sup |σ′| of Assumption 5.4."""
_SMOOTH = ("tanh", "gelu")


def inverse_square(frame: polars.DataFrame, activation: str) -> Finding:
    """Per seed the exponent of the growth in the norm, against −1 give or take a quarter."""
    seeds = [networks(each) for each in _by_seed(rates(frame, [activation]))]
    found = [exponent(each, per_drive=True) for each in seeds]
    plain = [exponent(each, per_drive=False) for each in seeds]
    note = (
        "effect: p in growth ∝ drive·norm^p over widths and q, the drive being the main term's numerator; "
        f"growth ∝ norm^p alone has p = {_mean(plain)}; {_left_out(seeds)}{data_names(frame)}"
    )
    return decide(found, between=(-1.25, -0.75), note=note)


def inverse(frame: polars.DataFrame) -> Finding:
    """Per seed the exponent of the growth in the norm, the larger one of linear and ReLU networks."""
    seeds = [
        [networks(each) for each in _by_seed(rates(frame, [activation]))] for activation in ("linear", "relu")
    ]
    found = [[exponent(each, per_drive=False) for each in several] for several in seeds]
    return decide(
        [max(pair) for pair in zip(*found, strict=True)],
        below=0.0,
        note="effect: p in growth ∝ norm^p over widths and q, the larger of linear and ReLU; "
        f"linear {_mean(found[0])}, ReLU {_mean(found[1])}; {_left_out([*seeds[0], *seeds[1]])}{data_names(frame)}",
    )


def update(frame: polars.DataFrame) -> Finding:
    """Per seed the largest relative distance between a step and what the lemmas say it is."""
    largest = [float(each["update_gap"].max()) for each in _by_seed(rates(frame))]  # type: ignore[arg-type]
    return decide(largest, below=1e-8, note="effect: largest ‖ΔW − ηG‖/‖ηG‖ of the steps after a reading")


def keeps_bound(frame: polars.DataFrame, activations: Sequence[str]) -> Finding:
    """Per seed the share of readings in which the rate is at least the main term less the proof's bounds."""
    import polars

    column = polars.col
    table = rates(frame, activations).with_columns(
        slack=column("remaining_bound") + column("replacement_bound"),
        alone=column("measured") >= column("main"),
        late=column("flow_time") > 0.5 * column("flow_time").max(),
    )
    kept = column("measured") >= column("main") - column("slack")
    later = table.filter(column("step") > 0)
    loose = later.select((column("slack") / column("main").abs()).median()).item()
    return decide(
        [float(each.select(kept.mean()).item()) for each in _by_seed(table)],
        above=_OFTEN,
        note=f"effect: share of readings; the bounds are {loose:.2g} times the main term (median); "
        f"rate ≥ main alone in {_share(later, ~column('late'))} of the readings of the first half of training, "
        f"{_share(later, column('late'))} of the second; {data_names(frame)}",
    )


def _share(table: polars.DataFrame, chosen: polars.Expr) -> str:
    import polars

    return f"{table.filter(chosen).select(polars.col('alone').mean()).item():.0%}"


def slack_falls(frame: polars.DataFrame, activation: str) -> Finding:
    """Per seed the exponent in m of what the theorem calls O(m^-q), plus q: the larger over q."""
    import polars

    table = rates(frame, [activation])
    found = slack_exponents(table, ["remaining", "replacement"])
    excess = found.with_columns(excess=polars.col("exponent") + polars.col("q"))
    worst = excess.group_by("seed").agg(polars.col("excess").max()).sort("seed")["excess"]
    means = found.group_by("q").agg(polars.col("exponent").mean()).sort("q").rows()
    undivided = table.with_columns(
        added=(polars.col("remaining") + polars.col("replacement")) * polars.col("norm")
    )
    main, before = (
        statistics.fmean(slack_exponents(each, [term])["exponent"])
        for each, term in ((table, "main"), (undivided, "added"))
    )
    return decide(
        worst.to_list(),
        below=0.0,
        note="effect: exponent of m in all that the theorem adds to the main term, plus q, the larger over q; "
        f"exponents {', '.join(f'{slope:+.2f} at q = {q:g}' for q, slope in means)}; before it is divided by the norm, "
        f"which falls with m, {before:+.2f}; the main term's own {main:+.2f}; {data_names(frame)}",
    )


def never_shrinks(frame: polars.DataFrame, activation: str) -> Finding:
    """Per seed the share of networks of which no reading has d‖aᵀDW‖²/dt < 0, which turns Eq. 63 and 105 around."""
    import polars

    column = polars.col
    table = rates(frame, [activation])
    each = table.group_by(NETWORK).agg(fine=(column("inequality") >= 0).all())
    late = table.filter(column("inequality") < 0)["flow_time"].to_list()
    until = f", the last at s = {max(late):.2g}" if late else ""
    share = each.group_by("seed").agg(column("fine").mean()).sort("seed")["fine"].to_list()
    return decide(
        share,
        above=_OFTEN,
        within=SHARE,
        note=f"effect: share of networks without such a reading{until}; {data_names(frame)}",
    )


def grows(frame: polars.DataFrame, activation: str) -> Finding:
    """Per seed the share of readings after the first step in which the next step raises ϱ."""
    import polars

    table = rates(frame, [activation]).filter(polars.col("step") > 0)
    share = [float((each["measured"] > 0).mean()) for each in _by_seed(table)]  # type: ignore[arg-type]
    note = f"effect: share of readings after the first step; {data_names(frame)}"
    return decide(share, above=_OFTEN, within=SHARE, note=note)


def frozen(frame: polars.DataFrame) -> Finding:
    """Per seed how much of the growth of ReLU networks the exact rate with Ḋ = 0 adds up to."""
    found = [networks(each) for each in _by_seed(rates(frame, ["relu"]))]
    return decide(
        [sum(n.explained for n in each) / sum(n.growth for n in each) for each in found],
        between=(0.9, 1.1),
        note="effect: ∫ exact rate with Ḋ = 0 over the growth of ln ϱ, summed over the grid; the rest is neurons "
        f"switching, and the step being finite; {data_names(frame)}",
    )


def smooth(frame: polars.DataFrame) -> Finding:
    """Per seed the share of growth in the terms of Ḋ, the larger of tanh and GELU."""
    shares = []
    for activation in _SMOOTH:
        found = [networks(each) for each in _by_seed(rates(frame, [activation]))]
        shares.append([sum(n.dropped for n in each) / sum(n.growth for n in each) for each in found])
    return decide(
        [max(map(abs, pair)) for pair in zip(*shares, strict=True)],
        below=0.1,
        note="effect: |∫ terms of Ḋ| over the growth of ln ϱ, the larger of tanh and GELU; "
        f"tanh {_mean(shares[0])}, GELU {_mean(shares[1])}; {data_names(frame)}",
    )


def bounded_slopes(frame: polars.DataFrame) -> Finding:
    """Per seed the largest |σ′| met, over M."""
    import polars

    table = rates(frame).with_columns(
        over=polars.col("steepest") / polars.col("activation").replace_strict(_BOUNDS)
    )
    found = [float(each["over"].max()) for each in _by_seed(table)]  # type: ignore[arg-type]
    return decide(
        found,
        below=1 + 1e-6,
        note="effect: largest |σ′|/M; M = 1 but for GELU, 1.129",
    )


def acute(frame: polars.DataFrame, *, until: float) -> Finding:
    """Per seed the smallest cosine of x̃(τ) and x̃(t) over the grid, up to a share of the training."""
    import polars

    column = polars.col
    table = rates(frame)
    chosen = table.filter(column("flow_time") <= until * column("flow_time").max() + 1e-9)
    kinds = chosen.group_by("activation").agg(column("cosine_least").min()).sort("activation").rows()
    return decide(
        [float(each["cosine_least"].min()) for each in _by_seed(chosen)],  # type: ignore[arg-type]
        above=0.0,
        within=CORRELATION,
        note="effect: smallest cosine over the grid, the points and pairs of steps; "
        f"{', '.join(f'{kind} {least:.3f}' for kind, least in kinds)}; {data_names(frame)}",
    )


def saturates(frame: polars.DataFrame) -> Finding:
    """Per seed the exact rate at the end over its largest, at the largest width and q: the larger of both kinds."""
    import polars

    column = polars.col
    table = rates(frame)
    widest = table.filter(column("width") == column("width").max(), column("q") == column("q").max())
    ratio = (
        widest.group_by("activation", "seed", maintain_order=True)
        .agg(ratio=column("exact").last() / column("exact").max())
        .group_by("seed")
        .agg(column("ratio").max())
        .sort("seed")
    )
    note = f"effect: rate at the end of training over its largest; {data_names(frame)}"
    return decide(ratio["ratio"].to_list(), below=0.5, note=note)


def _left_out(seeds: Sequence[Sequence[Network]]) -> str:
    """A phrase for the networks that an exponent cannot use."""
    every = [each for several in seeds for each in several]
    shrunk = sum(not each.has_speed for each in every)
    return f"{shrunk} of {len(every)} networks did not grow and are left out; " if shrunk else ""


def _by_seed(table: polars.DataFrame) -> list[polars.DataFrame]:
    return table.sort("seed", *NETWORK, "step").partition_by("seed", maintain_order=True)


def _mean(values: Sequence[float]) -> str:
    return f"{statistics.fmean(values):.2f}" if all(map(math.isfinite, values)) else "unknown"
