"""The seam profile of one network within a time: of as many seams, and then of as many samples, as it allows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

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
    begun = time.perf_counter()
    attempts = _Attempts(net, given, rtol, begun + seconds, say)
    names = tuple(seams)
    with suppress(TimeUp), Deadline(seconds):
        few = given.part(slice(0, _FEW))
        names = names or tuple(seams_of(net, few.x, **few.options))
    middle = names[len(names) // 2 :][:1]
    profile, took = attempts.one(middle, _FEW, begun + at_most) if names else (None, 1.0)
    if profile is None:
        return None, [
            f"No seams: one of them on {_FEW} samples takes longer than --seconds allows. Give more, or name one near "
            "the input with --seam."
        ]
    notes: list[str] = []
    if len(names) > 1:
        profile, took = attempts.over_seams(names, profile, took, notes)
    return attempts.over_samples(profile, took, notes), notes


@dataclass(frozen=True)
class _Attempts:
    """Profiles of one network, each of which must come to an end by ``end``."""

    net: nn.Module
    given: Samples
    rtol: float
    end: float
    say: Say

    def one(
        self, names: Sequence[str], samples: int, until: float | None = None
    ) -> tuple[SeamProfileResult | None, float]:
        """The profile of these seams, None where time was up, and what it took."""
        begun, found = time.perf_counter(), None
        with suppress(TimeUp), Deadline((self.end if until is None else until) - begun):
            few = self.given.part(slice(0, samples))
            found = seam_profile(self.net, few.x, seams=names, rtol=self.rtol, **few.options)
        return found, max(time.perf_counter() - begun, 1e-6)

    def over_seams(
        self, names: Sequence[str], one: SeamProfileResult, took: float, notes: list[str]
    ) -> tuple[SeamProfileResult, float]:
        """Of as many seams as there is room for, where one took so long."""
        chosen = spread(names, max(1, int(self._room() / took)))
        self.say(
            f"seams: one took {took:.2g} s on {_FEW} samples; {len(chosen)} of {len(names)} are measured."
        )
        if len(chosen) < len(names):
            notes.append(
                f"{len(chosen)} of {len(names)} seams, evenly spread: all of them would take longer than --seconds "
                "allows. --seam names others."
            )
        if len(chosen) == 1:
            return one, took
        several, took = self.one(chosen, _FEW)
        return several or one, took

    def over_samples(self, profile: SeamProfileResult, took: float, notes: list[str]) -> SeamProfileResult:
        """Of as many samples as there is room for, where the profile of few took so long."""
        everyone = len(self.given)
        each = took / (2 * profile.samples)
        while profile.samples < everyone:
            more = min(everyone, profile.samples + int((self._room() - took) / each))
            if more < min(2 * profile.samples, everyone):
                break
            self.say(
                f"seams: {profile.samples} of {everyone} samples took {took:.2g} s; {more} are measured."
            )
            larger, longer = self.one(profile.seams, more)
            if larger is None:
                break
            each = max((longer - took) / (more - profile.samples), longer / (10 * more))
            profile, took = larger, longer
        if profile.samples < everyone:
            notes.append(
                f"Seams are on {profile.samples} of {everyone} samples: more would take longer than --seconds allows."
            )
        return profile

    def _room(self) -> float:
        return _SURE * (self.end - time.perf_counter())


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
