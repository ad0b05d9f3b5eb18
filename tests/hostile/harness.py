"""Gives commands to workers and collects how they ended; a worker that dies or hangs is itself a finding."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from queue import Empty, Queue

ROOT = Path(__file__).parents[2]
MEMORY = 10**9
SECONDS = 10.0
_PATIENCE = 120.0  # seconds on the clock, for machines that have other things to do


@dataclass(frozen=True)
class Case:
    """A command line of undertow; {runs} in it is an empty folder. After ``stop_after`` seconds it is interrupted."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    stop_after: float = 0.3 * SECONDS


@dataclass(frozen=True)
class Ending:
    """How a command ended: an exit code, "traceback", "hung" or "died"; processor seconds and peak bytes."""

    name: str
    ended: str
    seconds: float
    bytes: int
    printed: str

    @property
    def is_clean(self) -> bool:
        """Ended by itself, within its bounds, and without a traceback, also in what it printed."""
        calm = "Traceback (most recent" not in self.printed and '", line ' not in self.printed
        spoken = "panicked at" not in self.printed
        return self.ended in ("0", "1", "2", "130") and calm and spoken and self.seconds <= SECONDS


def run_cases(cases: Iterable[Case], *, memory: int = MEMORY) -> Iterator[Ending]:
    """Run the commands one after the other, in a process that is replaced when it dies."""
    worker: _Worker | None = None
    try:
        for case in cases:
            worker = worker or _Worker(memory)
            ending = worker.run(case)
            # What one command leaves behind in memory must not be put down to the next.
            if ending.ended in ("hung", "died") or ending.bytes > memory // 2:
                worker.close()
                worker = None
            yield ending
    finally:
        if worker is not None:
            worker.close()


class _Worker:
    def __init__(self, memory: int) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1", "COLUMNS": "200"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.worker", str(memory)],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answers: Queue[str] = Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def run(self, case: Case) -> Ending:
        assert self._process.stdin is not None
        order = asdict(case)
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        try:
            line = self._answers.get(timeout=_PATIENCE)
        except Empty:
            return Ending(case.name, "hung", _PATIENCE, 0, "")
        if not line:
            return Ending(case.name, "died", 0.0, 0, f"exit code {self._process.wait()}")
        return Ending(**json.loads(line))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
