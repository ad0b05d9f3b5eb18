"""One process at a time works on a group of trials, and a dead one does not hold the others up.

The lock is a file made with O_EXCL that names its owner: host, process, the process's start time, and a
token. Its modification time is the owner's heartbeat. A lock is *stale* when

- its owner ran on this host, and no process with that id and start time is alive, or
- its owner ran on another host, and the heartbeat is older than ``stale_after`` seconds.

Stale locks are removed under an exclusive ``flock`` on a guard file, so that two processes that find the
same stale lock cannot remove each other's new one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from undertow.core.errors import StoreError
from undertow.core.files import check_regular, read_regular
from undertow.store.atomic import make_folder, writing

__all__ = ["Lock", "Locked", "Owner", "guard", "is_stale"]

HEARTBEAT = 10.0
STALE_AFTER = 120.0


class Locked(StoreError):  # noqa: N818 - reads as what it says
    """Another live process holds the lock."""


@dataclass(frozen=True)
class Owner:
    """Who holds a lock."""

    host: str
    pid: int
    started: str
    token: str

    @classmethod
    def current(cls) -> Owner:
        """This process, with a new token."""
        return cls(_host(), os.getpid(), _start_time(os.getpid()) or "", uuid.uuid4().hex)

    @property
    def alive_here(self) -> bool:
        """Whether this host still runs the very process; a reused process id has another start time."""
        return _start_time(self.pid) == self.started


def _host() -> str:
    # Containers may share a host name, and a reboot reuses process ids: the boot id tells them apart.
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = "unknown-boot"
    return f"{platform.node()}/{boot}"


def _start_time(pid: int) -> str | None:
    try:
        # Field 22 counts from after the command, which is in parentheses and may contain anything.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] in "ZX" else fields[19]
    except (OSError, IndexError):
        if Path("/proc/self/stat").exists():
            return None
    try:  # systems without /proc: existence is all that can be known
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return ""


class Lock:
    """A lock file, held as a context manager; raises ``Locked`` at once when another holds it.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with Lock(folder / "a.lock") as lock:
    ...     lock.held
    True
    """

    def __init__(self, path: Path, *, stale_after: float = STALE_AFTER, heartbeat: float = HEARTBEAT):
        self.path = path
        self.owner = Owner.current()
        self._stale_after = stale_after
        self._heartbeat = heartbeat
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def held(self) -> bool:
        """Whether the file still names this owner (a suspended process may find that it no longer does)."""
        return _read_owner(self.path) == self.owner

    def __enter__(self) -> Lock:
        make_folder(self.path.parent)
        with writing(self.path), guard(self.path.parent):
            # Under the guard nobody else creates or breaks a lock; a holder may still release its own.
            other = _read_owner(self.path)
            if other is not None and not is_stale(self.path, other, after=self._stale_after):
                host = other.host.split("/")[0]
                elsewhere = (
                    "" if other.host == _host() else f", on another machine after {self._stale_after:g} s"
                )
                raise Locked(
                    f"{self.path.stem} is being worked on by process {other.pid} on {host}: wait for it, or "
                    f"end it and start again (a lock left by a dead process is removed by itself{elsewhere})."
                )
            self.path.unlink(missing_ok=True)
            descriptor = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
            with os.fdopen(descriptor, "w") as file:
                json.dump(asdict(self.owner), file)
        self._thread = threading.Thread(target=self._beat, daemon=True, name="undertow-lock")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        with contextlib.suppress(OSError, StoreError), guard(self.path.parent):
            if self.held:
                self.path.unlink(missing_ok=True)

    def _beat(self) -> None:
        while not self._ended.wait(self._heartbeat):
            with contextlib.suppress(OSError):
                if self.held:
                    os.utime(self.path)


def is_stale(path: Path, owner: Owner, *, after: float = STALE_AFTER) -> bool:
    """Whether the lock file that names this owner was left by a dead process."""
    if owner.host == _host():
        return not owner.alive_here
    try:
        age = time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return True
    return age > after


def _read_owner(path: Path) -> Owner | None:
    """The owner named in the file; None when there is none or its writer died before naming itself."""
    try:
        return Owner(**json.loads(read_regular(path, largest=2**16)))
    except (OSError, ValueError, TypeError, RecursionError):
        return None


@contextlib.contextmanager
def guard(folder: Path) -> Iterator[None]:
    """A moment in which no other process is inside the same folder's guard."""
    path = folder / ".guard"
    with writing(path):
        # To read and write: a pipe is then opened at once, and refused.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        with writing(path):
            check_regular(descriptor, path)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
