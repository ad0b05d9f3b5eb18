"""The numbers that papers printed, and ours beside them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from undertow.core.errors import InputError

if TYPE_CHECKING:
    from undertow.studies.kit.reproduction import Reproduction

__all__ = ["PrintedNumber", "in_words", "printed_numbers"]


@dataclass(frozen=True)
class PrintedNumber:
    """A number as a paper has it, where, and what ours is in words."""

    what: str
    printed: str
    source: str
    ours: str


def printed_numbers(reproduction: Reproduction) -> tuple[PrintedNumber, ...]:
    """Every printed number of the study whose parts were begun, with ours from the records that are there."""
    found = []
    for number in reproduction.study.published:
        frame = reproduction.frame(number.parts, so_far=number.so_far)
        if reproduction.begun(number.parts) and not frame.is_empty():
            try:
                ours = in_words(number.ours(frame))
            except InputError as error:
                ours = str(error)
            found.append(PrintedNumber(number.what, number.printed, number.source, ours))
    return tuple(found)


def in_words(values: Sequence[float | None]) -> str:
    """Mean over seeds, from the smallest to the largest.

    >>> in_words([0.25, 0.27]), in_words([0.5]), in_words([0.5, None])
    ('0.26 (0.25 … 0.27)', '0.5', 'unknown in 1 of 2 seeds')
    """
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known or len(known) < len(values):
        return f"unknown in {len(values) - len(known)} of {len(values)} seeds"
    mean = f"{statistics.fmean(known):.3g}"
    return mean if len(known) == 1 else f"{mean} ({min(known):.3g} … {max(known):.3g})"
