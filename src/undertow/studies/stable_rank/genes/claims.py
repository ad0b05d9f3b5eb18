"""R-e to R-h: gene expression."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars

from undertow.studies.kit.claim import POSITIVE, SHARE, Finding
from undertow.studies.kit.per_seed import verdict
from undertow.studies.kit.readings import compared
from undertow.studies.kit.statements import Claims
from undertow.studies.stable_rank.rank_tables import SOURCE, ends, judged_order, stable_ranks

__all__ = ["CLAIMS", "down_up_down"]

CLAIMS = Claims(SOURCE)
_OF_TABLES = {
    "value": "min‖x‖²/(n max|⟨x, x′⟩|) is",
    "mean_cosine": "the mean |cosine| of two is",
    "features": "the mean |correlation| of two columns is",
}
_TURN = 0.01
"""How far a curve must come back, relative to where it turned, for a rise or a fall."""


@CLAIMS.add(
    "R-e.dlbcl",
    "On correlated genes the stable ranks do not follow the order of the starts (lymphoma, ReLU).",
    "Findings: Neuroblastoma, on another data set",
    parts=("dlbcl",),
    figure="fig2-dlbcl",
    activation="relu",
)
@CLAIMS.add(
    "R-e.dlbcl-leaky",
    "Nor with leaky ReLU (lymphoma).",
    "Findings: Neuroblastoma, on another data set",
    parts=("dlbcl",),
    figure="fig2-dlbcl",
    activation="leaky-relu",
)
@CLAIMS.add(
    "R-e",
    "On correlated genes the stable ranks do not follow the order of the starts (neuroblastoma, ReLU).",
    "Fig 2",
    parts=("neuroblastoma",),
    figure="fig2",
    activation="relu",
)
@CLAIMS.add(
    "R-e.leaky",
    "Nor with leaky ReLU (neuroblastoma).",
    "Fig 2",
    parts=("neuroblastoma",),
    figure="fig2",
    activation="leaky-relu",
)
def out_of_order(frame: polars.DataFrame, activation: str) -> Finding:
    """Per seed the Spearman correlation of final stable rank and init scale, below 0.9: two pairs exchanged."""
    return judged_order(frame, activation, follows=False)


@CLAIMS.add(
    "R-e.table",
    "On the table that was given the stable ranks do not follow the order of the starts (ReLU).",
    "Fig 2, on other data",
    parts=("table",),
    figure="fig2-table",
)
def out_of_order_on_a_table(frame: polars.DataFrame) -> Finding:
    """The same, and beside it how nearly orthogonal the table is: the report's rule is about that."""
    found = judged_order(frame, "relu", follows=False)
    rows = frame.filter(polars.col("measure") == "near-orthogonality@train")
    known = dict(rows.select("key", "value").unique("key").iter_rows())
    beside = [f"{what} {known[key]:.2g}" for key, what in _OF_TABLES.items() if key in known]
    return replace(found, note=f"{found.note}; of its training rows {', '.join(beside)}") if beside else found


@CLAIMS.add(
    "R-f.dlbcl",
    "ReLU ends at a lower stable rank than leaky ReLU (lymphoma).",
    "Findings: Neuroblastoma, on another data set",
    parts=("dlbcl",),
    figure="fig2-dlbcl",
)
@CLAIMS.add(
    "R-f",
    "ReLU ends at a lower stable rank than leaky ReLU (neuroblastoma).",
    "Fig 2",
    parts=("neuroblastoma",),
    figure="fig2",
)
def relu_lower(frame: polars.DataFrame) -> Finding:
    """Per seed the mean over the starts of the ratio of both ends, against 1."""
    note = "effect: final stable rank of ReLU over that of leaky ReLU, mean over the starts"
    return verdict(_both(frame), "ratio", below=1.0, within=POSITIVE, note=note)


@CLAIMS.add(
    "R-g",
    "On five genes the stable rank falls, rises and falls again (autism, ReLU).",
    "Fig 3",
    parts=("autism",),
    figure="fig3",
    activation="relu",
)
@CLAIMS.add(
    "R-g.leaky",
    "It does so with leaky ReLU (autism).",
    "Fig 3",
    parts=("autism",),
    figure="fig3",
    activation="leaky-relu",
)
def three_phases(frame: polars.DataFrame, activation: str) -> Finding:
    """Per seed the share of the five starts whose curve goes down, up and down, each by 1 % at least."""
    table = stable_ranks(frame).filter(polars.col("activation") == activation)
    shapes = [
        {"seed": network[1], "value": float(down_up_down(own["value"].to_numpy()))}
        for network, own in table.group_by("activation", "seed", "init", maintain_order=True)
    ]
    note = "effect: share of the starts whose curve falls, rises and falls by 1 % or more"
    return verdict(polars.DataFrame(shapes), above=0.5, within=SHARE, note=note)


@CLAIMS.add(
    "R-h",
    "From one scale of the start ReLU and leaky ReLU end at the same value, within 5 % (autism).",
    "Fig 3",
    parts=("autism",),
    figure="fig3",
)
def same_end(frame: polars.DataFrame) -> Finding:
    """Per seed the largest relative difference of both activations' ends over the five starts."""
    apart = _both(frame).with_columns(value=(polars.col("ratio") - 1).abs())
    return verdict(
        apart, over="max", below=0.05, note="effect: |ReLU/leaky ReLU − 1| at the end, largest of the starts"
    )


def down_up_down(values: np.ndarray) -> bool:
    """Whether a curve falls, then rises, then falls, by ``_TURN`` of where it turned at least.

    >>> down_up_down(np.array([3.0, 2.0, 2.5, 2.4])), down_up_down(np.array([3.0, 2.0, 2.5, 2.6]))
    (True, False)
    """
    wanted, turning = iter((-1, 1, -1)), float(values[0])
    direction = next(wanted)
    for value in values:
        if direction * (value - turning) >= _TURN * turning:
            following = next(wanted, None)
            if following is None:
                return True
            direction, turning = following, float(value)
        elif direction * (value - turning) < 0:
            turning = float(value)  # it goes on the way it went: the turn is further on
    return False


def _both(frame: polars.DataFrame) -> polars.DataFrame:
    table = polars.concat([ends(frame, activation) for activation in ("relu", "leaky-relu")])
    return compared(table, "activation", "relu", "leaky-relu", value="end", on=["seed", "init"])
