"""What stands above a figure: one light line at its left, which says of what it is a mean."""

from __future__ import annotations

from collections.abc import Iterable

import altair

__all__ = ["mean_of_seeds", "small_title"]


def small_title(text: str | list[str]) -> altair.Title:
    """A title of one line, or of several."""
    return altair.Title(text, anchor="start", fontWeight="normal", fontSize=11, offset=8)


def mean_of_seeds(counts: Iterable[int], *, band: bool = True) -> str:
    """Of how many seeds what is drawn is a mean, where its parts may have different numbers of them.

    >>> mean_of_seeds([5, 5]), mean_of_seeds([10, 20], band=False), mean_of_seeds([1])
    ('mean of 5 seeds, band: smallest to largest', 'mean of 10 to 20 seeds', 'one seed')
    """
    numbers = sorted(set(counts))
    if numbers[-1] == 1:
        return "one seed"
    text = f"mean of {' to '.join(map(str, [*numbers[:1], *numbers[1:][-1:]]))} seeds"
    return f"{text}, band: smallest to largest" if band else text
