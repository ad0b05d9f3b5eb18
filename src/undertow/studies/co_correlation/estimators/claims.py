"""The claims about the paper's estimators: each is as good as exact norms in Equation 9, to 1 %."""

from __future__ import annotations

import polars

from undertow.studies.co_correlation.setting import PAPER
from undertow.studies.kit.claim import Finding
from undertow.studies.kit.data_names import on_data
from undertow.studies.kit.per_seed import mean, verdict
from undertow.studies.kit.readings import measured
from undertow.studies.kit.statements import Claims

__all__ = ["CLAIMS", "ESTIMATORS", "deviations"]

ESTIMATORS = {
    "equation-9:power": "Eq. 9, Algorithm 2",
    "equation-9:power-authors": "Eq. 9, authors' 30 iterations",
    "algorithm-1:auto": "Algorithm 1, exact norms",
    "algorithm-1:power": "Algorithms 1 and 2",
}
CLAIMS = Claims(f"{PAPER}, Appendix E", parts=("estimators",), figure="estimators")


def deviations(frame: polars.DataFrame) -> polars.DataFrame:
    """ϱ by each printed estimator relative to Eq. 9 with exact norms: width, seed, epoch, estimator, value."""
    on = ["width", "seed", "epoch"]
    rows = measured(frame, "printed-collaboration", what="the printed estimators")
    exact = rows.filter(polars.col("key") == "equation-9:auto").select(*on, exact="value")
    printed = rows.filter(polars.col("key").is_in(list(ESTIMATORS))).join(exact, on=on)
    estimator = polars.col("key").replace_strict(ESTIMATORS)
    value = polars.col("value") / polars.col("exact") - 1
    return printed.select(*on, estimator=estimator, value=value).sort("estimator", *on)


@CLAIMS.add(
    "C-u.algorithm-1",
    "Algorithm 1's plain means estimate the ϱ of Equation 9 to 1 %.",
    "Algorithm 1",
    key="algorithm-1:auto",
)
@CLAIMS.add(
    "C-u.algorithm-2",
    "Algorithm 2's power iteration estimates ϱ to 1 %.",
    "Algorithm 2",
    key="equation-9:power",
)
@CLAIMS.add(
    "C-u.authors",
    "The authors' 30 iterations estimate ϱ to 1 %.",
    "and the authors' code",
    key="equation-9:power-authors",
)
def agrees(frame: polars.DataFrame, key: str) -> Finding:
    """Per seed the largest relative deviation from Eq. 9 with exact norms, over widths and training."""
    table = deviations(frame).filter(polars.col("estimator") == ESTIMATORS[key])
    size, epoch = table.with_columns(polars.col("value").abs()), polars.col("epoch")
    first, last = (mean(size.filter(epoch == at)["value"]) for at in (0, size["epoch"].max()))
    note = (
        "effect: largest relative deviation over training",
        f"{first:.2%} before training, {last:.2%} after it on average",
        f"ReLU networks, q = 0.25, {on_data(frame)}",
    )
    return verdict(size, over="max", below=0.01, note=note)
