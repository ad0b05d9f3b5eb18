"""Downloads over HTTP, and writes that are whole or not there at all."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from undertow.core.errors import DataError

__all__ = ["download", "scratch_folder", "write_atomically"]

_TIMEOUT = 10.0  # seconds without a byte before a server counts as unreachable
_RESOLVE_TIMEOUT = 4.0
_CHUNK = 1 << 18


def download(url: str, target: Path, *, timeout: float = _TIMEOUT, show: bool = True) -> None:
    """Save ``url`` as ``target``, with a progress bar on a terminal; a DataError says why it failed."""
    _check_host(url, min(timeout, _RESOLVE_TIMEOUT))
    request = urllib.request.Request(url, headers={"User-Agent": "undertow"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response, target.open("wb") as file:
            announced = response.headers.get("Content-Length")
            total = int(announced) if announced else None
            received = 0
            with _bar(f"{target.name} from {urlsplit(url).hostname}", total, show) as advance:
                while chunk := response.read(_CHUNK):
                    file.write(chunk)
                    received += len(chunk)
                    advance(len(chunk))
            file.flush()
            os.fsync(file.fileno())
    except urllib.error.HTTPError as error:
        raise DataError(f"{url}: the server answers {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise DataError(f"{url}: {_reason(error.reason)}") from None
    except (OSError, ValueError) as error:  # also http.client's ConnectionError and timeouts while reading
        raise DataError(f"{url}: {_reason(error)}") from None
    if total is not None and received < total:
        raise DataError(f"{url}: the connection broke off after {received:,} of {total:,} bytes")


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside ``path``, flush to the disk, rename: a reader sees the old file or the whole new one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        _flush_folder(path.parent)
    except OSError as error:
        raise DataError(_cannot_write(path.parent, error)) from None


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """A folder for downloads on the disk they will be kept on, removed at the end."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.TemporaryDirectory(dir=parent, prefix=".incoming-", ignore_cleanup_errors=True)
    except OSError as error:
        raise DataError(_cannot_write(parent, error)) from None
    with scratch as name:
        yield Path(name)


def _cannot_write(folder: Path, error: OSError) -> str:
    return (
        f"Cannot write to {folder}: {error.strerror or error}. Free some space there, or set UNDERTOW_CACHE "
        "to a folder that can be written."
    )


def _flush_folder(folder: Path) -> None:
    if os.name != "posix":  # elsewhere a folder cannot be opened, and a rename needs no flush
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _check_host(url: str, timeout: float) -> None:
    """Fail within ``timeout`` when the host has no address.

    A socket's timeout does not cover the resolver, which can hang for half a minute without a network.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(host):
        return  # the proxy resolves the name
    found = threading.Event()

    def resolve() -> None:
        try:
            socket.getaddrinfo(host, parts.port or parts.scheme)
            found.set()
        except OSError:
            pass

    resolver = threading.Thread(target=resolve, daemon=True)
    resolver.start()
    resolver.join(timeout)
    if not found.is_set():
        raise DataError(f"{url}: the address of {host} cannot be found (no network?)")


def _reason(error: object) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(getattr(error, "strerror", None) or error) or type(error).__name__


class _Advance(Protocol):
    def __call__(self, count: int, /) -> object: ...


@contextmanager
def _bar(label: str, total: int | None, show: bool) -> Iterator[_Advance]:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not (show and console.is_terminal)
    ) as bar:
        task = bar.add_task(label, total=total)
        yield lambda count: bar.advance(task, count)
