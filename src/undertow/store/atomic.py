"""Writing so that nothing half-written is ever visible.

A file or folder is made under another name, flushed to the disk together with the folder entries that
lead to it, and only then renamed to where readers look: after a power cut it is there and whole, or not
there at all.
"""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from undertow.core.errors import StoreError

__all__ = ["make_folder", "publish_folders", "replace_file", "sync", "writing"]

_SIDE_BY_SIDE = 8
_REASONS = {
    errno.ENOSPC: "the disk is full: free some space",
    errno.EDQUOT: "the disk quota is used up: free some space",
    errno.EFBIG: "the file would grow over the size limit: raise it (ulimit -f)",
    errno.EROFS: "the file system is read-only: choose a folder that can be written",
    errno.EACCES: "permission is denied: choose a folder that can be written",
    errno.EPERM: "permission is denied: choose a folder that can be written",
    errno.ENOTDIR: "a part of the path is a file, not a folder: choose another folder",
}


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the file system refuses into one sentence; what was finished before stays whole."""
    try:
        yield
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, f"the system says {error.strerror!r}: look into that")
        message = f"{path} cannot be written, {reason}, then go on; everything finished so far is intact."
        raise StoreError(message) from error


def sync(path: Path) -> None:
    """Flush a file's content, or a folder's entries: a rename is only durable after the latter."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> Path:
    """The folder, created with its parents where missing."""
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


def _write_and_sync(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, data: bytes) -> None:
    """Write ``path`` in one stroke: readers see the old content or the new, never a mixture."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    with writing(path):
        try:
            _write_and_sync(temporary, data)
            temporary.replace(path)
            sync(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


def publish_folders(folders: Mapping[Path, Mapping[str, bytes]], *, scratch: Path) -> list[Path]:
    """Make whole folders of files appear, each at once; returns those that were not there already.

    ``scratch`` must lie on the same file system; what a killed process leaves there is never read.
    """
    if not folders:
        return []
    made = []
    with writing(scratch), tempfile.TemporaryDirectory(dir=_made(scratch), ignore_cleanup_errors=True) as new:
        paths = []
        for final, files in folders.items():
            temporary = Path(new) / final.name
            temporary.mkdir()
            for name, data in files.items():
                (temporary / name).write_bytes(data)
                paths.append(temporary / name)
            paths.append(temporary)
        # A journal commits what waits for it together: side by side this takes a tenth of the time.
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            list(pool.map(sync, paths))
        for final in folders:
            try:
                (Path(new) / final.name).rename(final)
                made.append(final)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
        for parent in {final.parent for final in folders}:
            sync(parent)
    return made


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
