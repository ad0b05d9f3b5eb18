"""Tables of the grid: one factor of Theorem 4.5 over training, and what became of each network."""

from __future__ import annotations

from typing import Any

import polars

from undertow.core.errors import InputError
from undertow.studies.co_correlation.setting import EPS, LARGEST_Q, SEAM
from undertow.studies.kit.readings import before_and_after, curves

__all__ = ["LARGEST", "NAMES", "NARROW", "NETWORK", "WIDE", "chosen", "outcomes", "trajectories"]

NETWORK = ("activation", "width", "q", "seed")
"""The columns that name one network of the grid."""
NAMES = {"linear": "linear networks", "relu": "ReLU networks"}
NARROW = 32
"""Networks up to this width are the paper's narrow ones (§6.1: 2⁴ and 2⁵)."""
WIDE = polars.col("width") > NARROW
LARGEST = (polars.col("q") - LARGEST_Q).abs() < 1e-9


def trajectories(frame: polars.DataFrame, key: str) -> polars.DataFrame:
    """One factor at the seam over training: the network's columns, epoch, value."""
    return curves(frame, "collaboration", f"{SEAM}:{key}", by=NETWORK, what=key)


def outcomes(frame: polars.DataFrame) -> polars.DataFrame:
    """One row per network that was trained to the end.

    Columns: the network's, ``start`` and ``end`` (co-correlation before and after training), ``rise`` = end − start,
    ``energy`` S(f), ``accuracy``, ``robust`` (null where not attacked).
    """
    column = polars.col
    last: Any = frame["epoch"].max()
    finished = frame.filter(column("epoch") == last)
    table = before_and_after(trajectories(frame, "co_correlation"), by=NETWORK, last=last)
    readings = {
        "energy": (column("measure") == "collaboration") & (column("key") == f"{SEAM}:energy"),
        "accuracy": column("measure") == "accuracy",
        "robust": (column("measure") == "robust-accuracy") & (column("key") == repr(EPS)),
    }
    for name, rows in readings.items():
        found = finished.filter(rows).select(*NETWORK, column("value").alias(name))
        table = table.join(found, on=NETWORK, how="left")
    return table.drop_nulls(["start", "end", "accuracy"]).sort(NETWORK)


def chosen(table: polars.DataFrame, *conditions: polars.Expr, activation: str) -> polars.DataFrame:
    """The networks of one activation, under further conditions such as ``LARGEST`` (q = 0.25) and ``WIDE``."""
    rows = table.filter(polars.col("activation") == activation, *conditions)
    if rows.is_empty():
        q = ", q = 0.25" if any(each is LARGEST for each in conditions) else ""
        raise InputError(f"no record of such networks: {activation}{q}")
    return rows
