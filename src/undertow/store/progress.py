"""What a running group lets others see: how far it is, and its records so far.

::

    RUNS/work/GROUP/progress.json   replaced about once a second: step, steps, pace, trials, who runs it
    RUNS/work/GROUP/live.jsonl      the records so far; begun anew by every attempt, then only appended to

Both are for watchers: no run reads them back. So nothing is flushed to the disk, and what cannot be
written is left out: watchers see less, the run loses nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from undertow.core.files import read_regular

__all__ = ["Beacon", "Progress", "read_progress", "replace_unflushed"]

_EVERY = 1.0  # seconds between signs of life
_REMEMBERED = 600  # signs of life that the pace is measured over, at most


@dataclass(frozen=True)
class Progress:
    """How far a group is.

    ``steps`` is 0 while data and networks are still being prepared; ``since`` is the step that this attempt
    began with; ``rate`` is in steps per second, measuring included, and None until it is known. ``started``
    and ``time`` (of this sign of life) are seconds since 1970. ``note`` is what else there is to say.
    """

    group: str
    trials: tuple[str, ...]
    step: int
    steps: int
    since: int
    rate: float | None
    started: float
    time: float
    host: str
    pid: int
    note: str = ""

    @classmethod
    def parse(cls, data: bytes) -> Progress:
        """The content of a ``progress.json``; raises ValueError when it is none."""
        try:
            document = json.loads(data)
            found = cls(**{**document, "trials": tuple(map(str, document["trials"]))})
            rate = None if found.rate is None else float(found.rate)
            _ = (int(found.step), int(found.steps), int(found.since), int(found.pid), rate)
            _ = (float(found.started), float(found.time))
        except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise ValueError(f"not a group's progress: {error}") from None
        return found

    @property
    def seconds_left(self) -> float | None:
        """The rest of the steps at the measured pace, without what comes after the last; None while that is unknown."""
        if not self.rate or not self.steps:
            return None
        return max(self.steps - self.step, 0) / self.rate


class Beacon:
    """Tells watchers about a group, at most once a second.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "work" / "0a1b"
    >>> Beacon(folder, "0a1b", ["t0", "t1"]).tell(5, 20, b"")
    >>> read_progress(folder).step
    5
    """

    def __init__(self, folder: Path, group: str, trials: Sequence[str], *, every: float = _EVERY) -> None:
        self._folder, self._every = folder, every
        self._group, self._trials = group, tuple(trials)
        self._started = time.time()
        self._since: int | None = None
        self._seen: deque[tuple[float, int]] = deque(maxlen=_REMEMBERED)
        self._told = 0.0
        self._records = 0
        self._begun = False
        self._write(0, 0)  # preparing: the trials are running, no step is known

    def tell(self, step: int, steps: int, records: bytes | bytearray, note: str = "") -> None:
        """A sign of life, unless the last one is less than a second old; ``records`` are all so far."""
        now = time.monotonic()
        if now - self._told < self._every and self._since is not None and step < steps:
            return
        self._told = now
        if self._since is None:
            self._since = step
        self._seen.append((now, step))
        # The later half of the attempt: what a schedule measures densely at the start must not count for ever.
        while len(self._seen) > 2 and now - self._seen[1][0] >= (time.time() - self._started) / 2:
            self._seen.popleft()
        with contextlib.suppress(OSError):
            self._append(records)
        self._write(step, steps, note)

    def _append(self, records: bytes | bytearray) -> None:
        path = self._folder / "live.jsonl"
        if not self._begun or len(records) < self._records:
            replace_unflushed(path, bytes(records))
        elif len(records) > self._records:
            self._begun = False  # a line torn by a full disk: the next sign of life writes the file anew
            with path.open("ab") as file:
                file.write(records[self._records :])
        self._begun, self._records = True, len(records)

    def _write(self, step: int, steps: int, note: str = "") -> None:
        document = Progress(
            group=self._group,
            trials=self._trials,
            step=step,
            steps=steps,
            since=self._since or 0,
            rate=self._rate(),
            started=self._started,
            time=time.time(),
            host=platform.node(),
            pid=os.getpid(),
            note=note,
        )
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            replace_unflushed(self._folder / "progress.json", json.dumps(asdict(document)).encode())

    def _rate(self) -> float | None:
        if len(self._seen) < 2:
            return None
        (then, before), (now, step) = self._seen[0], self._seen[-1]
        return (step - before) / (now - then) if step > before and now > then else None


def read_progress(folder: Path) -> Progress | None:
    """How far the group in this work folder is, if it has said so."""
    try:
        return Progress.parse(read_regular(folder / "progress.json", largest=2**24))
    except (OSError, ValueError):
        return None


def replace_unflushed(path: Path, data: bytes) -> None:
    """In one stroke for readers, but not flushed: it may be lost in a power cut, and nobody minds."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
