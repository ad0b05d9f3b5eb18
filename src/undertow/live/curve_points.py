"""Curves over training of one measure, of all trials of a part, sent piece by piece as they grow."""

from __future__ import annotations

import json
import math
import re
import uuid
from array import array
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

from undertow.core.canonical import digest
from undertow.measures.bounds import sign_of_bound
from undertow.store.folder import Growing
from undertow.store.following import Follower
from undertow.store.record_files import are_of

__all__ = ["Curves", "Selection"]

_MOST_CURVES = 1500
_MOST_POINTS = 60_000
_FEWEST_PER_CURVE, _MOST_PER_CURVE = 40, 500


@dataclass(frozen=True)
class Selection:
    """What is drawn: one measure's key, of one part of a study."""

    label: str
    measure: str
    key: str

    @property
    def pattern(self) -> re.Pattern[bytes]:
        """Finds trial, step, value and whether there is no error in lines of records, whose columns have one order.

        >>> line = b'{"trial":"0a","step":3,"epoch":1,"measure":"loss","key":"","value":0.5,"error":null}'
        >>> Selection("s", "loss", "").pattern.findall(line)
        [(b'0a', b'3', b'0.5', b'null')]
        """
        what = f'"measure":{_quoted(self.measure)},"key":{_quoted(self.key)},'.encode()
        before = rb'^\{"trial":"([^"]*)","step":(\d+),"epoch":\d+,'
        return re.compile(before + re.escape(what) + rb'"value":"?([^",]+)"?,"error":(null)?', re.MULTILINE)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


@dataclass
class _Curve:
    """One trial's points, with the revision in which each was added."""

    steps: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))
    added: array[int] = field(default_factory=lambda: array("q"))
    begun: int = 0
    whole: bool = False

    def add(self, step: int, value: float, revision: int) -> None:
        self.steps.append(step)
        self.values.append(value)
        self.added.append(revision)


class Curves:
    """The curves of one selection; ``update`` reads what is new, ``since`` gives what a page has not seen."""

    def __init__(self, selection: Selection, follower: Follower) -> None:
        self._selection, self._follower = selection, follower
        self._pattern = selection.pattern
        self._curves: dict[str, _Curve] = {}
        self._growing: dict[str, Growing] = {}
        self._errors_unknown = False
        self.revision = 0
        self.name = uuid.uuid4().hex[:8]
        """Of these curves in memory: revisions of others, also of an earlier server's, mean nothing here."""

    def update(self) -> None:
        """Read finished trials once, and what running groups have written since."""
        part = self._follower.parts.get(self._selection.label)
        if part is None:
            return
        self.revision += 1
        trials = list(part.trials)[:_MOST_CURVES]
        most = max(_FEWEST_PER_CURVE, min(_MOST_PER_CURVE, _MOST_POINTS // max(len(trials), 1)))
        for trial in trials:
            known = self._curves.get(trial)
            if trial in self._follower.done and not (known and known.whole):
                self._curves[trial] = self._read_whole(trial, most)
            elif known and known.whole and trial not in self._follower.done:
                del self._curves[trial]  # set aside as damaged: it will be computed again
        drawn = set(trials)
        for group, progress in list(self._follower.running.items()):
            if drawn.isdisjoint(progress.trials):
                continue
            growing = self._growing.setdefault(
                group, Growing(self._follower.folder, "work", group, "live.jsonl")
            )
            self._extend(*growing.more(), trials=progress.trials, drawn=drawn)
        self._growing = {g: each for g, each in self._growing.items() if g in self._follower.running}

    def since(self, revision: int) -> dict[str, Any]:
        """Points added after a revision, for JSON; a curve that is new or began anew is sent from its start.

        ``sign`` stands before every value, where they are bounds of unknown error.
        """
        part = self._follower.parts.get(self._selection.label)
        found: list[dict[str, Any]] = []
        for trial, curve in self._curves.items():
            anew = curve.begun > revision
            first = 0 if anew else bisect_right(curve.added, revision)
            if first < len(curve.steps) or anew:
                steps, values = curve.steps[first:], curve.values[first:]
                if anew:
                    steps, values = _thinned(steps, values, _MOST_PER_CURVE)
                found.append(
                    {
                        "trial": trial,
                        "anew": anew,
                        "whole": curve.whole,
                        "step": list(steps),
                        "value": [_shown(v) for v in values],
                    }
                )
        selection = self._selection
        sign = sign_of_bound(selection.measure, selection.key) if self._errors_unknown else ""
        answer: dict[str, Any] = {"revision": self.revision, "curves": found, "sign": sign}
        if part is not None and revision == 0:
            answer["trials"] = {trial: part.trials[trial] for trial in self._curves}
            answer["left_out"] = max(0, len(part.trials) - _MOST_CURVES)
        elif part is not None:
            answer["trials"] = {each["trial"]: part.trials[each["trial"]] for each in found if each["anew"]}
        return answer

    def _read_whole(self, trial: str, most: int) -> _Curve:
        curve = _Curve(begun=self.revision, whole=True)
        data = self._follower.folder.read("trials", trial, "records.jsonl") or b""
        if digest(data) != self._follower.done[trial].records or not are_of(data, trial):
            return curve  # damaged, or another trial's: better no curve than a wrong one
        found = self._found_in(data)
        steps = array("q", (int(step) for _, step, _, _ in found))
        values = array("d", (float(value) for _, _, value, _ in found))
        curve.steps, curve.values = _thinned(steps, values, most)
        curve.added = array("q", [self.revision]) * len(curve.steps)
        return curve

    def _extend(self, data: bytes, anew: bool, *, trials: tuple[str, ...], drawn: set[str]) -> None:
        if anew:
            for trial in trials:
                if trial in drawn and not (trial in self._curves and self._curves[trial].whole):
                    self._curves[trial] = _Curve(begun=self.revision)
        for name, step, value, _ in self._found_in(data):
            curve = self._curves.get(name.decode())
            if curve is not None and not curve.whole:
                curve.add(int(step), float(value), self.revision)

    def _found_in(self, data: bytes) -> list[tuple[bytes, bytes, bytes, bytes]]:
        found = self._pattern.findall(data)
        if found:  # a measure gives an error with every reading of a key, or with none
            self._errors_unknown = bool(found[0][3])
        return found


def _thinned(steps: array[int], values: array[float], most: int) -> tuple[array[int], array[float]]:
    """At most about ``most`` points, evenly many between each two, the first and the last among them."""
    if len(steps) <= most:
        return steps, values
    stride = math.ceil((len(steps) - 1) / (most - 1))
    last = len(steps) - 1
    places = [*range(0, last, stride), last]
    return array("q", (steps[i] for i in places)), array("d", (values[i] for i in places))


def _shown(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None
