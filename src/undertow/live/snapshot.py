"""What the page shows of a folder's state, as plain data."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from undertow.live.pace import time_left
from undertow.store.failures import Failure
from undertow.store.followed_trials import STATES
from undertow.store.following import Follower
from undertow.store.progress import Progress

__all__ = ["snapshot"]

_MOST_FAILURES = 50


def snapshot(follower: Follower) -> dict[str, Any]:
    """All that the page's head shows, as plain data."""
    everything: dict[str, str] = {}
    parts = []
    for part in follower.parts.values():
        states = follower.states(part)
        everything |= states
        counts = Counter(states.values())
        parts.append(
            {
                "label": part.label,
                "study": part.study,
                "variant": part.variant,
                "scale": part.scale,
                "part": part.part,
                "seed_set": part.seed_set,
                "trials": len(states),
                "counts": {state: counts[state] for state in STATES},
                "axes": part.axes,
                "ordered": part.ordered,
                "measures": follower.measures.get(part.label, []),
            }
        )
    counts = Counter(everything.values())
    waiting = {trial for trial, state in everything.items() if state == "waiting"}
    left = time_left(follower.parts.values(), follower.done, follower.running, waiting)
    return {
        "folder": str(follower.folder.path),
        "trials": len(everything),
        "counts": {state: counts[state] for state in STATES},
        "left": {"seconds": left.seconds, "basis": left.basis},
        "parts": parts,
        "groups": [_group(follower, each) for each in follower.running.values()],
        "failures": [_failure(follower, each) for each in list(follower.failures.values())[:_MOST_FAILURES]],
    }


def _group(follower: Follower, group: Progress) -> dict[str, Any]:
    return {
        "group": group.group,
        "labels": follower.labels(group.trials),
        "shared": _shared(follower, group.trials),
        "trials": len(group.trials),
        "step": group.step,
        "steps": group.steps,
        "rate": group.rate,
        "left": group.seconds_left,
        "silent": max(0.0, time.time() - group.time),
        "host": group.host,
        "pid": group.pid,
    }


def _failure(follower: Follower, failure: Failure) -> dict[str, Any]:
    return {
        "group": failure.group,
        "labels": follower.labels(failure.trials),
        "trials": len(failure.trials),
        "sentence": failure.sentence,
    }


def _shared(follower: Follower, trials: tuple[str, ...]) -> dict[str, Any]:
    """The places in the grid that a group's trials have in common."""
    for part in follower.parts.values():
        columns = [part.trials[trial] for trial in trials if trial in part.trials]
        if columns:
            axes = part.axes
            return {
                name: value
                for name, value in columns[0].items()
                if name in axes and all(each.get(name) == value for each in columns)
            }
    return {}
