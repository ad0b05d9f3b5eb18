"""B-e … B-g: low frequencies are learned first, at any amplitude, and are destroyed last."""

from __future__ import annotations

import polars

from undertow.studies.kit.claim import CORRELATION, Finding
from undertow.studies.kit.per_seed import by_value, rank_correlation, verdict
from undertow.studies.kit.readings import after_training, compared, measured, present, split_key
from undertow.studies.kit.statements import Claims

__all__ = ["CLAIMS", "LEARNED", "learned_at", "of_frequencies"]

LEARNED = 0.2
_NETWORK = ["growing", "noise_frequency", "seed"]
CLAIMS = Claims("Rahaman et al. 2019", parts=("frequency",), figure="frequency")


def of_frequencies(table: polars.DataFrame, kind: str) -> polars.DataFrame:
    """The readings of one kind (``residual``, ``kept``) with their frequency k as a number."""
    split = split_key(table, ["kind", "k"]).filter(polars.col("kind") == kind)
    return split.with_columns(polars.col("k").cast(polars.Float64))


def learned_at(frame: polars.DataFrame) -> polars.DataFrame:
    """For every network and frequency the first step at which its residual is small, or all of its steps."""
    table = of_frequencies(measured(frame, "frequency-residuals"), "residual")
    step, network = polars.col("step"), present(table, _NETWORK)
    first = step.filter(polars.col("value") <= LEARNED).min().fill_null(step.max())
    return table.group_by(*network, "k").agg(value=first).sort(*network, "k")


_K, _GROWING = polars.col("k"), polars.col("growing")
about_noise = CLAIMS.on("frequency-noise")


@CLAIMS.add("B-e", "Frequencies are learned from low to high at equal amplitudes.", "§3, Fig 2", of=~_GROWING)
@CLAIMS.add("B-f", "Also where high frequencies have the larger amplitude.", "§3, Fig 2", of=_GROWING)
@about_noise(
    "B-e.noise",
    "Noise of one frequency on the labels is fitted the later, the higher it is.",
    "§3.2, Fig 3",
    of=polars.col("noise_frequency") == _K,
)
def low_first(frame: polars.DataFrame, of: polars.Expr) -> Finding:
    """Per seed Spearman's correlation of the frequency and the step at which it is learned."""
    table = learned_at(frame).filter(of)
    ranks = rank_correlation(table, "k", "value", by=["seed"])
    steps = by_value(table, "k", form="{place:g}: {mean:.0f}")
    note = ("effect: Spearman of frequency and step at which it is learned", f"mean step by k: {steps}")
    return verdict(ranks, above=0.0, within=CORRELATION, note=note)


@about_noise(
    "B-e.spared", "And the nearer training comes, on its way, to the target without it.", "§3.2, Fig 3"
)
def target_spared(frame: polars.DataFrame) -> Finding:
    """Per seed Spearman's correlation of the noise's frequency and the least loss on points without noise."""
    network = ["noise_frequency", "seed"]
    curves = measured(frame, "loss@test", "mean").sort("step").group_by(network)
    table = curves.agg(last=polars.col("value").last(), value=polars.col("value").min())
    ranks = rank_correlation(table, "noise_frequency", "value", by=["seed"])
    least = by_value(table, "noise_frequency", form="{place}: {mean:.3g}")
    last = by_value(table, "noise_frequency", value="last", form="{place}: {mean:.3g}")
    note = ("effect: Spearman of noise's frequency and least loss", f"least by k: {least}", f"last: {last}")
    return verdict(ranks, below=0.0, within=CORRELATION, note=note)


@CLAIMS.on("frequency-wide")(
    "B-e.tanh",
    "Of two frequencies, 1 : 4, tanh networks learn the lower one first.",
    source="Xu et al. 2019",
    hindsight="a rank correlation, which two have not, was written first, and the steps were seen when it was replaced",
)
def lower_first(frame: polars.DataFrame) -> Finding:
    """Per seed log₁₀ of the step at which the higher is learned over that of the lower."""
    table = learned_at(frame)
    ends = table["k"].max(), table["k"].min()
    both = compared(table, "k", *ends, value="value", on=["seed"])
    note = (
        "effect: log₁₀ of steps over steps",
        f"by k: {by_value(table, 'k', form='{place:g}: {mean:.0f}')}",
    )
    return verdict(both.with_columns(value=polars.col("ratio").log10()), above=0.0, note=note)


@CLAIMS.add(
    "B-g", "Perturbing the weights destroys high frequencies first.", "§4, Fig 4", figure="frequency-kept"
)
def high_destroyed(frame: polars.DataFrame) -> Finding:
    """Per seed Spearman's correlation of the frequency and the share of it that noise on the weights leaves."""
    ended = of_frequencies(after_training(frame, "frequency-residuals"), "kept")
    table = ended.filter(~polars.col("growing"))
    ranks = rank_correlation(table, "k", "value", by=["seed"])
    note = (
        "effect: Spearman of frequency and share left under noise",
        f"share left by k: {by_value(table, 'k', form='{place:g}: {mean:.2f}')}",
    )
    return verdict(ranks, below=0.0, within=CORRELATION, note=note)
