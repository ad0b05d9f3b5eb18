"""A small PNG decoder: 8-bit grey, RGB or RGBA, not interlaced. That is all that picture sheets need."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from undertow.core.errors import DataError
from undertow.data.inflate import OverrunError, bound_for, inflate, too_large

__all__ = ["decode_png"]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}  # colour type → samples per pixel (PNG specification, table 11.1)
_NONE, _SUB, _UP, _AVERAGE, _PAETH = range(5)
_FEW = 200  # lines with the slow filters that are undone one by one


def decode_png(
    content: bytes, *, name: str = "the picture", shape: tuple[int, int, int] | None = None
) -> NDArray[np.uint8]:
    """Pixels of a PNG file as (height, width, channels); of another ``shape`` than expected it is refused unread.

    >>> header = struct.pack(">IIBBBBB", 2, 1, 8, 0, 0, 0, 0)
    >>> row = zlib.compress(bytes([1, 5, 2]))                    # filter 1: each pixel adds to its left one
    >>> decode_png(_SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", row) + _chunk(b"IEND", b""))
    array([[[5],
            [7]]], dtype=uint8)
    """
    header, compressed = _read_chunks(content, name)
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", header)
    if depth != 8 or colour not in _CHANNELS or interlaced:
        raise DataError(
            f"{name} is a PNG of {depth} bits, colour type {colour}{', interlaced' * bool(interlaced)}; "
            "only 8-bit grey, RGB and RGBA without interlacing can be read."
        )
    found = (height, width, _CHANNELS[colour])
    if (shape is not None and found != shape) or not height or not width:
        expected = "" if shape is None else f"; {shape[0]}×{shape[1]} in {shape[2]} are expected"
        raise DataError(f"{name} has {height}×{width} pixels in {found[2]} channels{expected}.")
    size, bound = height * (1 + width * found[2]), bound_for(len(content))
    if size > bound and shape is None:
        raise too_large(name, bound)
    try:
        data = inflate(compressed, size)
    except (zlib.error, EOFError) as error:
        raise DataError(f"{name} is damaged: its pixels cannot be decompressed ({error}).") from None
    except OverrunError:
        raise DataError(f"{name} is damaged: it holds more pixels than {width}×{height}.") from None
    if len(data) != size:
        raise DataError(f"{name} is damaged: {len(data):,} bytes of pixels do not make {width}×{height}.")
    lines = np.frombuffer(data, dtype=np.uint8).reshape(height, 1 + width * found[2])
    return _unfilter(lines[:, 0], lines[:, 1:].reshape(found), name)


def _read_chunks(content: bytes, name: str) -> tuple[bytes, bytes]:
    if not content.startswith(_SIGNATURE):
        raise DataError(f"{name} is not a PNG file.")
    header, pixels, position, ended = b"", [], len(_SIGNATURE), False
    while position + 12 <= len(content) and not ended:
        length, kind = struct.unpack_from(">I4s", content, position)
        body = content[position + 8 : position + 8 + length]
        stored = content[position + 8 + length : position + 12 + length]
        if stored != struct.pack(">I", zlib.crc32(kind + body)):
            raise DataError(f"{name} is damaged: the checksum of a {kind.decode('latin1')} chunk is wrong.")
        if kind == b"IHDR":
            header = body
        elif kind == b"IDAT":
            pixels.append(body)
        ended = kind == b"IEND"
        position += 12 + length
    if not ended or len(header) != 13:
        raise DataError(f"{name} is truncated: it breaks off before its last chunk.")
    return header, b"".join(pixels)


def _unfilter(filters: NDArray[np.uint8], lines: NDArray[np.uint8], name: str) -> NDArray[np.uint8]:
    """Undo each line's prediction (PNG specification, section 9.2); arithmetic is modulo 256.

    None and Sub lines need nothing from the line above, so all of them are done at once. Up, Average and
    Paeth lines follow from top to bottom. The last two also run from left to right: single ones in plain integers,
    which is quicker than numpy on single pixels; where there are many, all of them at once along diagonals.
    """
    if filters.max(initial=0) > _PAETH:
        raise DataError(f"{name} is damaged: it uses a line filter {filters.max()}, which PNG does not have.")
    if np.count_nonzero(filters >= _AVERAGE) > _FEW:
        return _by_diagonals(filters, lines)
    pixels = lines.copy()
    sub = filters == _SUB
    pixels[sub] = np.cumsum(lines[sub], axis=1, dtype=np.uint8)
    above_first = np.zeros_like(pixels[0])
    for row in np.flatnonzero(filters >= _UP):
        above = pixels[row - 1] if row else above_first
        if filters[row] == _UP:
            pixels[row] += above
        else:
            predict = _average if filters[row] == _AVERAGE else _paeth
            pixels[row] = np.stack(
                [predict(lines[row, :, c].tolist(), above[:, c].tolist()) for c in range(pixels.shape[2])],
                axis=1,
            )
    return pixels


def _by_diagonals(filters: NDArray[np.uint8], lines: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """All filters at once: pixel (r, c) needs those above and to the left, which lie on the diagonals r + c before."""
    height, width, channels = lines.shape
    # A row and a column of zeros around the picture stand for what lies outside it.
    pixels = np.zeros((height + 1, width + 1, channels), dtype=np.uint8)
    pixels[1:, 1:] = lines
    # One place further down and one back is ``width`` places on: a diagonal is a slice.
    flat, kinds = pixels.reshape(-1, channels), filters[:, None].astype(np.int16)
    for diagonal in range(height + width - 1):
        first, last = max(0, diagonal - width + 1), min(height, diagonal + 1)
        here = first * width + width + diagonal + 2
        span = (last - first - 1) * width + 1
        left, up, corner = (
            flat[here - back : here - back + span : width].astype(np.int16)
            for back in (1, width + 1, width + 2)
        )
        to_left, to_up, to_corner = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
        paeth = np.where(to_up <= to_corner, up, corner)
        paeth = np.where((to_left <= to_up) & (to_left <= to_corner), left, paeth)
        kind = kinds[first:last]
        predicted = np.where(kind == _PAETH, paeth, (left + up) >> 1)
        predicted = np.where(kind == _UP, up, predicted)
        predicted = np.where(kind == _SUB, left, predicted)
        predicted[kind[:, 0] == _NONE] = 0
        flat[here : here + span : width] += predicted.astype(np.uint8)
    return pixels[1:, 1:]


def _average(line: list[int], above: list[int]) -> NDArray[np.uint8]:
    left, out = 0, []
    for value, up in zip(line, above, strict=True):
        left = (value + (left + up) // 2) & 255
        out.append(left)
    return np.array(out, dtype=np.uint8)


def _paeth(line: list[int], above: list[int]) -> NDArray[np.uint8]:
    left, corner, out = 0, 0, []
    for value, up in zip(line, above, strict=True):
        to_left, to_up, to_corner = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
        nearest = up if to_up <= to_corner else corner
        if to_left <= to_up and to_left <= to_corner:
            nearest = left
        left, corner = (value + nearest) & 255, up
        out.append(left)
    return np.array(out, dtype=np.uint8)


def _chunk(kind: bytes, body: bytes) -> bytes:
    """One PNG chunk: length, kind, body, checksum."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
