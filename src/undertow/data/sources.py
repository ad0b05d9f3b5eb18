"""Where data sets come from: local folders first, then public mirrors, then packages that carry them."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from undertow.data.acquire import Via, complete
from undertow.data.catalogue import CATALOGUE, CatalogueEntry, RawFile, lookup
from undertow.data.local import FileState, State, cache_folder, candidates, find, has_size, search_folders

__all__ = ["DatasetInfo", "available", "check", "fetch", "looks_whole", "obtain"]


@dataclass(frozen=True)
class DatasetInfo:
    """A data set as it stands on this machine.

    ``where`` is the folder its files lie in (None when absent), ``size`` their raw bytes, ``source`` where
    they can come from, ``files`` the state of each.
    """

    name: str
    title: str
    state: State
    where: str | None
    size: int
    licence: str
    source: str
    files: tuple[FileState, ...] = ()

    @property
    def sentence(self) -> str:
        """What is there, or what is wrong, in one line."""
        if self.state is State.PRESENT:
            return f"{self.name} is whole, in {self.where}."
        damaged = [f.reason for f in self.files if f.state is State.DAMAGED]
        absent = [f.name for f in self.files if f.state is State.ABSENT]
        missing = [f"Missing: {', '.join(absent)}."] if absent else []
        return " ".join([f"{self.name} is {self.state}.", *damaged, *missing])


def available(*, folder: str | os.PathLike[str] | None = None) -> list[DatasetInfo]:
    """Every data set known by name, with its files verified."""
    return [check(name, folder=folder) for name in CATALOGUE]


def check(name: str, *, folder: str | os.PathLike[str] | None = None) -> DatasetInfo:
    """Verify the files of one data set; looks in ``folder``, ``UNDERTOW_DATA`` and the cache.

    >>> check("digits").state
    <State.PRESENT: 'present'>
    """
    return _inspect(lookup(name), search_folders(folder))


def looks_whole(name: str) -> bool:
    """Whether every file is here in its size, and the smallest one in its content, which tells whose they are.

    >>> looks_whole("digits")
    True
    """
    entry, folders = lookup(name), search_folders()
    if entry.form == "bundled":
        return find_spec("sklearn") is not None
    smallest = min(entry.files, key=lambda file: file.size or 0)
    if find(entry, smallest, folders)[0].state is not State.PRESENT:
        return False
    others = [file for file in entry.files if file is not smallest]
    return all(any(has_size(path, file) for path in candidates(entry, file, folders)) for file in others)


def fetch(
    name: str,
    *,
    folder: str | os.PathLike[str] | None = None,
    via: Via | None = None,
    show: bool = True,
) -> DatasetInfo:
    """Make one data set whole, downloading what is missing or damaged.

    With ``folder`` it is made whole in that folder; otherwise a whole copy anywhere counts, and downloads
    go to the cache. ``via`` restricts the source to "mirror" or "package".
    """
    entry = lookup(name)
    folders = [Path(folder).expanduser()] if folder else search_folders()
    info = _inspect(entry, folders)
    lacking = {f.name: f for f in info.files if f.state is not State.PRESENT}
    if lacking:
        complete(entry, lacking, folders=folders, target=folders[-1] / entry.name, via=via, show=show)
        info = _inspect(entry, folders)
    return info


def obtain(
    entry: CatalogueEntry,
    files: tuple[RawFile, ...],
    *,
    folder: str | os.PathLike[str] | None = None,
    download: bool = True,
    show: bool = True,
) -> dict[str, bytes]:
    """Name → verified raw content of ``files``, from the first source that has them."""
    folders = search_folders(folder)
    contents: dict[str, bytes] = {}
    lacking: dict[str, FileState] = {}
    for file in files:
        state, content = find(entry, file, folders)
        if state.state is State.PRESENT:
            contents[file.name] = content
        else:
            lacking[file.name] = state
    if lacking:
        target = cache_folder() / entry.name
        contents |= complete(entry, lacking, folders=folders, target=target, online=download, show=show)
    return contents


def _inspect(entry: CatalogueEntry, folders: list[Path]) -> DatasetInfo:
    with ThreadPoolExecutor(2) as pool:  # checksums of large files need no interpreter
        files = tuple(pool.map(lambda file: find(entry, file, folders)[0], entry.files))
    states = {f.state for f in files}
    if entry.form == "bundled":
        state = State.PRESENT if find_spec("sklearn") else State.ABSENT
        where: str | None = "scikit-learn" if state is State.PRESENT else None
    else:
        state = next((s for s in (State.DAMAGED, State.ABSENT) if s in states), State.PRESENT)
        where = next((str(f.path.parent) for f in files if f.path), None)
    size = sum(f.size or 0 for f in entry.files)
    return DatasetInfo(entry.name, entry.title, state, where, size, entry.licence, _source_line(entry), files)


def _source_line(entry: CatalogueEntry) -> str:
    if entry.form == "bundled":
        return "scikit-learn"
    hosts = [urlsplit(url).hostname or "" for url in (*entry.mirrors, *entry.archives)]
    return "; ".join([*hosts, *([entry.package.command] if entry.package else [])]) or "your own copy"
