"""Claims: sentences of papers, tested on records.

A verdict is *holds*, *fails* or *undecided*, with the evidence: the effect (a mean over seeds), its 95 %
bootstrap interval and the number of seeds. Where the interval straddles the line, or the seeds are too few
for one, the verdict is undecided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

import numpy as np

from undertow.errors import InputError
from undertow.studies.bootstrap import mean_interval

if TYPE_CHECKING:
    import polars

__all__ = [
    "CORRELATION",
    "FEWEST_SEEDS",
    "POSITIVE",
    "SHARE",
    "Claim",
    "Finding",
    "Verdict",
    "decide",
]

FEWEST_SEEDS = 5
SHARE, CORRELATION, POSITIVE = (0.0, 1.0), (-1.0, 1.0), (0.0, math.inf)
_ROUNDING = 1e-6


class Verdict(StrEnum):
    """What the records say about a claim."""

    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Finding:
    """A verdict with its evidence; ``note`` says what the effect is, or why there is no verdict.

    ``line`` is what the effect was compared with, and ``side`` where of it the claim says that the effect lies.
    """

    verdict: Verdict
    effect: float | None
    interval: tuple[float, float] | None
    n: int
    note: str = ""
    line: float | None = None
    side: Literal["above", "below"] | None = None


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper, its place there, and a test on the records of one variant of a study.

    The test sees the records of ``parts`` alone; ``figure`` names the figure that shows it. ``check`` says why the
    claim cannot fail unless something is broken (it is true by construction, or chance alone keeps it): it is then
    apart from the count of verdicts. ``hindsight`` says so where the line was drawn after its records were looked at.
    """

    id: str
    text: str
    source: str
    test: Callable[[polars.DataFrame], Finding]
    parts: tuple[str, ...] = ("main",)
    figure: str | None = None
    check: str | bool = False
    hindsight: str = ""


def decide(
    values: Sequence[float | None],
    *,
    above: float | None = None,
    below: float | None = None,
    within: tuple[float, float] | None = None,
    note: str = "",
) -> Finding:
    """Whether the mean of one value per seed lies on the claimed side of a line.

    ``within`` is the range of values that can occur at all, such as ``SHARE`` or ``CORRELATION``: the bootstrap does
    not know of it. A value beyond it by more than rounding is a mistake somewhere, and nothing is decided on it.

    >>> decide([0.4, 0.5, 0.6, 0.5, 0.5], above=0.0).verdict
    <Verdict.HOLDS: 'holds'>
    >>> decide([0.4, 0.5, 0.6, 0.5, 0.5], below=0.0).verdict
    <Verdict.FAILS: 'fails'>
    >>> decide([0.4, -0.5, 0.6, -0.3, 0.1], above=0.0).verdict
    <Verdict.UNDECIDED: 'undecided'>
    """
    if (above is None) == (below is None):
        raise TypeError("decide() takes exactly one line: above=… or below=….")
    line = above if above is not None else below
    assert line is not None
    side: Literal["above", "below"] = "above" if above is not None else "below"
    numbers = np.asarray(values, dtype=np.float64)  # None, where a network has no reading, becomes NaN
    if within:
        outside = (numbers < within[0] - _ROUNDING) | (numbers > within[1] + _ROUNDING)
        impossible = numbers[outside & np.isfinite(numbers)]
        if len(impossible):
            raise InputError(
                f"{impossible[0]:.4g} cannot be: it must lie between {within[0]:g} and {within[1]:g}"
            )
    interval = mean_interval(values)
    if interval and within:
        interval = max(interval[0], within[0]), min(interval[1], within[1])
    effect = float(numbers.mean()) if len(values) and np.isfinite(numbers).all() else None
    if len(values) < FEWEST_SEEDS or interval is None:
        seeds = "1 seed is" if len(values) == 1 else f"{len(values)} seeds are"
        few = f"{seeds} too few, {FEWEST_SEEDS} are needed"
        why = few if len(values) < FEWEST_SEEDS else "not every seed has such a number"
        notes = "; ".join(filter(None, (note, why)))
        return Finding(Verdict.UNDECIDED, effect, interval, len(values), notes, line, side)
    low, high = interval
    beyond, short = (low > line, high < line) if side == "above" else (high < line, low > line)
    # A value exactly on the line (a bound that is attained) is on neither side.
    verdict = Verdict.HOLDS if beyond else Verdict.FAILS if short else Verdict.UNDECIDED
    return Finding(verdict, effect, interval, len(values), note, line, side)
