"""B-k … B-m: singular values come one by one, deeper products end at lower rank and beat the nuclear norm."""

from __future__ import annotations

import numpy as np
import polars

from undertow.studies.kit.claim import Finding
from undertow.studies.kit.per_seed import by_value, verdict
from undertow.studies.kit.readings import after_training, compared, measured, split_key
from undertow.studies.kit.statements import Claims

__all__ = ["CLAIMS", "fitted", "singular_values"]

_FITTED = -2.0  # log₁₀ of the training loss that a network must have come down to
_NETWORK = ["depth", "start", "seed"]
CLAIMS = Claims("Arora et al. 2019", parts=("completion",))


def singular_values(frame: polars.DataFrame) -> polars.DataFrame:
    """σ_k of every product over training: depth, start, seed, step, place and value, and ``last``, where it ended."""
    sigma = measured(frame, "completion").filter(polars.col("key").str.starts_with("sigma:"))
    table = split_key(sigma, ["kind", "place"]).with_columns(polars.col("place").cast(polars.Int64))
    table = table.select(*_NETWORK, "step", "place", "value").sort(*_NETWORK, "place", "step")
    return table.with_columns(last=polars.col("value").last().over(*_NETWORK, "place"))


def fitted(frame: polars.DataFrame, measure: str, key: str) -> polars.DataFrame:
    """A number after training; not known (NaN) of networks that do not fit the entries seen, which decides nothing."""
    loss = after_training(frame, "loss", "log10").select("trial", fits=polars.col("value") <= _FITTED)
    table = after_training(frame, measure, key).join(loss, on="trial")
    value = polars.when("fits").then("value").otherwise(float("nan"))
    return table.select(*_NETWORK, value=value).sort(*_NETWORK)


def errors_after_training(frame: polars.DataFrame) -> polars.DataFrame:
    """The error over entries not seen, ``value``, with that of least nuclear norm beside it, ``nuclear``."""
    ours = fitted(frame, "completion", "error")
    return ours.join(fitted(frame, "nuclear", "error").rename({"value": "nuclear"}), on=_NETWORK)


@CLAIMS.add(
    "B-k",
    "The singular values of a deep factorisation are learned one after the other.",
    source="Li, Luo & Lyu 2021, Fig 1; Arora et al. 2019, Fig 2",
    figure="singular-values",
)
def one_after_the_other(frame: polars.DataFrame) -> Finding:
    """Per seed how much of its last value σ_k has when σ_(k+1) comes to half of its own, mean over k up to the rank."""
    found = []
    for names, own in singular_values(frame).group_by(_NETWORK, maintain_order=True):
        curves = own.pivot("place", index="step", values="value").sort("step").drop("step").to_numpy()
        rank = curves.shape[1] - 2  # two more than the matrix's rank are recorded
        for k in range(rank - 1):
            half = int(np.argmax(curves[:, k + 1] >= curves[-1, k + 1] / 2))
            found.append(
                {**dict(zip(_NETWORK, names, strict=True)), "value": curves[half, k] / curves[-1, k]}
            )
    table = polars.DataFrame(found)
    note = (
        "effect: σ_k over its last value when σ_(k+1) has half of its own",
        f"by depth: {by_value(table, 'depth')}",
    )
    return verdict(table, above=0.8, note=note)


@CLAIMS.add("B-l", "Deeper products end at lower rank.", "§2.3, Fig 2", figure="completion")
def deeper_is_lower(frame: polars.DataFrame) -> Finding:
    """Per seed the effective rank of the deepest product less that of two layers."""
    table = fitted(frame, "completion", "rank")
    deepest = max(table["depth"].to_list())
    both = compared(table, "depth", deepest, 2, value="value", on=["start", "seed"])
    note = (
        f"effect: effective rank of depth {deepest} less that of depth 2",
        f"by depth: {by_value(table, 'depth', form='{place:g}: {mean:.2f}')}",
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
    table = errors_after_training(frame)
    table = table.with_columns(value=(polars.col("value") / polars.col("nuclear")).log10())
    note = (
        "effect: log₁₀ of error over entries not seen, relative to least nuclear norm; depth 3 and more",
        f"by depth: {by_value(table, 'depth')}",
    )
    return verdict(table.filter(polars.col("depth") >= 3), below=0.0, note=note)
