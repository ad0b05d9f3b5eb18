"""Claims: sentences of papers, tested on records.

What a verdict promises: the effect is that of the median seed, and a two-sided exact sign test over seeds gives p.
Only seeds are replicates; networks, widths, points and epochs of one seed make one number. Six seeds are the fewest
that can decide. A finding says what its claim would be alone; the ledger then judges all claims of a study together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

import numpy as np

from undertow.core.errors import InputError
from undertow.studies.kit.exact_tests import binomial_test, median_interval, share_interval, sign_test
from undertow.studies.kit.multiplicity import LEVEL

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
    "decide_share",
]

FEWEST_SEEDS = 6
SHARE, CORRELATION, POSITIVE = (0.0, 1.0), (-1.0, 1.0), (0.0, math.inf)
_ROUNDING = 1e-6
_TIE = 1e-12
Side = Literal["above", "below"]
_SIDES: tuple[Side, Side] = ("above", "below")


class Verdict(StrEnum):
    """What the records say about a claim; the last two are for checks, which nothing but a mistake can fail."""

    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "undecided"
    KEPT = "as it must be"
    VIOLATED = "violated"


@dataclass(frozen=True)
class Finding:
    """What a test says of its claim alone: the verdict with its evidence.

    ``effect`` is the median over ``n`` seeds, or the share of them (``estimand``); ``interval`` covers it with
    probability ``coverage``, or more. ``line`` is what the effect was compared with, ``side`` where of it the claim
    says that it lies: ``agree`` seeds are there, ``against`` on the other side, ``ties`` on the line itself. ``p`` is
    None where nothing could be tested. ``note`` says what the effect is, or why there is no verdict.
    """

    verdict: Verdict
    effect: float | None
    interval: tuple[float, float] | None
    n: int
    note: str = ""
    line: float | None = None
    side: Side | None = None
    p: float | None = None
    coverage: float | None = None
    agree: int = 0
    against: int = 0
    ties: int = 0
    estimand: Literal["median", "share"] = "median"

    def left_open(self, why: str) -> Finding:
        """The same evidence without a verdict, as of a limit that training has not come near: ``why`` says so."""
        return replace(self, verdict=Verdict.UNDECIDED, note=_joined(self.note, why))


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
    between: tuple[float, float] | None = None,
    within: tuple[float, float] | None = None,
    note: str = "",
) -> Finding:
    """Whether the median of one value per seed lies on the claimed side of a line, by a two-sided exact sign test.

    Where a claim is about a share of a seed's networks, the value is that share, and the median seed decides; where
    each seed has one network that does it or not, see ``decide_share``.

    Args:
        values: One number per seed. With a NaN or None among them nothing is decided: a number that is not known is
            on no side of a line, and leaving its seed out would choose among seeds.
        above: The line, where the claim says that the median is above it.
        below: The line, where the claim says that the median is below it.
        between: Two lines. Beyond one of them is enough to fail, and both tests are needed to hold, so that neither
            happens falsely more often than with one line.
        within: The range of values that can occur at all, such as ``SHARE`` or ``CORRELATION``. A value beyond it by
            more than rounding is a mistake somewhere, and nothing is decided on it.
        note: What the effect is.

    >>> decide([0.4, 0.5, 0.6, 0.5, 0.5, 0.3], above=0.0).verdict
    <Verdict.HOLDS: 'holds'>
    >>> decide([0.4, 0.5, 0.6, 0.5, 0.5, 0.3], below=0.0).verdict
    <Verdict.FAILS: 'fails'>
    >>> decide([0.4, -0.5, 0.6, -0.3, 0.1, 0.2], above=0.0).verdict
    <Verdict.UNDECIDED: 'undecided'>
    """
    if sum(line is not None for line in (above, below, between)) != 1:
        raise TypeError("decide() takes exactly one line: above=…, below=… or between=….")
    numbers = np.asarray(values, dtype=np.float64)  # None, where a network has no reading, becomes NaN
    _refuse_impossible(numbers, within)
    if above is not None:
        return _of_median(numbers, above, "above", within, note)
    if below is not None:
        return _of_median(numbers, below, "below", within, note)
    assert between is not None
    sides = [
        _of_median(numbers, line, side, within, note) for line, side in zip(between, _SIDES, strict=True)
    ]
    # Of an effect inside, the line it is less far from for sure; outside, the line it is beyond.
    return max(sides, key=lambda found: (found.against > found.agree, found.p or 0.0))


def _of_median(
    numbers: np.ndarray, line: float, side: Side, within: tuple[float, float] | None, note: str
) -> Finding:
    """Where of one line the median lies."""
    unknown = int((~np.isfinite(numbers)).sum())
    if unknown:
        why = f"{unknown} of {len(numbers)} seeds have no such number"
        return Finding(Verdict.UNDECIDED, None, None, len(numbers), _joined(note, why), line, side)
    if within:
        numbers = numbers.clip(*within)
    span = within[1] - within[0] if within and math.isfinite(within[1] - within[0]) else 0.0
    # A bound that is attained is on the line, and not beyond it by the rounding of its last digit.
    tied = np.abs(numbers - line) <= _TIE * np.maximum(np.abs(numbers), max(abs(line), span))
    ties, over = int(tied.sum()), int(((numbers > line) & ~tied).sum())
    under = len(numbers) - ties - over
    found = median_interval(numbers.tolist())
    return _found(
        Finding(
            Verdict.UNDECIDED,
            float(np.median(numbers)) if len(numbers) else None,
            found and found[:2],
            len(numbers),
            note,
            line,
            side,
            sign_test(over, under, len(numbers)),
            found and found[2],
            *((over, under) if side == "above" else (under, over)),
            ties,
        )
    )


def decide_share(
    hits: Sequence[bool | None], *, above: float | None = None, below: float | None = None, note: str = ""
) -> Finding:
    """Whether the share of seeds that do something lies on the claimed side of a line, by the exact binomial test.

    One yes or no per seed, since only seeds are replicates. Of several networks of a seed either all must do it for
    a yes, or their share is a number per seed, for ``decide``. The interval is that of Clopper and Pearson.

    >>> found = decide_share([True] * 10, above=0.5)
    >>> found.verdict, found.effect, round(found.interval[0], 3)
    (<Verdict.HOLDS: 'holds'>, 1.0, 0.692)
    """
    if (above is None) == (below is None):
        raise TypeError("decide_share() takes exactly one line: above=… or below=….")
    line = above if above is not None else below
    assert line is not None
    side: Side = "above" if above is not None else "below"
    n, unknown = len(hits), sum(hit is None or hit != hit for hit in hits)  # NaN is no answer either
    if unknown or not n:
        why = f"{unknown} of {n} seeds have no answer" if n else ""
        return _found(
            Finding(Verdict.UNDECIDED, None, None, n, _joined(note, why), line, side, estimand="share")
        )
    yes = sum(map(bool, hits))
    p = binomial_test(yes, n, line)
    agree = yes if side == "above" else n - yes
    counts = {"agree": agree, "against": n - agree}
    return _found(
        Finding(
            Verdict.UNDECIDED,
            yes / n,
            share_interval(yes, n),
            n,
            note,
            line,
            side,
            p,
            0.95,
            **counts,
            estimand="share",
        )
    )


def _found(finding: Finding) -> Finding:
    """The finding with its verdict; too few seeds have no p."""
    n, p, effect, line = finding.n, finding.p, finding.effect, finding.line
    if n < FEWEST_SEEDS:
        seeds = "1 seed is" if n == 1 else f"{n} seeds are"
        why = f"{seeds} too few, {FEWEST_SEEDS} are needed"
        return replace(finding, p=None, note=_joined(finding.note, why))
    if p is None or effect is None or line is None or p > LEVEL:
        return finding
    there = effect > line if finding.side == "above" else effect < line
    return replace(finding, verdict=Verdict.HOLDS if there else Verdict.FAILS)


def _refuse_impossible(numbers: np.ndarray, within: tuple[float, float] | None) -> None:
    if within is None:
        return
    outside = (numbers < within[0] - _ROUNDING) | (numbers > within[1] + _ROUNDING)
    impossible = numbers[outside & np.isfinite(numbers)]
    if len(impossible):
        raise InputError(
            f"{impossible[0]:.4g} cannot be: it must lie between {within[0]:g} and {within[1]:g}"
        )


def _joined(*notes: str) -> str:
    return "; ".join(filter(None, notes))
