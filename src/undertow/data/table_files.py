"""Files of tables: where they are, what they hold, and which content a trial was set up with."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path

from undertow.core.errors import DataError
from undertow.core.files import TooLargeError, read_regular
from undertow.data.catalogue import CatalogueEntry
from undertow.data.inflate import bound_for, too_large
from undertow.data.local import State, candidates, find, search_folders

__all__ = ["check_content", "fingerprint", "fingerprint_of_entry", "read_table_file"]


def read_table_file(
    path: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None
) -> tuple[str, bytes]:
    """Name and content of a file, looked for as it is named and then in the folders where data are looked for."""
    places = _places(path, folder)
    for place in places:
        try:
            # What a sparse file has on the disk is to its size as what is packed to what it unpacks to.
            about = place.stat()
            bound = bound_for(getattr(about, "st_blocks", about.st_size // 512 + 1) * 512)
            return str(place), read_regular(place, largest=bound)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except TooLargeError:
            raise too_large(str(place), bound) from None
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            raise DataError(
                f"{str(place)[:200]} cannot be read: {getattr(error, 'strerror', None) or error}."
            ) from None
    raise DataError(f"There is no file {path}; looked at {', '.join(dict.fromkeys(map(str, places)))}.")


def fingerprint(path: str | os.PathLike[str]) -> str | None:
    """SHA-256 of a file's content; None where there is none that can be read, which is said when it is loaded.

    >>> import tempfile
    >>> table = Path(tempfile.mkdtemp()) / "t.csv"
    >>> _ = table.write_text("kind,a")
    >>> fingerprint(table)[:8], fingerprint(table.with_name("u.csv"))
    ('84b18e21', None)
    """
    try:
        known = next((place for place in _places(path, None) if place.is_file()), None)
        return None if known is None else _of_content(str(path), _as_it_stands(known))
    except (DataError, OSError, ValueError):
        return None


def fingerprint_of_entry(entry: CatalogueEntry) -> str | None:
    """The same of a data set whose file nobody has published a checksum of: the user's own copy."""
    if not any(file.md5 is None for file in entry.files):
        return None
    places = next(candidates(entry, entry.files[0], search_folders()), None)
    return None if places is None else _of_entry(entry, _as_it_stands(places))


def check_content(content: bytes, sha256: str | None, *, name: str) -> None:
    """Refuse a file that is not the one a trial was set up with: its records would be of other data than it says."""
    if sha256 is None or _digest(content) == sha256:
        return
    raise DataError(
        f"{name} has changed since this was set up: its SHA-256 begins with {_digest(content)[:12]} and not with "
        f"{sha256[:12]}. Give the command that set it up again to train on the file as it is now, or put the earlier "
        "file back."
    )


def _places(path: str | os.PathLike[str], folder: str | os.PathLike[str] | None) -> list[Path]:
    own = Path(path)
    try:
        return [own.expanduser(), *(place / own for place in search_folders(folder))]
    except RuntimeError as error:  # the home of a user that there is not
        raise DataError(f"There is no file {path}: {error}") from None


def _as_it_stands(path: Path) -> tuple[str, int, int, int]:
    about = path.stat()
    return str(path.resolve()), about.st_mtime_ns, about.st_size, about.st_ino


# Every trial of a grid asks, and a table is read once for as long as nobody touches it.
@lru_cache(maxsize=16)
def _of_content(path: str, _: tuple[str, int, int, int]) -> str:
    return _digest(read_table_file(path)[1])


@lru_cache(maxsize=4)
def _of_entry(entry: CatalogueEntry, _: tuple[str, int, int, int]) -> str | None:
    state, content = find(entry, entry.files[0], search_folders())
    return _digest(content) if state.state is State.PRESENT else None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
