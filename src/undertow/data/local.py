"""Files on this machine: where to look for them, and whether they are what their authors published."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from undertow.core.errors import DataError
from undertow.core.files import TooLargeError, open_regular, read_regular
from undertow.data.catalogue import CATALOGUE, CatalogueEntry, RawFile
from undertow.data.inflate import OverrunError, bound_for, gunzip, too_large

__all__ = [
    "FileState",
    "State",
    "cache_folder",
    "candidates",
    "find",
    "has_size",
    "packed_bound",
    "read_verified",
    "search_folders",
    "unpack_gzip",
    "verify",
]


class State(StrEnum):
    """Whether a file, or a whole data set, can be used."""

    PRESENT = "present"
    ABSENT = "absent"
    DAMAGED = "damaged"


@dataclass(frozen=True)
class FileState:
    """One file of a data set on this machine; ``reason`` says what is wrong with a damaged one."""

    name: str
    state: State
    path: Path | None = None
    reason: str = ""


def cache_folder() -> Path:
    """Where downloads are kept: ``UNDERTOW_CACHE``, or undertow's part of the platform's cache folder."""
    chosen = os.environ.get("UNDERTOW_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    try:
        import platformdirs  # a bare GPU machine may lack it
    except ModuleNotFoundError:
        return Path.home() / ".cache" / "undertow"
    return platformdirs.user_cache_path("undertow", appauthor=False)


def search_folders(folder: str | os.PathLike[str] | None = None) -> list[Path]:
    """The folders looked in, in order: ``folder``, then ``UNDERTOW_DATA``, then the cache."""
    chosen = [folder, os.environ.get("UNDERTOW_DATA")]
    folders = [Path(f).expanduser() for f in chosen if f] + [cache_folder()]
    return list(dict.fromkeys(folders))


def find(entry: CatalogueEntry, file: RawFile, folders: list[Path]) -> tuple[FileState, bytes]:
    """The first whole copy of ``file`` in ``folders`` with its content; otherwise what was found instead."""
    damaged: FileState | None = None
    for path in candidates(entry, file, folders):
        try:
            return FileState(file.name, State.PRESENT, path), read_verified(path, file)
        except DataError as error:
            if damaged is None and not _belongs_to_another(entry, file, path):
                damaged = FileState(file.name, State.DAMAGED, path, str(error))
    return damaged or FileState(file.name, State.ABSENT), b""


def read_verified(path: Path, file: RawFile) -> bytes:
    """The raw content of ``path`` (gunzipped where it ends in .gz), or a DataError saying what is wrong."""
    packed = path.suffix == ".gz"
    bound = None if file.size is None else packed_bound(file.size) if packed else file.size
    try:
        content = read_regular(path, largest=bound)
    except TooLargeError:
        raise DataError(f"{path} is damaged: it is larger than {file.name} is{' packed' * packed}.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from None
    if packed:
        content = unpack_gzip(content, file, where=str(path))
    verify(content, file, where=str(path))
    return content


def has_size(path: Path, file: RawFile) -> bool:
    """Whether a file has the size that its content should have: of a packed one, the size that its end tells."""
    try:
        with open_regular(path) as found:
            if path.suffix != ".gz":
                return file.size is None or os.fstat(found.fileno()).st_size == file.size
            if found.read(2) != b"\x1f\x8b" or file.size is None:
                return False
            found.seek(-4, os.SEEK_END)
            return int.from_bytes(found.read(4), "little") == file.size % 2**32
    except OSError:
        return False


def unpack_gzip(content: bytes, file: RawFile, *, where: str) -> bytes:
    """The content of a gzip file, never much more of it than ``file`` has."""
    bound = bound_for(len(content)) if file.size is None else file.size
    try:
        return gunzip(content, bound)
    except EOFError:
        raise DataError(f"{where} is truncated: its gzip stream breaks off.") from None
    except zlib.error as error:
        raise DataError(f"{where} is damaged: not a whole gzip file ({error}).") from None
    except OverrunError:
        if file.size is None:
            raise too_large(where, bound) from None
        more = f"it unpacks to more than the {file.size:,} bytes of {file.name}"
        raise DataError(f"{where} is damaged: {more}.") from None


def packed_bound(size: int) -> int:
    """The most bytes that ``size`` bytes can take when packed: nothing grows by more than a little."""
    return size + size // 50 + 2**16


def verify(content: bytes, file: RawFile, *, where: str) -> None:
    """Raise a DataError unless ``content`` has the size and md5 the catalogue gives for ``file``."""
    if file.size is not None and len(content) < file.size:
        raise DataError(f"{where} is truncated: {len(content):,} of {file.size:,} bytes.")
    if file.md5 is None:
        return
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if digest != file.md5:
        raise DataError(f"{where} is damaged: its md5 is {digest}, but {file.name} has {file.md5}.")


def candidates(entry: CatalogueEntry, file: RawFile, folders: list[Path]) -> Iterator[Path]:
    """Where copies of ``file`` lie, whole or not."""
    for folder in folders:
        for inner in (entry.name, *entry.folders, "."):
            for name in (file.name, f"{file.name}.gz"):
                path = folder / inner / name
                if path.is_file():
                    yield path


def _belongs_to_another(entry: CatalogueEntry, file: RawFile, path: Path) -> bool:
    """Whether ``path`` lies where several data sets use its name and another one comes first.

    MNIST and Fashion-MNIST name their files alike: MNIST's, lying loose in a folder, are not a damaged
    Fashion-MNIST.
    """
    if path.parent.name == entry.name or any(path.parent.match(f"*/{f}") for f in entry.folders):
        return False
    users = [e for e in CATALOGUE.values() if any(f.name == file.name for f in e.files)]
    return bool(users) and users[0].name != entry.name
