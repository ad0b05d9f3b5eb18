"""B-d.min: noise on labels lowers tr H along zero loss; B-n: whether lower sharpness is robust."""

from __future__ import annotations

import polars

from undertow.studies.kit.claim import CORRELATION, Finding
from undertow.studies.kit.per_seed import by_value, mean, rank_correlation, verdict
from undertow.studies.kit.readings import after_fitting, after_training, compared, measured
from undertow.studies.kit.statements import Claims

__all__ = ["CLAIMS", "FITTED", "traces"]

FITTED = 0.05
# log₁₀ of the loss, of networks that are to stop at −1.5; one that did not get there decides nothing
_EQUAL = -1.4
_SOURCE = "Li 2024 (talk); Blanc et al. 2020; Damian, Ma & Lee 2021"
_SEEN = (
    "with a fifth of the rate the claims about traces failed and that about radii was undecided; other inputs and "
    "rates were tried on two or three starts, and the rate was then set by extrapolation"
)
value, error, noise = polars.col("value"), polars.col("error"), polars.col("label_noise")
_STOPPED = (
    "the loss was looked at every eighth step at first, and the largest rate stopped up to a fifth below it; every "
    "step is, and networks that did not get there decide nothing, since records of twenty seeds had been seen"
)
CLAIMS = Claims("ours", parts=("edge-radius",), figure="edge-radius", hindsight=_STOPPED)
about_noise = CLAIMS.on("label-noise", source=_SOURCE, hindsight=_SEEN)


def traces(frame: polars.DataFrame) -> polars.DataFrame:
    """tr H over training with its error, and the ``loss`` beside it; 0 is the error of one that has none."""
    by = ["label_noise", "seed", "step"]
    trace = measured(frame, "hessian-trace", "")
    errors = error.fill_null(0.0) if "error" in trace.columns else polars.lit(0.0)
    loss = measured(frame, "loss", "mean").select(*by, loss="value")
    return trace.select(*by, "value", error=errors).join(loss, on=by).sort(by)


@about_noise("B-d.min", "SGD with noise on the labels lowers tr H along zero loss.")
def noise_lowers_the_trace(frame: polars.DataFrame) -> Finding:
    """Per seed log₁₀ of the last trace over the first after fitting: upper end of its interval over lower end."""
    noisy = traces(frame).filter((noise > 0) & (polars.col("loss") <= FITTED))
    table = noisy.group_by("seed").agg(
        before=value.first(),
        after=value.last(),
        value=((value + error).last() / (value - error).first()).log10(),
    )
    note = (
        "effect: log₁₀ of the last tr H over the first after fitting, each at the worse end of its interval",
        f"{mean(table['before']):.3g} and then {mean(table['after']):.3g} in the mean",
    )
    return verdict(table, below=0.0, note=note)


@about_noise("B-d.min-arms", "And ends lower than without noise, from the same start in the same order.")
def below_the_trace_without(frame: polars.DataFrame) -> Finding:
    """Per seed log₁₀ of the last trace with noise, upper end, over that without, lower end."""
    last = traces(frame).group_by("label_noise", "seed", maintain_order=True).last()
    ends = last.with_columns(bound=polars.when(noise > 0).then(value + error).otherwise(value - error))
    arms = ends["label_noise"].max(), 0.0
    both = compared(ends, "label_noise", *arms, value="bound", on=["seed"])
    means = by_value(last, "label_noise", form="{place:g}: {mean:.3g}")
    note = ("effect: log₁₀ of tr H with noise over that without", f"tr H by σ: {means}")
    return verdict(both.with_columns(value=polars.col("ratio").log10()), below=0.0, note=note)


@about_noise("B-n.noise", "And is more robust at last than without noise.", source="ours")
def noise_makes_robust(frame: polars.DataFrame) -> Finding:
    """Per seed log₁₀ of the last attacked radius with noise over that without."""
    last = after_training(frame, "robustness-profile", "attacked:2")
    both = compared(last, "label_noise", last["label_noise"].max(), 0.0, value="value", on=["seed"])
    means = by_value(last, "label_noise", form="{place:g}: {mean:.3g}")
    note = ("effect: log₁₀ of the radius with noise over that without", f"radius by σ: {means}")
    return verdict(both.with_columns(value=polars.col("ratio").log10()), above=0.0, note=note)


_PROFILE = "robustness-profile"


@CLAIMS.add(
    "B-n.sharpness",
    "At equal loss, from one start, a larger η has lower sharpness.",
    reading=("sharpness", ""),
    rises=False,
)
@CLAIMS.add("B-n", "And goes with a larger radius.", reading=(_PROFILE, "attacked:2"), rises=True)
@CLAIMS.add("B-n.certified", "Also with one that is proved.", reading=(_PROFILE, "certified:2"), rises=True)
@CLAIMS.add("B-n.energy", "And with less energy.", reading=(_PROFILE, "energy"), rises=False)
@CLAIMS.add("B-n.margin", "And with a larger normalised margin.", reading=(_PROFILE, "margin"), rises=True)
def follows_the_rate(frame: polars.DataFrame, reading: tuple[str, str], rises: bool) -> Finding:
    """Per seed Spearman's correlation of η and what is found after training to one loss; the flow is one arm."""
    table = after_fitting(frame, *reading, line=_EQUAL)
    ranks = rank_correlation(table, "learning_rate", "value", by=["seed"])
    edges = table.with_columns(edge=2 / polars.col("learning_rate"))
    what = reading[1] or reading[0]
    means = by_value(edges, "edge", form="{place:.0f}: {mean:.3g}")
    note = (f"effect: Spearman of η and {what} at equal loss", f"{what} by 2/η: {means}")
    below, above = (None, 0.0) if rises else (0.0, None)
    return verdict(ranks, below=below, above=above, within=CORRELATION, note=note)
