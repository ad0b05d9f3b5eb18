"""A folder that is only ever read, and never left: no symbolic link inside it is followed."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Folder", "Growing", "Stamp"]

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_LARGEST = 64 * 2**20
_SETTLED = 2 * 10**9  # nanoseconds after which a folder's time stamp would show another change


@dataclass(frozen=True)
class Stamp:
    """What tells whether a file or folder has changed: which one it is, when it was written, its size."""

    inode: int
    time: int
    size: int


class Folder:
    """Reads regular files below ``path``, which may itself be reached through links.

    Every name on the way is opened relative to the folder before it, and none may be a link: there is no
    moment between looking and reading in which one could be put there.

    >>> import tempfile
    >>> root = Path(tempfile.mkdtemp())
    >>> _ = (root / "a.txt").write_text("here")
    >>> (root / "b.txt").symlink_to("/etc/passwd")
    >>> Folder(root).read("a.txt"), Folder(root).read("b.txt"), Folder(root).read("..", "x")
    (b'here', None, None)
    """

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self._listed: dict[tuple[str, ...], tuple[Stamp, bool, list[str]]] = {}

    def read(self, *names: str, start: int = 0) -> bytes | None:
        """A file's content from ``start`` on; None where there is no such file."""
        with self._open(names) as descriptor:
            if descriptor is None:
                return None
            size = os.fstat(descriptor).st_size
            if not 0 <= size - start <= _LARGEST:
                return None
            os.lseek(descriptor, start, os.SEEK_SET)
            pieces = []
            while piece := os.read(descriptor, 2**20):
                pieces.append(piece)
            return b"".join(pieces)

    def stamp(self, *names: str) -> Stamp | None:
        """Whether and when it was written; None where there is no such file or folder."""
        with self._open(names, folder=None) as descriptor:
            return None if descriptor is None else _stamp(descriptor)

    def names(self, *names: str) -> list[str]:
        """What is in a folder, links left out; listed again only when its time stamp has moved."""
        with self._open(names, folder=True) as descriptor:
            if descriptor is None:
                self._listed.pop(names, None)
                return []
            now = _stamp(descriptor)
            before = self._listed.get(names)
            if before and before[0] == now and before[1]:
                return before[2]
            with os.scandir(descriptor) as entries:
                found = sorted(
                    entry.name for entry in entries if not entry.is_symlink() and _NAME.fullmatch(entry.name)
                )
            # Two changes within one tick of the clock leave the same stamp: believe it only once it is old.
            settled = time.time_ns() - now.time > _SETTLED
            self._listed[names] = (now, settled, found)
            return found

    @contextlib.contextmanager
    def _open(self, names: tuple[str, ...], *, folder: bool | None = False) -> Iterator[int | None]:
        """A descriptor of the file (or folder, or of either where None), or None."""
        opened: list[int] = []
        try:
            if not all(_NAME.fullmatch(name) for name in names):
                yield None
                return
            try:
                opened.append(os.open(self.path, os.O_RDONLY | os.O_DIRECTORY))
                for name in names:
                    # Without blocking: a pipe that someone put there must not hold up the page.
                    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
                    opened.append(os.open(name, flags, dir_fd=opened[-1]))
                mode = os.fstat(opened[-1]).st_mode
            except OSError:
                yield None
                return
            fits = {True: stat.S_ISDIR(mode), False: stat.S_ISREG(mode)}
            fits_any = fits[True] or fits[False]
            yield opened[-1] if (fits_any if folder is None else fits[folder]) else None
        finally:
            for descriptor in opened:
                os.close(descriptor)


class Growing:
    """A file of lines that is appended to, or replaced: each call of ``more`` gives what is new."""

    def __init__(self, folder: Folder, *names: str) -> None:
        self._folder, self._names = folder, names
        self._inode: int | None = None
        self._offset = 0

    def more(self) -> tuple[bytes, bool]:
        """Whole lines that were not read yet, and whether the file began anew (all of it is then new)."""
        now = self._folder.stamp(*self._names)
        if now is None:
            return b"", False
        anew = now.inode != self._inode or now.size < self._offset
        if anew:
            self._inode, self._offset = now.inode, 0
        if now.size == self._offset:
            return b"", anew
        data = self._folder.read(*self._names, start=self._offset) or b""
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return whole, anew


def _stamp(descriptor: int) -> Stamp:
    about = os.fstat(descriptor)
    return Stamp(about.st_ino, about.st_mtime_ns, about.st_size)
