"""Arrays of an NPZ file, read within bounds.

``numpy.load`` believes what a file says about itself: it makes an array of whatever shape a header names, and unpacks
an entry to its end. Here the header is read first, and what it announces must fit, all arrays together, into
``bound_for`` the file's size; then so many bytes are unpacked, and no more.
"""

from __future__ import annotations

import io
import math
import struct
import warnings
import zipfile
import zlib
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from undertow.core.errors import DataError
from undertow.data.inflate import bound_for, too_large

__all__ = ["read_npz"]

_KINDS = "biufcmMSU"
_LONGEST_HEADER = 10_000
_PIECE = 2**20
_MOST_ARRAYS = 10_000
_LEAST_ITEM = 4  # bytes: what an entry takes once it is a float32


def read_npz(content: bytes, name: str, *, axes: int = 2) -> dict[str, NDArray[Any]]:
    """Every array of one to so many axes in an NPZ file; others are passed over unread.

    >>> stream = io.BytesIO()
    >>> np.savez(stream, X=np.eye(2), y=np.array([0, 1]))
    >>> {key: array.tolist() for key, array in read_npz(stream.getvalue(), "t.npz").items()}
    {'X': [[1.0, 0.0], [0.0, 1.0]], 'y': [0, 1]}
    """
    arrays: dict[str, NDArray[Any]] = {}
    bound = left = bound_for(len(content))
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            if len(entries) > _MOST_ARRAYS:
                raise DataError(
                    f"{name} has {len(entries):,} arrays; {_MOST_ARRAYS:,} are the most that are read."
                )
            for entry in entries:
                # Others than these can ask for any amount of memory, and numpy writes none of them.
                if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise DataError(
                        f"{name} is packed in a way that numpy does not use: save it with numpy.savez."
                    )
                with archive.open(entry) as file:
                    shape, fortran, dtype = _header(file)
                    if not 1 <= len(shape) <= axes or dtype.kind not in _KINDS:
                        continue
                    left -= math.prod(shape) * max(dtype.itemsize, _LEAST_ITEM)
                    if left < 0:
                        raise too_large(name, bound)
                    key = entry.filename.removesuffix(".npy")
                    arrays[key] = _values(
                        file, shape, dtype, fortran=fortran, where=f"{name}: the array {key!r}"
                    )
    except (
        ValueError,
        OSError,
        EOFError,
        KeyError,
        RuntimeError,  # encrypted
        NotImplementedError,
        struct.error,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise DataError(
            f"{name} cannot be read as a plain NPZ file (pickled objects are refused): {str(error)[:200]}"
        ) from None
    return arrays


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and kind of the array that follows."""
    version = npy.read_magic(file)
    width = {(1, 0): 2, (2, 0): 4}.get(version)
    if width is None:
        raise ValueError(f"an array of format {version}")
    length = file.read(width)
    if int.from_bytes(length, "little") > _LONGEST_HEADER:
        raise ValueError(f"a header of more than {_LONGEST_HEADER:,} bytes")
    header = io.BytesIO(length + file.read(int.from_bytes(length, "little")))
    read = npy.read_array_header_1_0 if width == 2 else npy.read_array_header_2_0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # headers that Python 2 wrote are read as well
            shape, fortran, dtype = read(header)
    # The header is a Python literal, and a hostile one whatever Python's parser makes of it.
    except (
        SyntaxError,
        TokenError,
        TypeError,
        MemoryError,
        RecursionError,
        AttributeError,
        IndexError,
    ) as error:
        raise ValueError(f"a header that cannot be read ({type(error).__name__})") from None
    if dtype.hasobject:
        raise ValueError("an array of objects")
    if any(size < 0 for size in shape) or not dtype.itemsize:
        raise ValueError(f"an array of shape {str(shape)[:60]} and kind {str(dtype)[:60]}")
    return shape, fortran, dtype


def _values(
    file: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any], *, fortran: bool, where: str
) -> NDArray[Any]:
    data = np.empty(math.prod(shape) * dtype.itemsize, dtype=np.uint8)
    filled = 0
    while filled < data.size and (piece := file.read(min(_PIECE, data.size - filled))):
        data[filled : filled + len(piece)] = np.frombuffer(piece, dtype=np.uint8)
        filled += len(piece)
    if filled < data.size:
        raise DataError(f"{where} is truncated: {filled:,} of {data.size:,} bytes.")
    if dtype.kind == "U" and data.size and data.view(dtype.byteorder + "u4").max() > 0x10FFFF:
        raise DataError(f"{where} is damaged: it holds characters that there are not.")
    return data.view(dtype).reshape(shape, order="F" if fortran else "C")
