"""M-k, M-l: linear at first and at the end, and a margin that is only locally the largest."""

from __future__ import annotations

import polars

from undertow.core.errors import InputError
from undertow.studies.kit.claim import POSITIVE, SHARE, Finding
from undertow.studies.kit.per_seed import by_value, mean, verdict
from undertow.studies.kit.readings import after_training, measured, side_by_side, smallest
from undertow.studies.kit.statements import Claims

__all__ = ["CLAIMS", "linearity"]

_LINEAR = 0.95
_SHAH = "Shah et al. 2020; Li 2024 talk, Connection to Simplicity Bias"
CLAIMS = Claims(_SHAH, parts=("slab-margin",), figure="slab-linearity")


@CLAIMS.add("M-k", "Early gradient descent from a small start behaves as a linear model.")
def linear_early(frame: polars.DataFrame) -> Finding:
    """Per seed the mean R² of the best linear fit while the loss is between 99 % and 50 % of its start's."""
    table = linearity(frame)
    share = 10 ** (polars.col("log10-loss") - polars.col("log10-loss").first().over("seed"))
    early = smallest(table, "std").with_columns(share=share).filter(polars.col("share").is_between(0.5, 0.99))
    if early.is_empty():
        raise InputError("no reading while the loss is between 99 % and 50 % of its start's: read more often")
    note = "effect: mean R² of the network's logit by a linear model while the loss halves; smallest start"
    return verdict(early, "linearity", above=_LINEAR, within=SHARE, note=note)


@CLAIMS.add("M-k.late", "On such data gradient descent finds a linear classifier.")
def linear_late(frame: polars.DataFrame) -> Finding:
    """Per seed the same R² at the end."""
    last = after_training(frame, "linear-likeness", "linearity")
    starts = by_value(last, "std", form="{place:g}: {mean:.3f}")
    note = f"effect: R² of the network's logit by a linear model at the end, smallest start; all starts: {starts}"
    return verdict(smallest(last, "std"), above=_LINEAR, within=SHARE, note=note)


@CLAIMS.add("M-l", "That network is a local maximiser of the margin: perturbed and trained on, it returns.")
def local(frame: polars.DataFrame) -> Finding:
    """Per seed how much of the margin lost by a perturbation of a tenth of the weights comes back."""
    last = smallest(after_training(frame, "margin-basin", "back"), "std")
    note = "effect: share of the lost margin that returns, of networks from the smallest start"
    return verdict(last, above=0.9, note=note)


@CLAIMS.add("M-l.global", "And not a global one: there are networks with a larger normalised margin.")
def not_global(frame: polars.DataFrame) -> Finding:
    """Per seed the largest normalised margin of other networks over that of the smallest start.

    Others are those from larger starts, and one that is built from the slabs: the best with neurons of one coordinate.
    """
    last = after_training(frame, "margins", "normalised").filter(polars.col("value") > 0)
    own = smallest(last, "std").select("seed", own="value")
    trained = last.filter(polars.col("std") > polars.col("std").min()).select("seed", "value")
    built = after_training(frame, "coordinate-margin", "normalised").select("seed", "value")
    share = polars.col("value") / polars.col("own")
    trained, built = (each.join(own, on="seed").select("seed", value=share) for each in (trained, built))
    note = [
        "effect: largest γ̄ of other networks over that of the smallest start",
        f"means: other starts {mean(trained['value']):.2f}, built from the slabs {mean(built['value']):.2f}",
    ]
    return verdict(polars.concat([trained, built]), over="max", above=1.0, within=POSITIVE, note=note)


def linearity(frame: polars.DataFrame) -> polars.DataFrame:
    """How linear every network is, beside its loss."""
    by = ["seed", "std", "step"]
    like = measured(frame, "linear-likeness", "linearity").select(*by, linearity="value")
    return side_by_side(frame, "margins", by=by).join(like, on=by).sort(by)
