"""Unpacking within bounds: a megabyte can unpack to gigabytes, so bytes are counted while they come.

Files that the catalogue knows may have the size it gives. Whatever else is unpacked may have ``largest()`` bytes,
or eight times those of its packed file where that is more: honest data are seldom packed more tightly.
"""

from __future__ import annotations

import bz2
import io
import lzma
import os
import re
import zlib
from typing import IO, Any

from undertow.core.errors import DataError, InputError

__all__ = ["OverrunError", "Unpacked", "bound_for", "gunzip", "in_units", "inflate", "largest", "too_large"]

_DEFAULT = 256 * 2**20
_TIGHTLY = 8
_PIECE = 2**18
_XZ_MEMORY = 96 * 2**20  # what xz needs at its highest setting, and a little
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}
_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz"}


def largest() -> int:
    """The most bytes that data of unknown size may unpack to: ``UNDERTOW_LARGEST``, such as "2GB"; else 256 MiB."""
    text = os.environ.get("UNDERTOW_LARGEST", "").strip()
    if not text:
        return _DEFAULT
    read = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) *([kmg]?i?)b?", text.lower())
    if read is None or read[2] not in _UNITS:
        raise InputError(f"UNDERTOW_LARGEST is {text[:40]!r}; give a number of bytes, such as 500MB or 4GB.")
    return int(float(read[1]) * _UNITS[read[2]])


def bound_for(packed: int) -> int:
    """The most bytes that a file of unknown content and ``packed`` bytes may unpack to."""
    return max(largest(), _TIGHTLY * packed)


def too_large(where: str, bound: int) -> DataError:
    """The error for what unpacks to more than ``bound_for`` allows."""
    return DataError(
        f"{where} unpacks to more than {in_units(bound)}, which is refused: a small file can unpack to more than any "
        "memory holds. If it is what it should be, set UNDERTOW_LARGEST to what it needs, such as 4GB."
    )


def in_units(count: int) -> str:
    """Bytes for people.

    >>> in_units(47_040_016), in_units(7_041)
    ('47.0 MB', '7.0 kB')
    """
    for power, unit in ((9, "GB"), (6, "MB"), (3, "kB")):
        if count >= 10**power:
            return f"{count / 10**power:,.1f} {unit}"
    return f"{count} bytes"


def gunzip(content: bytes, bound: int) -> bytes:
    """The content of a gzip file, of all its members; raises ``OverrunError``, EOFError or zlib.error.

    >>> import gzip
    >>> gunzip(gzip.compress(bytes(1000)), 1000) == bytes(1000)
    True
    """
    if not content.startswith(b"\x1f\x8b"):
        raise zlib.error("it does not begin like one")
    return Unpacked(io.BytesIO(content), bound).read()


def inflate(content: bytes, bound: int) -> bytes:
    """The content of a zlib stream; raises ``OverrunError``, EOFError or zlib.error."""
    decoder = zlib.decompressobj()
    data = decoder.decompress(content, bound + 1)
    if len(data) > bound:
        raise OverrunError
    if not decoder.eof:
        raise EOFError("the compressed stream breaks off")
    return data


class OverrunError(Exception):
    """More bytes than there may be."""


class Unpacked(io.RawIOBase):
    """What a compressed file holds, as a stream; an ``OverrunError`` once it gives more than ``bound`` bytes.

    gzip, bzip2 and xz are recognised by their first bytes; anything else is passed through and counted alike.

    >>> import gzip
    >>> stream = Unpacked(io.BytesIO(gzip.compress(b"abc") + gzip.compress(b"def")), 100)
    >>> stream.read(4), stream.read(4)
    (b'abcd', b'ef')
    """

    def __init__(self, packed: IO[bytes], bound: int) -> None:
        self._packed, self._left = packed, bound
        start = packed.read(6)
        self._kind = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), None)
        self._waiting, self._decoder = start, _decoder(self._kind)

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Up to ``size`` bytes, fewer only at the end."""
        pieces, wanted = [], size
        while size < 0 or wanted > 0:
            piece = self._piece(_PIECE if size < 0 else min(wanted, _PIECE))
            if not piece:
                break
            pieces.append(piece)
            wanted -= len(piece)
        return b"".join(pieces)

    def _piece(self, size: int) -> bytes:
        size = min(size, self._left + 1)
        data = self._plain(size) if self._decoder is None else self._decoded(size)
        self._left -= len(data)
        if self._left < 0:
            raise OverrunError
        return data

    def _plain(self, size: int) -> bytes:
        data, self._waiting = self._waiting[:size], self._waiting[size:]
        return data or self._packed.read(size)

    def _decoded(self, size: int) -> bytes:
        while True:
            if self._decoder.eof:
                # Another member may follow, and so may padding with zeros.
                rest = self._decoder.unused_data.lstrip(b"\0")
                while not rest and (more := self._packed.read(_PIECE)):
                    rest = more.lstrip(b"\0")
                if not rest:
                    return b""
                self._waiting, self._decoder = rest, _decoder(self._kind)
            data: bytes = self._decoder.decompress(self._waiting, size)
            # zlib gives back what it has not looked at; the others keep it.
            self._waiting = getattr(self._decoder, "unconsumed_tail", b"")
            if data:
                return data
            if not self._decoder.eof and not self._waiting:
                self._waiting = self._packed.read(_PIECE)
                if not self._waiting:
                    raise EOFError("the compressed stream breaks off")


def _decoder(kind: str | None) -> Any:
    """A decoder for one member of a compressed stream."""
    if kind == "gzip":
        return zlib.decompressobj(wbits=31)
    if kind == "bzip2":
        return bz2.BZ2Decompressor()
    return None if kind is None else lzma.LZMADecompressor(memlimit=_XZ_MEMORY)
