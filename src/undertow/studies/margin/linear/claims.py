"""M-a, M-b: gradient descent and the L2 path converge in direction to the support vector machine."""

from __future__ import annotations

from functools import partial

import polars

from undertow.core.errors import InputError
from undertow.studies.kit.claim import POSITIVE, Finding
from undertow.studies.kit.per_seed import by_value, mean, slopes, verdict
from undertow.studies.kit.readings import after_training, measured, split_key
from undertow.studies.kit.statements import Claims
from undertow.studies.margin.curves_of_loss import with_time

__all__ = ["CLAIMS", "along_path", "angles_over_time", "path_angles"]

_LATE = 10.0
"""log t from which the rate is fitted: before it the start is not forgotten."""
_SOUDRY = "Soudry et al. 2018; Li 2024 talk, Implicit Bias"
_FORTY = "ten seeds had left the rates and M-b open with eight on their side: at laptop scale there are forty"
CLAIMS = Claims(_SOUDRY, parts=("svm",), figure="svm-angle", hindsight=_FORTY)
_ROSSET = "Rosset, Zhu & Hastie 2004; Li 2024 talk, Implicit Bias"
of_path = partial(CLAIMS.add, source=_ROSSET, figure="l2-path")


@CLAIMS.add("M-a", "Gradient descent on separable data converges in direction to the support vector machine.")
@of_path("M-b", "So does the minimum of the L2-regularised loss as λ → 0.", path=True)
def converges(frame: polars.DataFrame, path: bool = False) -> Finding:
    """Per seed the angle at the end over that where log t passes 10, or at λ = 1e-3; the worse of the dimensions."""
    angle, first = polars.col("angle"), "λ = 1e-3" if path else f"log t = {_LATE:g}"
    ends = (
        _angles(frame, path).group_by("seed", "d").agg(value=angle.last() / angle.first(), last=angle.last())
    )
    note = [
        f"effect: angle at the end over the angle at {first}, larger of all d",
        f"mean angle at the end {mean(ends['last']):.2g} rad",
    ]
    return verdict(ends, over="max", below=0.5, within=POSITIVE, note=note)


@CLAIMS.add("M-a.rate", "The angle falls like 1/log t.")
@of_path("M-b.rate", "Its angle falls like 1/log(1/λ).", path=True)
def like_one_over_log(frame: polars.DataFrame, path: bool = False) -> Finding:
    """Per seed the exponent of the angle in log t, or log 1/λ, by least squares of logarithms; mean of all d."""
    found = slopes(_angles(frame, path), "x", "angle", by=["seed", "d"], log=True)
    what = "log 1/λ below λ = 1e-2" if path else f"log t from log t = {_LATE:g} on"
    note = f"effect: exponent of the angle in {what}; by d: {by_value(found, 'd')}"
    return verdict(found, between=(-1.25, -0.75), note=note)


def _angles(frame: polars.DataFrame, path: bool) -> polars.DataFrame:
    """The angle to the machine by ``x``: log t of gradient descent, or log₁₀ 1/λ along the L2 path."""
    if path:
        return path_angles(frame).rename({"fallen": "x", "value": "angle"})
    return angles_over_time(frame).rename({"log_time": "x"})


@CLAIMS.add(
    "M-f.duals",
    "On linear classifiers the KKT multipliers become the dual variables of the support vector machine.",
    source="Lyu & Li 2020, §4.4; Li 2024 talk, Max-Margin Problem",
    parts=("svm-far",),
    figure="svm-far",
    hindsight="trained by the talk's rule on whole batches, which leaps, it had failed with 0.16; the flow came after",
)
def duals_agree(frame: polars.DataFrame) -> Finding:
    """Per seed the relative distance of the multipliers at the end."""
    last = after_training(frame, "hard-margin", "duals")
    loss = mean(after_training(frame, "margins", "log10-loss")["value"])
    note = f"effect: ‖λ − λ_svm‖/‖λ_svm‖ at the end, at a mean loss of 10^{loss:.0f}"
    return verdict(last, below=0.01, within=POSITIVE, note=note)


def angles_over_time(frame: polars.DataFrame, *, after: float = _LATE) -> polars.DataFrame:
    """The angle to the machine and log t, a row for each network and reading, in order of time."""
    angle = measured(frame, "hard-margin", "angle").select("seed", "d", "step", angle="value")
    late = with_time(angle, frame, by=["seed", "d"]).filter(polars.col("log_time") >= after)
    if late.is_empty():
        raise InputError(f"no training came to log t = {after:g}: train longer")
    return late.sort("seed", "d", "step")


def path_angles(frame: polars.DataFrame) -> polars.DataFrame:
    """The angle of the L2 path by ``fallen`` = log₁₀ 1/λ, below λ = 1e-2."""
    return along_path(frame, "angle").filter(polars.col("fallen") > 2)


def along_path(frame: polars.DataFrame, side: str) -> polars.DataFrame:
    """A number of the L2 path by ``fallen`` = log₁₀ 1/λ."""
    path = split_key(measured(frame, "l2-path"), ["side", "penalty"], at="@")
    power = polars.col("penalty").str.strip_prefix("1e").cast(polars.Float64)
    return path.filter(polars.col("side") == side).with_columns(fallen=-power).sort("seed", "d", "fallen")
