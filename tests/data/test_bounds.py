"""What a small file may unpack to: counted while it comes, against the catalogue's size or a limit."""

from __future__ import annotations

import gzip
import io
import logging
import os
import tarfile
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.test_png import encode
from tests.data.tiny import contents, entry
from tests.hostile.data_files import deflated, header, npy, png, zeros, zipped
from undertow.core.errors import DataError, InputError
from undertow.data import load
from undertow.data.archives import read_members, unpack
from undertow.data.catalogue import RawFile
from undertow.data.idx import parse_idx
from undertow.data.inflate import OverrunError, Unpacked, gunzip, largest
from undertow.data.local import State, find, read_verified
from undertow.data.png import decode_png
from undertow.data.splits import stratified_split
from undertow.data.tables import read_table

MEGABYTE = 2**20


@contextmanager
def at_most(megabytes: float) -> Iterator[None]:
    """Fails when more than that is allocated meanwhile."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1] / MEGABYTE
    finally:
        tracemalloc.stop()
    assert peak < megabytes, f"{peak:.0f} MB"


def bomb(megabytes: int, *, claimed: int | None = None) -> bytes:
    rows = megabytes * MEGABYTE // 16
    packed = zeros(megabytes, before=npy(header(shape=f"({rows}, 2)")))
    return zipped({"X.npy": (packed, megabytes * MEGABYTE if claimed is None else claimed)})


def test_an_npz_that_unpacks_to_gigabytes_is_refused_by_its_header() -> None:
    content = bomb(4600)
    assert len(content) < 6 * MEGABYTE
    with at_most(20), pytest.raises(DataError, match=r"more than 268\.4 MB.*UNDERTOW_LARGEST"):
        read_table(content, name="t.npz", label="y")


def test_the_limit_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.BytesIO()
    x, y = np.zeros((200_000, 4)), np.arange(200_000) % 2
    np.savez_compressed(stream, X=x, y=y)
    table = read_table(stream.getvalue(), name="t.npz", label="y")
    assert table.x.shape == (200_000, 4)
    monkeypatch.setenv("UNDERTOW_LARGEST", "1MB")
    with pytest.raises(DataError, match=r"t\.npz unpacks to more than 1\.\d MB|more than 1\.0 MB"):
        read_table(stream.getvalue(), name="t.npz", label="y")
    # What is hardly packed at all is as large as its file says: no limit is needed for that.
    stream = io.BytesIO()
    np.savez(stream, X=x, y=y)
    assert read_table(stream.getvalue(), name="t.npz", label="y").x.shape == (200_000, 4)
    for text, expected in (("2GB", 2 * 10**9), ("1.5 MiB", 1572864), ("", 256 * MEGABYTE), ("77", 77)):
        monkeypatch.setenv("UNDERTOW_LARGEST", text)
        assert largest() == expected
    monkeypatch.setenv("UNDERTOW_LARGEST", "much")
    with pytest.raises(InputError, match="UNDERTOW_LARGEST is 'much'"):
        largest()


def test_bytes_count_as_the_floats_they_become(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERTOW_LARGEST", "4MB")
    packed = zeros(3, before=npy(header("'|u1'", f"({3 * MEGABYTE // 64}, 64)")))
    with pytest.raises(DataError, match="UNDERTOW_LARGEST"):
        read_table(zipped({"X.npy": (packed, 3 * MEGABYTE)}), name="t.npz", label="y")


def test_sizes_in_a_zip_file_may_lie() -> None:
    rows = 60 * MEGABYTE // 16
    long = zipped({"X.npy": (zeros(60, before=npy(header(shape="(4, 2)"))), 100 * MEGABYTE)})
    with at_most(10), pytest.raises(InputError, match="no column 'y'; choose from: X"):  # four rows are read
        read_table(long, name="t.npz", label="y")
    short = zipped({"X.npy": (zeros(0, before=npy(header(shape=f"({rows}, 2)"))), 200)})
    with pytest.raises(DataError, match=r"truncated|plain NPZ"):
        read_table(short, name="t.npz", label="y")
    long_header = zipped(
        {"X.npy": (zeros(60, before=npy(b"", version=2, length=60 * MEGABYTE)), 60 * MEGABYTE)}
    )
    with at_most(10), pytest.raises(DataError, match="a header of more than 10,000 bytes"):
        read_table(long_header, name="t.npz", label="y")


@pytest.mark.parametrize(
    "odd",
    [
        header(shape="(-4, 2)"), header(shape="(9223372036854775807, 4)"), header("'<U0'", "(1000000000000,)"),
        header("[" * 3000), "(" * 9000, "{'descr': " * 300, "1" * 9000, "", header(shape="(" + "9" * 5000 + ",)"),
    ],
)  # fmt: skip
def test_an_odd_header_is_one_sentence(odd: str) -> None:
    with pytest.raises(DataError, match=r"plain NPZ|UNDERTOW_LARGEST|no arrays"):
        read_table(zipped({"y.npy": deflated(npy(odd, bytes(64)))}), name="t.npz", label="y")


def test_what_is_no_array_is_one_sentence() -> None:
    with pytest.raises(DataError, match="plain NPZ"):
        read_table(zipped({"notes.txt": deflated(b"hello")}), name="t.npz", label="y")
    with pytest.raises(DataError, match="characters that there are not"):
        read_table(
            zipped({"y.npy": deflated(npy(header("'<U1'", "(4,)"), b"\xff" * 16))}), name="t.npz", label="y"
        )


def test_a_gzip_bomb_is_stopped_at_the_size_of_the_file_it_should_be(tmp_path: Path) -> None:
    file = entry().files[0]
    path = tmp_path / f"{file.name}.gz"
    path.write_bytes(zeros(200, wbits=31))
    with at_most(5), pytest.raises(DataError, match=r"is damaged: it (unpacks to more|is larger) than"):
        read_verified(path, file)
    unknown = RawFile("table.csv", None, None)
    path.write_bytes(zeros(300, wbits=31))
    with at_most(620), pytest.raises(DataError, match="UNDERTOW_LARGEST"):
        read_verified(path, unknown)


def test_a_file_far_too_large_is_not_read(tmp_path: Path) -> None:
    file = entry().files[0]
    for name in (file.name, f"{file.name}.gz"):
        with (tmp_path / name).open("wb") as sparse:
            sparse.truncate(10**10)
        with at_most(5), pytest.raises(DataError, match="it is larger than"):
            read_verified(tmp_path / name, file)
    with (tmp_path / "t.npz").open("wb") as sparse:
        sparse.truncate(10**10)
    with at_most(5), pytest.raises(DataError, match="UNDERTOW_LARGEST"):
        load(tmp_path / "t.npz", label="y")


def test_pipes_among_the_data_are_no_data(tmp_path: Path) -> None:
    file = entry().files[0]
    os.mkfifo(tmp_path / file.name)
    assert find(entry(), file, [tmp_path])[0].state is State.ABSENT
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(DataError, match="it is a pipe, not a file"):
        load(tmp_path / "t.csv", label="y")


def _tar_header(name: str, size: int, kind: bytes = b"0") -> bytes:
    about = tarfile.TarInfo(name)
    about.size, about.type = size, kind
    return about.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("tiny-train-images", b"0"), ("readme", b"0"), ("x", b"L"), ("x", b"x"), ("tiny-train-images", b"S")],
)
def test_a_tar_bomb_is_stopped(name: str, kind: bytes, tmp_path: Path) -> None:
    path = tmp_path / "tiny.tar.gz"
    path.write_bytes(zeros(300, before=_tar_header(name, 10**9, kind), wbits=31))
    with at_most(10), pytest.raises(DataError, match=r"more than|damaged"):
        unpack(path, entry())


def test_an_archive_of_very_many_members_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tiny.tar.gz"
    path.write_bytes(gzip.compress(_tar_header("a", 0) * 30_000, 1))
    with at_most(40), pytest.raises(DataError, match="more than 20,000 members"):
        read_members(path, {"b": 10}, bound=10**9)


def test_archives_of_every_compression_are_still_read(tmp_path: Path) -> None:
    for mode in ("gz", "bz2", "xz", ""):
        path = tmp_path / f"tiny-{mode}.tar"
        with tarfile.open(path, f"w:{mode}") as tar:  # type: ignore[call-overload]
            for name, content in contents().items():
                about = tarfile.TarInfo(f"deep/{name}")
                about.size = len(content)
                tar.addfile(about, io.BytesIO(content))
        assert unpack(path, entry()) == contents()


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=4), st.integers(1, 40))
def test_counting_changes_nothing_else(parts: list[bytes], step: int) -> None:
    stream = Unpacked(io.BytesIO(b"".join(map(gzip.compress, parts)) + bytes(7)), 10_000)
    pieces = iter(lambda: stream.read(step), b"")
    assert b"".join(pieces) == b"".join(parts)
    whole = b"".join(parts)
    if whole:
        with pytest.raises(OverrunError):
            gunzip(gzip.compress(whole), len(whole) - 1)
    assert gunzip(gzip.compress(whole), len(whole)) == whole


def test_a_picture_is_refused_by_its_header() -> None:
    with at_most(5), pytest.raises(DataError, match="UNDERTOW_LARGEST"):
        decode_png(png(2**31 - 1, 2**31 - 1, zlib.compress(b"")))
    with at_most(5), pytest.raises(DataError, match=r"1×2 in 3 are expected"):
        decode_png(png(10_000, 10_000, zlib.compress(b"")), shape=(1, 2, 3))
    with at_most(5), pytest.raises(DataError, match="more pixels than 4×4"):
        decode_png(png(4, 4, zeros(300, wbits=15)))
    with pytest.raises(DataError, match="0×0 pixels"):
        decode_png(png(0, 0, zlib.compress(b"")))


def test_very_many_slow_lines_are_undone_along_diagonals(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    monkeypatch.setattr("undertow.data.png._FEW", 0)
    for case in range(60):
        shape = (*rng.integers(1, 8, 2), int(rng.integers(1, 5)))
        pixels = rng.integers(0, 256 if case % 2 else 4, shape).astype(np.uint8)
        filters = [4, *rng.integers(0, 5, shape[0] - 1).tolist()]
        assert np.array_equal(decode_png(encode(pixels, filters)), pixels)


def test_sizes_of_an_idx_file_whose_product_overflows() -> None:
    four_times = b"\0\1\0\0" * 4  # 65,536⁴ = 2⁶⁴, which is 0 in 64 bits
    with pytest.raises(DataError, match="but holds 0 values"):
        parse_idx(b"\0\0\x08\x04" + four_times)
    with pytest.raises(DataError, match="but holds 1 values"):
        parse_idx(bytes([0, 0, 8, 100]) + b"\0\0\0\1" * 100 + b"\7")


def test_a_nul_in_a_cell_is_named_with_its_column(caplog: pytest.LogCaptureFixture) -> None:
    content = "y,a,b\n" + "".join(f"{i % 2},{i},{i}\n" for i in range(20)) + "0,1\x002,3\n"
    with caplog.at_level(logging.WARNING, "undertow.data"):
        table = read_table(content.encode(), name="nul.csv", label="y")
    assert table.features == ("b",)
    (said,) = caplog.messages
    assert "the column 'a' is left out of the features: 1 of its 21 entries is no number" in said
    assert "row 21, '1\\x002'" in said
    caplog.clear()
    with caplog.at_level(logging.WARNING, "undertow.data"):
        read_table(content.encode(), name="nul.csv", label="y")  # said once
        read_table(b"y,a,t\n0,1,x\n1,2,z\n", name="texts.csv", label="y")  # text is no mistake
    assert not caplog.messages
    labels = "y,a\n0,1\n1,2\n" * 9 + "1\x00,3\n"
    with caplog.at_level(logging.WARNING, "undertow.data"):
        read_table(
            labels.replace("y,a\n0", "y,a\n0", 1).replace("\ny,a", "").encode(), name="l.csv", label="y"
        )
    assert "the label column 'y' has a NUL character in row 19" in caplog.messages[0]


def test_a_matrix_is_no_column_of_labels() -> None:
    stream = io.BytesIO()
    np.savez(stream, X=np.zeros((4, 2)), y=np.arange(4) % 2)
    with pytest.raises(InputError, match="'X' is a matrix"):
        read_table(stream.getvalue(), name="t.npz", label="X")


def test_thousands_of_classes_of_two_rows_are_no_classes() -> None:
    content = "y,a\n" + "".join(f"{i // 2},{i}\n" for i in range(6000))
    with pytest.raises(DataError, match="3000 different values in 6000 rows: it does not look like classes"):
        read_table(content.encode(), name="t.csv", label="y")


def test_as_many_classes_as_pairs_of_rows() -> None:
    labels = np.repeat(np.arange(30_000), 2)
    with at_most(60):
        train, test = stratified_split(labels)
    assert len(test) == 12_000
    assert len(np.unique(labels[train])) == 30_000


@pytest.mark.parametrize("path", ["~nobody-of-that-name/t.csv", "x/" * 3000 + "t.csv", "a\0b.csv", "."])
def test_a_path_that_cannot_be_is_one_sentence(path: str) -> None:
    with pytest.raises((DataError, InputError)):
        load(path, label="y")


def test_texts_of_a_parquet_file_are_not_unpacked_unless_they_are_the_labels() -> None:
    polars = pytest.importorskip("polars")
    stream = io.BytesIO()
    columns = {
        "y": ["a", "b"] * 50,
        "a": range(100),
        "t": ["x" * 10**6 + str(i) for i in range(100)],
        "l": [[0] * 9] * 100,
    }
    polars.DataFrame(columns).write_parquet(stream)
    table = read_table(stream.getvalue(), name="t.parquet", label="y")
    assert table.features == ("a",)
    assert table.classes == ("a", "b")
    with pytest.raises(InputError, match="the column 't' holds text"):
        read_table(stream.getvalue(), name="t.parquet", label="y", features=["a", "t"])
    with pytest.raises(InputError, match="'l' holds neither numbers nor text"):
        read_table(stream.getvalue(), name="t.parquet", label="l")


def test_a_parquet_file_of_very_many_rows_is_refused_by_its_footer(monkeypatch: pytest.MonkeyPatch) -> None:
    polars = pytest.importorskip("polars")
    stream = io.BytesIO()
    polars.select(y=polars.repeat(True, 10**6), a=polars.repeat(0, 10**6, dtype=polars.UInt8)).write_parquet(
        stream
    )
    assert len(stream.getvalue()) < 10**5
    monkeypatch.setenv("UNDERTOW_LARGEST", "4MB")
    with at_most(5), pytest.raises(DataError, match="UNDERTOW_LARGEST"):
        read_table(stream.getvalue(), name="t.parquet", label="y")
