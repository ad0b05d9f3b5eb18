"""The seam profile of one network within a time: of as many seams, and then of as many samples, as it allows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from torch import nn

from undertow.cli.samples import Samples
from undertow.core.deadline import Deadline, TimeUp
from undertow.jacobian.seams import seams as seams_of
from undertow.measures.seam_profile import SeamProfileResult, seam_profile

__all__ = ["Say", "profile_within"]

Say = Callable[[str], None]
_FEW = 2  # samples that tell what the others will take
_SURE = 0.8  # of the time that is left is planned for


def profile_within(
    net: nn.Module,
    given: Samples,
    seams: Sequence[str],
    rtol: float,
    *,
    seconds: float,
    at_most: float,
    say: Say,
) -> tuple[SeamProfileResult | None, list[str]]:
    """The profile and sentences about what it leaves out; None where not even one seam was to be had in the time.

    One seam of two samples tells what all seams of two will take at most, and these what more samples will, where half
    of the time is taken to be what any number takes, until it is known. The first seam may take ``at_most`` so long.
    """
    first = time.perf_counter()
    end = first + seconds
    notes: list[str] = []

    def attempt(
        names: Sequence[str], samples: int, until: float = end
    ) -> tuple[SeamProfileResult | None, float]:
        begun, found = time.perf_counter(), None
        with suppress(TimeUp), Deadline(until - begun):
            few = given.part(slice(0, samples))
            found = seam_profile(net, few.x, seams=names, rtol=rtol, **few.options)
        return found, max(time.perf_counter() - begun, 1e-6)

    def room() -> float:
        return _SURE * (end - time.perf_counter())

    names = tuple(seams)
    with suppress(TimeUp), Deadline(seconds):
        few = given.part(slice(0, _FEW))
        names = names or tuple(seams_of(net, few.x, **few.options))
    profile, took = attempt(names[len(names) // 2 :][:1], _FEW, first + at_most) if names else (None, 1.0)
    if profile is None:
        return None, [
            f"No seams: one of them on {_FEW} samples takes longer than --seconds allows. Give more, or name one near "
            "the input with --seam."
        ]
    if len(names) > 1:
        chosen = spread(names, max(1, int(room() / took)))
        say(f"seams: one took {took:.2g} s on {_FEW} samples; {len(chosen)} of {len(names)} are measured.")
        if len(chosen) < len(names):
            notes.append(
                f"{len(chosen)} of {len(names)} seams, evenly spread: all of them would take longer than --seconds "
                "allows. --seam names others."
            )
        if len(chosen) > 1:
            several, took = attempt(chosen, _FEW)
            profile = several or profile
    each = took / (2 * profile.samples)
    while profile.samples < len(given):
        more = min(len(given), profile.samples + int((room() - took) / each))
        if more < min(2 * profile.samples, len(given)):
            break
        say(f"seams: {profile.samples} of {len(given)} samples took {took:.2g} s; {more} are measured.")
        larger, longer = attempt(profile.seams, more)
        if larger is None:
            break
        each = max((longer - took) / (more - profile.samples), longer / (10 * more))
        profile, took = larger, longer
    if profile.samples < len(given):
        notes.append(
            f"Seams are on {profile.samples} of {len(given)} samples: more would take longer than --seconds allows."
        )
    return profile, notes


def spread(names: Sequence[str], count: int) -> list[str]:
    """So many of the names, evenly from the first to the last; one is the middle one.

    >>> spread("abcdefg", 3), spread("abcdefg", 1), spread("abc", 9)
    (['a', 'd', 'g'], ['d'], ['a', 'b', 'c'])
    """
    if count >= len(names):
        return list(names)
    if count == 1:
        return [names[len(names) // 2]]
    return [names[round(place * (len(names) - 1) / (count - 1))] for place in range(count)]
