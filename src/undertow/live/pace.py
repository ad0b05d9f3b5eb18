"""How long a sweep will still take, judged by nothing but what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from undertow.store.followed_trials import Done, StudyPart
from undertow.store.progress import Progress

__all__ = ["Estimate", "time_left"]


@dataclass(frozen=True)
class Estimate:
    """Seconds left, or None where nothing measured supports a number; ``basis`` says what it rests on."""

    seconds: float | None
    basis: str


def time_left(
    parts: Iterable[StudyPart], done: Mapping[str, Done], running: Mapping[str, Progress], waiting: set[str]
) -> Estimate:
    """The running groups at their own pace; the waiting trials at that of trials like them.

    Like a trial are those that differ from it in their seed alone; where none has run, all of its part
    count. A group too young to have a pace counts as waiting. What comes after a group's last step is judged by
    the share that it had of the time of the trials of its part. Groups run side by side, as many as do now, and the
    last one is waited for.
    """
    parts = list(parts)
    if not running:
        over = all(
            trial in done and done[trial].status != "damaged" for each in parts for trial in each.trials
        )
        return Estimate(None, "all is done" if over else "nothing is running")
    endings = {each.group: _ending(parts, done, each) for each in running.values()}
    known = [left for each in running.values() if (left := _left(each, endings[each.group])) is not None]
    young = {trial for each in running.values() if each.seconds_left is None for trial in each.trials}
    expected, judges, unknown = _expected(parts, _costs(done, running, endings), waiting | young)
    if unknown:
        return Estimate(None, f"no trial like {unknown:,} of those waiting has run yet")
    seconds = max(max(known, default=0.0), (sum(known) + expected) / len(running))
    sources = [_many(len(known), "running group")] if known else []
    sources += [_many(judges, "trial")] if judges else []
    uncounted = ", last measurements not counted" if known and None in endings.values() else ""
    return Estimate(seconds, f"from the pace of {' and '.join(sources)}{uncounted}")


def _ending(parts: Iterable[StudyPart], done: Mapping[str, Done], group: Progress) -> float | None:
    """Time after the last step over time before it, of the trials of the group's part; None where none has ended."""
    here = (part.trials for part in parts if not part.trials.keys().isdisjoint(group.trials))
    ended = [done[trial] for trials in here for trial in trials if trial in done]
    timed = [(each.seconds, each.ending) for each in ended if each.seconds and each.ending is not None]
    whole, after = sum(seconds for seconds, _ in timed), sum(ending for _, ending in timed)
    return after / (whole - after) if whole > after else None


def _left(group: Progress, ending: float | None) -> float | None:
    """The rest of the steps, and the end that follows the last of them."""
    steps_left = group.seconds_left
    if steps_left is None or not group.rate or group.step >= group.steps:
        return steps_left
    return steps_left + (ending or 0.0) * group.steps / group.rate


def _costs(
    done: Mapping[str, Done], running: Mapping[str, Progress], endings: Mapping[str, float | None]
) -> dict[str, float]:
    """Seconds that each trial took, or is going to take at its group's pace."""
    costs = {trial: each.seconds for trial, each in done.items() if each.seconds is not None}
    for each in running.values():
        if each.rate:
            whole = each.steps / each.rate * (1 + (endings[each.group] or 0.0))
            costs |= dict.fromkeys(each.trials, whole / len(each.trials))
    return costs


def _expected(
    parts: Iterable[StudyPart], costs: Mapping[str, float], waiting: set[str]
) -> tuple[float, int, int]:
    """Seconds of the waiting trials in all, how many trials they are judged by, and how many remain unknown."""
    left = set(waiting)
    seconds, judges = 0.0, 0
    for part in parts:
        here = [trial for trial in part.trials if trial in left]
        by_kind: dict[str, list[float]] = {}
        for trial, columns in part.trials.items() if here else ():
            if trial in costs:
                by_kind.setdefault(_kind(columns), []).append(costs[trial])
        if not by_kind:
            continue
        measured = [cost for kind in by_kind.values() for cost in kind]
        overall, means = fmean(measured), {kind: fmean(costs) for kind, costs in by_kind.items()}
        seconds += sum(means.get(_kind(part.trials[trial]), overall) for trial in here)
        judges += len(measured)
        left.difference_update(here)
    return seconds, judges, len(left)


def _kind(columns: Mapping[str, Any]) -> str:
    return repr({name: value for name, value in columns.items() if name != "seed"})


def _many(count: int, word: str) -> str:
    return f"{count:,} {word}" + ("" if count == 1 else "s")
