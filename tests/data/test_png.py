from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from undertow.core.errors import DataError
from undertow.data.png import decode_png


def predictor(kind: int, left: int, up: int, corner: int) -> int:
    """The PNG specification's table 9.1, one byte at a time."""
    if kind == 4:
        p = left + up - corner
        return min(
            (left, up, corner), key=lambda v: abs(p - v)
        )  # ties go to left, then up: min keeps the first
    return (0, left, up, (left + up) // 2)[kind]


def encode(pixels: NDArray[np.uint8], filters: list[int], *, pieces: int = 2) -> bytes:
    """A PNG file with the given filter on each line: the naive inverse of the decoder."""
    height, width, channels = pixels.shape
    flat = pixels.reshape(height, -1).astype(int)
    lines = bytearray()
    for row, kind in enumerate(filters):
        lines.append(kind)
        for i in range(width * channels):
            left = flat[row, i - channels] if i >= channels else 0
            up = flat[row - 1, i] if row else 0
            corner = flat[row - 1, i - channels] if row and i >= channels else 0
            lines.append((flat[row, i] - predictor(kind, left, up, corner)) % 256)
    data = zlib.compress(bytes(lines))
    colour = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    cut = len(data) // pieces
    bodies = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)), (b"tEXt", b"who\0test")]
    bodies += [(b"IDAT", data[:cut]), (b"IDAT", data[cut:]), (b"IEND", b"")]
    chunks = [struct.pack(">I", len(b)) + k + b + struct.pack(">I", zlib.crc32(k + b)) for k, b in bodies]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


@given(
    seed=st.integers(0, 10_000),
    width=st.integers(1, 9),
    channels=st.integers(1, 4),
    filters=st.lists(st.integers(0, 4), min_size=1, max_size=9),
    spread=st.sampled_from([4, 256]),
)
def test_every_filter_is_undone(
    seed: int, width: int, channels: int, filters: list[int], spread: int
) -> None:
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, spread, (len(filters), width, channels)).astype(np.uint8)
    assert np.array_equal(decode_png(encode(pixels, filters)), pixels)


PICTURE = np.arange(36, dtype=np.uint8).reshape(3, 4, 3)


def test_damage_is_named() -> None:
    good = encode(PICTURE, [1, 2, 4])
    assert np.array_equal(decode_png(good), PICTURE)
    with pytest.raises(DataError, match=r"a\.png is truncated"):
        decode_png(good[:-12], name="a.png")
    with pytest.raises(DataError, match="not a PNG"):
        decode_png(b"GIF89a")
    with pytest.raises(DataError, match="line filter 7"):
        decode_png(encode_raw(2, 1, 0, bytes([7, 1, 2])))
    with pytest.raises(DataError, match="do not make 2×2"):
        decode_png(encode_raw(2, 2, 0, bytes([0, 1, 2])))


@given(position=st.integers(0, 10_000), flip=st.integers(1, 255))
def test_a_flipped_byte_never_passes(position: int, flip: int) -> None:
    good = encode(PICTURE, [1, 2, 4])
    position %= len(good)
    bad = good[:position] + bytes([good[position] ^ flip]) + good[position + 1 :]
    with pytest.raises(DataError):
        decode_png(bad)


def test_other_kinds_of_png_are_refused_with_a_sentence() -> None:
    with pytest.raises(DataError, match="colour type 3"):
        decode_png(encode_raw(1, 1, 3, b"\0\0"))


def encode_raw(width: int, height: int, colour: int, lines: bytes) -> bytes:
    bodies = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines)),
        (b"IEND", b""),
    ]
    chunks = [struct.pack(">I", len(b)) + k + b + struct.pack(">I", zlib.crc32(k + b)) for k, b in bodies]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
