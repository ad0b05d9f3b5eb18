"""Records of somebody's own training loop, as a trial of a store."""

from __future__ import annotations

import json
import math
import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from undertow.config.study_names import whole_label
from undertow.core.canonical import digest, dumps, plain
from undertow.core.errors import InputError, StoreError
from undertow.probe.records import COLUMNS, Record
from undertow.store.record_files import encode_all
from undertow.store.stored_study import OWN_LOOP
from undertow.store.stored_trial import with_manifest

if TYPE_CHECKING:
    from undertow.store.store import Store

__all__ = ["OwnLoop"]

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_TAKEN = frozenset((*COLUMNS, "status", "study", "variant", "scale", "part"))


class OwnLoop:
    """A sink of a probe: what it measured becomes a trial of ``store`` when the training ends.

    The trial belongs to the study ``name``, with the settings in ``config`` as columns beside its records. Undertow
    knows the loop by this alone and cannot run it again, so each run is a trial of its own, also with settings that
    have been there before. Until the end nothing is in the store: a loop that dies would leave a trial that nobody
    can finish. A :class:`undertow.probe.sinks.Csv` beside it has every moment at once.
    """

    def __init__(self, store: Store, name: str, *, config: Mapping[str, Any] | None = None) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InputError(
                f"{name!r} is no name for a loop in a store: use small letters, digits and hyphens, such as "
                "'resnet-adam'."
            )
        self.store, self.name = store, name
        self.label = whole_label(name, "own", "own")
        self._refuse_other_study()
        self.config = _as_json({} if config is None else config)
        self._begin()

    def _begin(self) -> None:
        document = {"kind": OWN_LOOP, "name": self.name, "config": self.config, "run": uuid.uuid4().hex}
        self._document = dumps(document)
        self.trial = digest(self._document)[:16]
        self._lines = bytearray()
        self._step = 0
        self._begun = time.monotonic()

    def __call__(self, records: Sequence[Record]) -> None:
        self._lines += encode_all(replace(record, trial=self.trial) for record in records)
        self._step = max([self._step, *(record.step for record in records)])

    def resumed(self, records: Sequence[Record]) -> None:
        """The training goes on in this process: its trial begins with what was measured before."""
        self._begin()
        self(records)

    def training_end(self) -> None:
        """Make the trial visible, whole and in one stroke; what comes after it is another one."""
        from undertow.store.provenance import environment  # torch: whoever only reads does without

        cost = {"seconds": time.monotonic() - self._begun, "restarts": 0}
        files = {
            "config.json": self._document,
            "provenance.json": dumps({**environment(), "cost": cost, "group": {"id": self.trial, "size": 1}}),
            "records.jsonl": bytes(self._lines),
            "status.json": dumps({"status": "finished", "step": self._step, "reason": None}),
        }
        self.store.receive({self.trial: with_manifest(files, digest(self._document))})
        settings = {"kind": OWN_LOOP, "name": self.name, "variant": "own", "scale": "own", "part": "main"}
        columns = {f"config.{key}" if key in _TAKEN else key: value for key, value in _scalars(self.config)}
        self.store.add_trial(settings, self.trial, columns)
        self._begin()

    def _refuse_other_study(self) -> None:
        if not (self.store.path / "studies" / f"{self.label}.json").exists():
            return
        if self.store.study(self.label).settings.get("kind") != OWN_LOOP:
            raise StoreError(
                f"{self.store.path} holds a study {self.name} that undertow ran itself: give the loop another name, or "
                "use another folder."
            )


def _as_json(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as JSON can have them; what it has no word for (a dtype, a path) by its own name."""
    if not isinstance(config, Mapping):
        raise InputError(
            f"config must be a dictionary of the loop's settings, not {type(config).__name__}: write vars(args), or "
            "{'learning_rate': 0.1}."
        )
    found: dict[str, Any] = plain(json.loads(json.dumps(dict(config), default=str)))
    return found


def _scalars(config: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """The settings that are one value each, those in groups as ``group.setting``."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _scalars(value, f"{before}{key}.")
        elif isinstance(value, str | int | float) and not (isinstance(value, float) and math.isnan(value)):
            yield f"{before}{key}", value
