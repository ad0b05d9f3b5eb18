"""Records of the measure ``growth`` as tables: one row per network and moment, and what is fitted to them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import polars

from undertow.core.errors import InputError
from undertow.studies.co_correlation.outcomes import NETWORK
from undertow.studies.kit.per_seed import mean, slopes
from undertow.studies.kit.readings import side_by_side

__all__ = ["OFTEN", "exponents_of_norm", "mean_known", "networks", "rates", "slack_exponents"]

OFTEN = 0.95
"""What "with high probability" is taken to mean."""
_COLUMN = polars.col


def rates(frame: polars.DataFrame, *activations: str) -> polars.DataFrame:
    """One row per network and step, one column per key of the measure; of some activations, or of all."""
    chosen = frame.filter(_COLUMN("activation").is_in(activations)) if activations else frame
    return side_by_side(chosen, "growth", by=[*NETWORK, "step"], what="the growth of co-correlation")


def networks(table: polars.DataFrame) -> polars.DataFrame:
    """Every network's training as a whole: means over its flow time s, up to the end S.

    ``growth`` is ln(ϱ(S)/ϱ(0))/S; ``explained`` the mean of the exact rate, ``dropped`` that of the terms of Ḋ;
    ``drive`` the mean of main·norm, the main term without its 1/norm; ``norm`` the geometric mean of ‖W‖₂², or of
    E‖DW‖₂²; ``speed`` growth per unit of drive. ``grew`` says whether growth and speed have a logarithm.
    """
    rows = []
    for names, one in table.group_by(NETWORK, maintain_order=True):
        time, rho, norm = (one[name].to_numpy() for name in ("flow_time", "co_correlation", "norm"))
        means = {
            "explained": one["exact"].to_numpy(),
            "dropped": one["dropped"].to_numpy(),
            "drive": one["main"].to_numpy() * norm,
            "log_norm": one["norm"].log().to_numpy(),
        }
        whole = {name: float(np.trapezoid(values, time) / time[-1]) for name, values in means.items()}
        ends = {"growth": math.log(rho[-1] / rho[0]) / time[-1], "norm": math.exp(whole.pop("log_norm"))}
        rows.append({**dict(zip(NETWORK, names, strict=True)), **ends, **whole})
    growth, drive = _COLUMN("growth"), _COLUMN("drive")
    grew = (growth > 0) & (drive > 0)
    return polars.DataFrame(rows).with_columns(speed=growth / drive, grew=grew)


def exponents_of_norm(whole: polars.DataFrame, value: str) -> polars.DataFrame:
    """p in ``value`` ∝ norm^p over widths and q, by least squares of logarithms: activation, seed, ``value``.

    A network that did not grow has no logarithm and is left out; NaN where fewer than two are left.
    """
    every = whole.select("activation", "seed").unique(maintain_order=True)
    try:
        fitted = slopes(whole.filter("grew"), "norm", value, by=["activation", "seed"], log=True)
    except InputError:
        return every.with_columns(value=polars.lit(float("nan")))
    found = every.join(fitted, on=["activation", "seed"], how="left", maintain_order="left")
    return found.with_columns(_COLUMN("value").fill_null(float("nan")))


def slack_exponents(table: polars.DataFrame, terms: Sequence[str]) -> polars.DataFrame:
    """How the sum of some terms goes with m: columns activation, q, seed and ``value``, the exponent.

    The root mean square of that sum over the readings after the first step, fitted by m^exponent.
    """
    size = polars.sum_horizontal(*terms).pow(2).mean().sqrt().log()
    return (
        table.filter(_COLUMN("step") > 0)
        .group_by(NETWORK, maintain_order=True)
        .agg(size=size, log_width=_COLUMN("width").first().log())
        .group_by("activation", "q", "seed")
        .agg(value=polars.cov("log_width", "size") / _COLUMN("log_width").var())
        .sort("activation", "q", "seed")
    )


def mean_known(values: polars.Series) -> str:
    """The mean, where all are known, for a sentence."""
    return f"{mean(values):.2f}" if values.is_finite().all() else "unknown"
