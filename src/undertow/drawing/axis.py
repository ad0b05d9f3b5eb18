"""How an axis of a figure is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import altair
import polars

__all__ = ["Axis"]

_FEW = 10


@dataclass(frozen=True)
class Axis:
    """An axis: its title, linear or logarithmic, where its ticks are, what range it has.

    ``ticks`` are values, or "data" for a tick at every value that there is. ``form`` is a format of d3: "+.1%". Beyond
    ``domain`` values are drawn at its ends. ``zero`` makes 0 part of the range; ``tight`` ends it at the data.
    """

    title: str | None = None
    log: bool = False
    ticks: Sequence[float] | Literal["data"] = ()
    form: str | None = None
    domain: tuple[float, float] | None = None
    zero: bool = False
    tight: bool = False

    def channel(self, kind: type[Any], field: str, values: polars.Series) -> Any:
        """The axis as ``altair.X`` or ``altair.Y`` of a field that has these values."""
        return kind(f"{field}:Q", title=self.title, scale=self._scale(), axis=self._labels(values))

    def _scale(self) -> altair.Scale:
        options: dict[str, Any] = {"type": "log"} if self.log else {}
        if self.domain:
            return altair.Scale(domain=list(self.domain), clamp=True, **options)
        if self.log:
            return altair.Scale(nice=False, padding=0 if self.tight else 8, **options)
        return altair.Scale(zero=self.zero, nice=False if self.tight else altair.Undefined)

    def _labels(self, values: polars.Series) -> altair.Axis:
        options: dict[str, Any] = {"format": self.form} if self.form else {}
        if len(self.ticks):
            every = values.unique().sort().to_list() if self.ticks == "data" else list(self.ticks)
            # Without commas, and the last one not pushed inward: 4096 and 8192 would run into each other.
            return altair.Axis(values=every, labelFlush=False, **{"format": "~r", **options})
        if values.dtype.is_integer() and not self.log:
            options = {"format": "d", **_whole(values), **options}
        return altair.Axis(labelSeparation=8, **options)


def _whole(values: polars.Series) -> dict[str, Any]:
    """No tick at half an epoch: of few whole numbers each is one, which a smallest step alone does not bring about.

    >>> _whole(polars.Series([0, 2])), _whole(polars.Series([0, 500]))
    ({'values': [0, 1, 2]}, {'tickMinStep': 1})
    """
    ends = values.drop_nulls().unique().sort()
    if len(ends) and ends[-1] - ends[0] <= _FEW:
        return {"values": list(range(ends[0], ends[-1] + 1))}
    return {"tickMinStep": 1}
