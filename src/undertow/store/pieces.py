"""Byte strings in files of limited size, for ways that take no larger ones.

What is to be carried is a *parcel*: it is packed, and cut where a file is full. A file is a plain tar of parts whose
names are the SHA-256 of the packed parcel, where in it the part begins, and how long it is: ``0f3a….0-of-123456``. So
parcels find together from any files, in any order and however they were cut; what is there twice is there once, and
nothing is taken for whole that is not.
"""

from __future__ import annotations

import io
import lzma
import re
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from undertow.core.canonical import digest
from undertow.core.errors import InputError, StoreError
from undertow.core.files import read_regular
from undertow.store.atomic import make_folder, replace_file

__all__ = ["ENDING", "Arrived", "Parcel", "cut", "read_pieces", "write_pieces"]

ENDING = ".pack"
_BLOCK, _RECORD = tarfile.BLOCKSIZE, tarfile.RECORDSIZE
_LEAST = 2 * _RECORD
_NAMED = re.compile(r"[0-9a-f]{16}")
_PART = re.compile(r"([0-9a-f]{64})\.([0-9]{1,12})-of-([0-9]{1,12})")
_LARGEST_PIECE = 2**30
_LARGEST_CONTENT, _TIGHTLY = 2**28, 8  # bytes that a parcel unpacks to: so many, or so many times its own
_XZ_MEMORY = 2**28


@dataclass(frozen=True, eq=False)
class Parcel:
    """What is carried whole or not at all; ``label`` says what it is to who sends it."""

    packed: bytes
    label: str = ""

    @classmethod
    def of(cls, content: bytes, label: str = "") -> Parcel:
        """The content, packed: records shrink to a tenth, weights hardly at all, so that more effort is for nothing."""
        return cls(lzma.compress(content, preset=0), label)


@dataclass(frozen=True)
class Arrived:
    """What a folder's pieces hold: whole contents, which files have no part of anything else, and a sentence for
    each that is not whole."""

    contents: tuple[bytes, ...]
    whole: tuple[Path, ...]
    notes: tuple[str, ...]


def cut(
    parcels: Iterable[Parcel], *, largest: int, most: int | None = None
) -> tuple[list[bytes], list[Parcel]]:
    """The parcels in at most ``most`` tar files of at most ``largest`` bytes, and those that found no place.

    >>> files, without = cut([Parcel.of(b"a"), Parcel.of(b"b")], largest=30_000)
    >>> len(files), len(without)
    (1, 0)
    """
    if largest < _LEAST:
        raise InputError(f"largest = {largest} bytes: a piece has at least {_LEAST}.")
    room = largest // _RECORD * _RECORD - 2 * _BLOCK  # two empty blocks end a tar
    pieces: list[list[tuple[str, bytes]]] = []
    left, without = 0, []
    for parcel in parcels:
        spans, end, after = _spans(len(parcel.packed), len(pieces), left, room)
        if most is not None and end > most:
            without.append(parcel)
            continue
        left = after
        pieces += [[] for _ in range(end - len(pieces))]
        name = digest(parcel.packed)
        for piece, start, stop in spans:
            part = parcel.packed[start:stop]
            pieces[piece].append((f"{name}.{start}-of-{len(parcel.packed)}", part))
    return [_tar(parts) for parts in pieces], without


def _spans(length: int, pieces: int, left: int, room: int) -> tuple[list[tuple[int, int, int]], int, int]:
    """Where the parts of ``length`` bytes come to lie, how many pieces there are then, and what the last has left."""
    spans, start = [], 0
    while start < length:
        if left < 2 * _BLOCK:
            pieces, left = pieces + 1, room
        stop = min(length, start + left // _BLOCK * _BLOCK - _BLOCK)
        spans.append((pieces - 1, start, stop))
        left -= _BLOCK - (stop - start) // -_BLOCK * _BLOCK  # a header, and whole blocks
        start = stop
    return spans, pieces, left


def _tar(parts: list[tuple[str, bytes]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in parts:
            about = tarfile.TarInfo(name)  # no time and no owner: equal parts are equal files
            about.size = len(data)
            tar.addfile(about, io.BytesIO(data))
    return buffer.getvalue()


def write_pieces(folder: Path, pieces: Iterable[bytes]) -> list[Path]:
    """Each piece as a file named after its content, there whole or not at all."""
    make_folder(folder)
    paths = []
    for data in pieces:
        paths.append(folder / f"{digest(data)[:16]}{ENDING}")
        if not paths[-1].exists():
            replace_file(paths[-1], data)
    return paths


def read_pieces(folder: Path) -> Arrived:
    """Everything that is whole in the folder's pieces."""
    parts: dict[tuple[str, int], dict[int, bytes]] = {}
    inside: dict[Path, set[tuple[str, int]]] = {}
    notes = []
    for path in sorted(folder.glob(f"*{ENDING}")):
        try:
            found = list(_parts(path))
        except (OSError, EOFError, tarfile.TarError, StoreError) as error:
            notes.append(f"{path} is damaged ({_reason(error)}): bring it again.")
            continue
        inside[path] = {parcel for parcel, *_ in found}
        for parcel, start, data in found:
            longest = parts.setdefault(parcel, {}).get(start, b"")
            parts[parcel][start] = max(longest, data, key=len)
    contents: dict[tuple[str, int], bytes] = {}
    for parcel, own in parts.items():
        where = " and ".join(str(path) for path, parcels in inside.items() if parcel in parcels)
        packed = _joined(own)
        if len(packed) < parcel[1]:
            rest = parcel[1] - len(packed)
            notes.append(
                f"{where}: {rest:,} of {parcel[1]:,} bytes are missing; bring the other files as well."
            )
            continue
        content = _unpacked(packed) if digest(packed) == parcel[0] else None
        if content is None:
            notes.append(f"{where}: a part is damaged, its checksum does not match; bring it again.")
            continue
        contents[parcel] = content
    whole = tuple(path for path, parcels in inside.items() if parcels <= contents.keys())
    return Arrived(tuple(contents.values()), whole, tuple(notes))


def _joined(parts: dict[int, bytes]) -> bytes:
    """As many bytes from the first one on as are there."""
    found = bytearray()
    for start in sorted(parts):
        if start > len(found):
            break
        found += parts[start][len(found) - start :]
    return bytes(found)


def _parts(path: Path) -> Iterator[tuple[tuple[str, int], int, bytes]]:
    """The parcel, by its checksum and length, the place and the bytes of every part."""
    data = read_regular(path, largest=_LARGEST_PIECE)
    if _NAMED.fullmatch(path.stem) and digest(data)[: len(path.stem)] != path.stem:
        raise StoreError("its content is not what its name says")
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
        for about in tar:
            name = _PART.fullmatch(about.name)
            file = tar.extractfile(about) if about.isreg() and name else None
            if file is None or name is None:
                raise StoreError("it holds something that is no part of a parcel")
            part = file.read()
            if len(part) != about.size:
                raise StoreError("it ends too early")
            yield (name[1], int(name[3])), int(name[2]), part


def _unpacked(packed: bytes) -> bytes | None:
    """The content, None where there is none or more than any parcel has."""
    bound = max(_LARGEST_CONTENT, _TIGHTLY * len(packed))
    try:
        unpacker = lzma.LZMADecompressor(memlimit=_XZ_MEMORY)
        content = unpacker.decompress(packed, max_length=bound)
    except (lzma.LZMAError, EOFError, ValueError, MemoryError):
        return None
    return content if unpacker.eof and not unpacker.unused_data else None


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error or type(error).__name__)
