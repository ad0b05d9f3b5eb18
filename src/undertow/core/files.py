"""Reading files that somebody else may have put there: regular ones alone, and none larger than expected."""

from __future__ import annotations

import errno
import io
import os
import stat

__all__ = ["NotRegularError", "TooLargeError", "check_regular", "open_regular", "read_regular"]

# Windows has neither pipes among its files nor the flags that guard against them.
_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))

_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class NotRegularError(OSError):
    """A pipe, a socket or a device where a file should be: reading it could wait for ever, or never end."""


class TooLargeError(OSError):
    """A file of more bytes than it can have."""


def read_regular(path: str | os.PathLike[str], *, largest: int | None = None) -> bytes:
    """The content of a regular file; links to one are followed.

    It is opened without waiting and looked at before it is read: a pipe that nobody writes to would hold the reader up
    for ever. With ``largest``, a file of more bytes is not read at all.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "records.jsonl")
    >>> os.mkfifo(path)
    >>> try:
    ...     read_regular(path)
    ... except NotRegularError as error:
    ...     error.strerror
    'it is a pipe, not a file'
    """
    with open_regular(path) as file:
        if largest is not None and os.fstat(file.fileno()).st_size > largest:
            raise TooLargeError(errno.EFBIG, f"it has more than the {largest:,} bytes it can have", str(path))
        return file.read()


def open_regular(path: str | os.PathLike[str]) -> io.BufferedReader:
    """A regular file, open for reading."""
    descriptor = os.open(path, _FLAGS)
    try:
        check_regular(descriptor, path)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def check_regular(descriptor: int, path: str | os.PathLike[str]) -> None:
    """Raise ``NotRegularError`` unless the open file is a regular one."""
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        kind = next((name for is_one, name in _KINDS if is_one(mode)), "something else")
        raise NotRegularError(errno.EINVAL, f"it is {kind}, not a file", str(path))
