"""Records of the measure ``growth`` as tables: one row per network and moment, and what is fitted to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from undertow.core.errors import InputError
from undertow.studies.co_correlation.grid import NETWORK

if TYPE_CHECKING:
    import polars

__all__ = ["Network", "exponent", "networks", "rates", "slack_exponents"]


def rates(frame: polars.DataFrame, activations: Sequence[str] | None = None) -> polars.DataFrame:
    """One row per network and step, one column per key of the measure; of some activations, or of all."""
    import polars

    chosen = frame.filter(polars.col("measure") == "growth")
    if activations is not None:
        chosen = chosen.filter(polars.col("activation").is_in(list(activations)))
    if chosen.is_empty():
        raise InputError("no record of the growth of co-correlation")
    return chosen.pivot("key", index=[*NETWORK, "step"], values="value").sort(*NETWORK, "step")


@dataclass(frozen=True)
class Network:
    """One network's training as a whole: means over its flow time s, up to the end S.

    ``growth`` is ln(ϱ(S)/ϱ(0))/S; ``explained`` the mean of the exact rate, ``dropped`` that of the terms of Ḋ;
    ``drive`` the mean of main·norm, the main term without its 1/norm; ``norm`` the geometric mean of ‖W‖₂², or of
    E‖DW‖₂².
    """

    activation: str
    width: int
    q: float
    seed: int
    growth: float
    explained: float
    dropped: float
    drive: float
    norm: float

    @property
    def has_speed(self) -> bool:
        """Whether the growth has a logarithm, per unit of drive too."""
        return self.growth > 0 and self.drive > 0


def networks(table: polars.DataFrame) -> list[Network]:
    """Every network of a table of rates, as a whole."""
    found = []
    for one in table.partition_by(NETWORK, maintain_order=True):
        time = one["flow_time"].to_numpy()
        rho = one["co_correlation"].to_numpy()

        def mean(values: polars.Series, time: NDArray[np.float64] = time) -> float:
            return float(np.trapezoid(values.to_numpy(), time) / time[-1])

        found.append(
            Network(
                **one.select(NETWORK).row(0, named=True),
                growth=math.log(rho[-1] / rho[0]) / time[-1],
                explained=mean(one["exact"]),
                dropped=mean(one["dropped"]),
                drive=mean(one["main"] * one["norm"]),
                norm=math.exp(mean(one["norm"].log())),
            )
        )
    return found


def exponent(of: Sequence[Network], *, per_drive: bool) -> float:
    """p in growth ∝ norm^p, or in growth ∝ drive·norm^p, by least squares of logarithms; NaN for fewer than two.

    A network that did not grow has no logarithm and is left out.
    """
    used = [each for each in of if each.has_speed]
    if len({each.norm for each in used}) < 2:
        return math.nan
    speed = [math.log(each.growth / (each.drive if per_drive else 1.0)) for each in used]
    return float(np.polyfit([math.log(each.norm) for each in used], speed, 1)[0])


def slack_exponents(table: polars.DataFrame, terms: Sequence[str]) -> polars.DataFrame:
    """How the sum of some terms goes with m: columns activation, q, seed and ``exponent``.

    The root mean square of that sum over the readings after the first step, fitted by m^exponent.
    """
    import polars

    column = polars.col
    size = polars.sum_horizontal(*terms).pow(2).mean().sqrt().log()
    return (
        table.filter(column("step") > 0)
        .group_by(NETWORK, maintain_order=True)
        .agg(size=size, log_width=column("width").first().log())
        .group_by("activation", "q", "seed")
        .agg(exponent=polars.cov("log_width", "size") / column("log_width").var())
        .sort("activation", "q", "seed")
    )
