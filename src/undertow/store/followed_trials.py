"""What a store's files say about its trials, without the packages that train them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from undertow.config.study_names import OWN_SEEDS, part_label, whole_label
from undertow.core.canonical import digest, unseal
from undertow.core.errors import StoreError
from undertow.store.folder import Folder

__all__ = ["STATES", "Done", "StudyPart", "catalogue", "read_done", "read_part"]

STATES = ("finished", "diverged", "running", "waiting", "failed", "damaged")

_WHAT = re.compile(rb'"measure":("(?:[^"\\]|\\.)*"),"key":("(?:[^"\\]|\\.)*")')


@dataclass(frozen=True)
class StudyPart:
    """A part of a study: its names, and its trials with their places in the grid."""

    label: str
    study: str
    variant: str
    scale: str
    part: str
    trials: Mapping[str, Mapping[str, Any]]
    seed_set: str = OWN_SEEDS

    @property
    def own_label(self) -> str:
        """What its file should be called."""
        return part_label(whole_label(self.study, self.variant, self.scale, self.seed_set), self.part)

    @cached_property
    def axes(self) -> list[str]:
        """The grid's columns that take several values."""
        columns = list(self.trials.values())
        names = dict.fromkeys(name for each in columns for name in each)
        return [name for name in names if len({repr(each.get(name)) for each in columns}) > 1]

    @cached_property
    def ordered(self) -> list[str]:
        """Those axes whose values are numbers."""
        every = self.trials.values()
        return [name for name in self.axes if all(isinstance(each.get(name), int | float) for each in every)]


@dataclass(frozen=True)
class Done:
    """A published trial: finished, diverged, or damaged.

    ``seconds`` is its share of its group's time, ``ending`` what of that came after the last step.
    """

    status: str
    step: int | None = None
    reason: str | None = None
    seconds: float | None = None
    ending: float | None = None
    records: str = ""


def read_part(folder: Folder, label: str) -> StudyPart | None:
    """A part of a study from either of its two files; None where neither is whole."""
    for ending in ("json", "copy"):
        data = folder.read("studies", f"{label}.{ending}")
        if data is None:
            continue
        try:
            document = unseal(data, folder.path / "studies" / f"{label}.{ending}")
            names = document["study"]
            trials = {str(trial): dict(columns) for trial, columns in document["trials"]}
            study, variant, scale, part = (str(names[key]) for key in ("name", "variant", "scale", "part"))
            return StudyPart(
                label, study, variant, scale, part, trials, str(names.get("seed_set", OWN_SEEDS))
            )
        except (StoreError, KeyError, TypeError, ValueError, AttributeError):
            continue
    return None


def read_done(folder: Folder, trial: str) -> Done:
    """How a published trial ended; what does not match its manifest is damaged."""
    try:
        manifest = folder.read("trials", trial, "manifest.json") or b""
        document = unseal(manifest, folder.path / "trials" / trial)
        known, found = document["files"], {}
        if not str(document["trial"]).startswith(trial):
            return Done("damaged")
        for name in ("status.json", "provenance.json"):
            data = folder.read("trials", trial, name) or b""
            if digest(data) != known[name]:
                return Done("damaged")
            found[name] = json.loads(data)
        status, cost = found["status.json"], found["provenance.json"].get("cost", {})
        return Done(
            status="diverged" if status["status"] == "diverged" else "finished",
            step=status.get("step"),
            reason=status.get("reason"),
            seconds=float(cost["seconds"]) if "seconds" in cost else None,
            ending=float(cost["ending"]) if "ending" in cost else None,
            records=str(known["records.jsonl"]),
        )
    except (StoreError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return Done("damaged")


def catalogue(records: bytes) -> list[tuple[str, str]]:
    """The measures and keys that occur in lines of records, in the order of their appearance.

    >>> catalogue(b'{"trial":"t","step":0,"epoch":0,"measure":"loss","key":"mean","value":1.0,"error":null}')
    [('loss', 'mean')]
    """
    found = dict.fromkeys(_WHAT.findall(records))
    return [(json.loads(measure), json.loads(key)) for measure, key in found]
