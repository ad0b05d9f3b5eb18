"""Follow a folder of runs: which trials wait, run, are done or failed. What has not changed is not read again."""

from __future__ import annotations

import json
from collections import Counter

from undertow.store.failures import Failure, parse_failure
from undertow.store.folder import Folder, Stamp
from undertow.store.followed_trials import Done, StudyPart, catalogue, read_done, read_part
from undertow.store.lock import Owner, is_stale
from undertow.store.progress import Progress

__all__ = ["Follower"]

_SAMPLED = 8  # finished trials of a part that are asked which measures there are


class Follower:
    """The state of a store, brought up to date by ``look``."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.parts: dict[str, StudyPart] = {}
        self.done: dict[str, Done] = {}
        self.running: dict[str, Progress] = {}
        self.measures: dict[str, list[tuple[str, str]]] = {}
        self.version = 0
        """Counts the changes of what verdicts rest on: the studies, and the trials that are done."""
        self._files: dict[str, StudyPart] = {}
        self._stamps: dict[tuple[str, ...], Stamp | None] = {}
        self._groups: dict[str, Progress] = {}
        self._failures: dict[str, Failure] = {}
        self._sampled: Counter[str] = Counter()
        self._asked: set[tuple[str, str]] = set()

    def look(self) -> None:
        """Read what is new on the disk."""
        self._look_for_studies()
        self._look_for_done()
        self._look_for_running()
        self._look_for_failures()
        self._look_for_measures()

    @property
    def failures(self) -> dict[str, Failure]:
        """Groups that failed, unless all of their trials were finished in another way since."""
        return {
            group: each
            for group, each in self._failures.items()
            if any(trial not in self.done for trial in each.trials)
        }

    def states(self, part: StudyPart) -> dict[str, str]:
        """Every trial of a part with its state, one of ``trials.STATES``."""
        found = dict.fromkeys(part.trials, "waiting")
        # In this order: what failed may run again, and what runs in one group may be done in another.
        found |= {t: "failed" for each in self.failures.values() for t in each.trials if t in found}
        found |= {t: "running" for each in self.running.values() for t in each.trials if t in found}
        return found | {trial: self.done[trial].status for trial in found if trial in self.done}

    def labels(self, trials: tuple[str, ...]) -> list[str]:
        """The parts that some of the trials belong to."""
        return [label for label, part in self.parts.items() if any(trial in part.trials for trial in trials)]

    def _changed(self, *names: str) -> bool:
        now = self.folder.stamp(*names)
        if now is not None and self._stamps.get(names) == now:
            return False
        self._stamps[names] = now
        return True

    def _look_for_studies(self) -> None:
        names = self.folder.names("studies")
        labels = dict.fromkeys(name.rpartition(".")[0] for name in names if name.endswith((".json", ".copy")))
        for label in labels:
            if (
                f"{label}.json" not in names
                or self._changed("studies", f"{label}.json")
                or label not in self._files
            ):
                part = read_part(self.folder, label)
                if part is not None and part != self._files.get(label):
                    self._files[label] = part
                    self.version += 1
        self._files = {label: self._files[label] for label in labels if label in self._files}
        # A file of another name than its study's is a copy that somebody made, where the study's own is there.
        by_study: dict[str, list[str]] = {}
        for label, part in self._files.items():
            by_study.setdefault(part.own_label, []).append(label)
        kept = [own if own in files else files[0] for own, files in by_study.items()]
        self.parts = {label: self._files[label] for label in self._files if label in kept}

    def _look_for_done(self) -> None:
        names = self.folder.names("trials")
        # What was damaged may have been computed again under the same name while nobody looked.
        known = {name: each for name, each in self.done.items() if each.status != "damaged"}
        if len(names) == len(known) and all(name in known for name in names):
            return
        before = self.done
        self.done = {name: known.get(name) or read_done(self.folder, name) for name in names}
        self.version += self.done != before

    def _look_for_running(self) -> None:
        running = {}
        for name in self.folder.names("locks"):
            group, _, ending = name.rpartition(".")
            if ending == "lock" and self._is_held(name) and (progress := self._progress(group)):
                running[group] = progress
        self.running = running
        self._groups = {group: each for group, each in self._groups.items() if group in running}

    def _is_held(self, name: str) -> bool:
        try:
            owner = Owner(**json.loads(self.folder.read("locks", name) or b""))
        except (TypeError, ValueError, RecursionError):
            return False
        return not is_stale(self.folder.path / "locks" / name, owner)

    def _progress(self, group: str) -> Progress | None:
        if self._changed("work", group, "progress.json") or group not in self._groups:
            try:
                self._groups[group] = Progress.parse(self.folder.read("work", group, "progress.json") or b"")
            except ValueError:  # published and removed this moment, or not begun yet
                self._groups.pop(group, None)
        return self._groups.get(group)

    def _look_for_failures(self) -> None:
        found = {}
        for name in self.folder.names("failures"):
            group, _, ending = name.rpartition(".")
            if ending != "txt":
                continue
            if self._changed("failures", name) or group not in self._failures:
                try:
                    found[group] = parse_failure(self.folder.read("failures", name) or b"")
                except ValueError:
                    continue
            else:
                found[group] = self._failures[group]
        self._failures = found

    def _look_for_measures(self) -> None:
        """What can be drawn: asked of the first finished trials of each part, and of each running group."""
        for label, part in self.parts.items():
            if self._sampled[label] < _SAMPLED:
                for trial in part.trials:
                    if (
                        trial in self.done
                        and (label, trial) not in self._asked
                        and self._sampled[label] < _SAMPLED
                    ):
                        self._asked.add((label, trial))
                        self._sampled[label] += 1
                        self._learn(label, self.folder.read("trials", trial, "records.jsonl"))
        for group, progress in self.running.items():
            for label in self.labels(progress.trials) if progress.steps else ():
                if (label, group) not in self._asked:
                    self._asked.add((label, group))
                    self._learn(label, self.folder.read("work", group, "live.jsonl"))

    def _learn(self, label: str, records: bytes | None) -> None:
        known = self.measures.setdefault(label, [])
        known += [each for each in catalogue(records or b"") if each not in known]
