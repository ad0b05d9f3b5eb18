"""Verdicts for the page, computed in a process of their own and only when trials have changed."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

__all__ = ["Verdicts"]

_LONGEST = 600.0
_PAUSE = 15.0
_NICENESS = 10  # while trials run, they go first; else nothing is left to wait for but the verdicts
_SHARE = 20.0  # while trials run, judging takes at most one part in so many of a core's time


class Verdicts:
    """The ledger's rows as they were last computed, with the version of the store that they belong to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version: int | None = None
        self._ended = 0.0
        self._took = 0.0
        self._task: asyncio.Task[None] | None = None
        self.rows: list[dict[str, Any]] = []
        self.note = ""

    @property
    def computing(self) -> bool:
        """Whether a process is at it."""
        return self._task is not None and not self._task.done()

    def snapshot(self, version: int) -> dict[str, Any]:
        """For the page; ``current`` is false when trials have changed since."""
        return {
            "rows": self.rows,
            "note": self.note,
            "current": self._version == version,
            "computing": self.computing,
        }

    def keep_up(self, version: int, *, busy: bool) -> None:
        """Compute anew where the store has changed; while it is ``busy``, not too often."""
        pause = max(_PAUSE, _SHARE * self._took) if busy else 0.0
        rested = self._version is None or time.monotonic() - self._ended >= pause
        if version != self._version and not self.computing and rested:
            self._task = asyncio.create_task(self._compute(version, niceness=_NICENESS if busy else 0))

    async def close(self) -> None:
        """End the process, if there is one."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _compute(self, version: int, *, niceness: int) -> None:
        began = time.monotonic()
        command = [sys.executable, "-P", "-m", "undertow.live.judge", str(self._path), str(niceness)]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(), _LONGEST)
        except TimeoutError:
            out, err = b"", f"judging the claims took more than {_LONGEST:.0f} s.".encode()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode == 0:
            self.rows, self.note = json.loads(out), ""
        else:
            last = err.decode(errors="replace").strip().rpartition("\n")[2]
            self.note = f"The claims could not be judged: {last}"
        self._version, self._ended, self._took = version, time.monotonic(), time.monotonic() - began
