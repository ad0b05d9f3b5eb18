"""Parcels in files of limited size: cut anywhere, found together from any files, whole or not there."""

from __future__ import annotations

import io
import lzma
import random
import tarfile
from pathlib import Path

import pytest

from undertow.core.canonical import digest
from undertow.core.errors import InputError
from undertow.store.pieces import Parcel, cut, read_pieces, write_pieces

LARGEST = 40_000


def contents() -> list[bytes]:
    """Noise, which does not shrink, from nothing at all to some files' worth, and lines, which do."""
    noise = random.Random(0)
    sizes = (0, 1, 511, 512, 513, 37_000, 38_911, 38_912, 38_913, 150_000)
    return [*(noise.randbytes(size) for size in sizes), b"a line of records\n" * 5000]


def packed(folder: Path, *, most: int | None = None) -> tuple[list[Path], list[Parcel]]:
    pieces, without = cut(map(Parcel.of, contents()), largest=LARGEST, most=most)
    return write_pieces(folder, pieces), without


def test_parcels_arrive_from_files_of_limited_size(tmp_path: Path) -> None:
    paths, without = packed(tmp_path / "new")
    assert not without
    assert len(paths) > 5
    assert max(path.stat().st_size for path in paths) <= LARGEST
    # Full ones: what a machine brings back is counted in files, too.
    assert sorted(path.stat().st_size for path in paths)[1] > 0.95 * (LARGEST // 10240 * 10240)
    arrived = read_pieces(tmp_path / "new")
    assert sorted(arrived.contents) == sorted(contents())
    assert set(arrived.whole) == set(paths)
    assert arrived.notes == ()
    assert {path.name for path in packed(tmp_path / "again")[0]} == {path.name for path in paths}


def test_what_finds_no_place_is_told_and_the_rest_is_whole(tmp_path: Path) -> None:
    paths, without = packed(tmp_path, most=3)
    assert len(paths) == 3
    rest = {digest(lzma.decompress(parcel.packed)) for parcel in without}
    arrived = read_pieces(tmp_path)
    assert {digest(content) for content in arrived.contents} | rest == set(map(digest, contents()))
    assert digest(contents()[-1]) not in rest  # small ones find a place behind what is too large
    assert arrived.notes == ()


def test_parcels_that_were_cut_in_other_places_are_the_same(tmp_path: Path) -> None:
    paths, _ = packed(tmp_path)
    others, _ = cut(map(Parcel.of, reversed(contents())), largest=61_440)
    more = write_pieces(tmp_path, others)
    for path in (paths[0], paths[3], more[0]):
        path.unlink()
    arrived = read_pieces(tmp_path)
    assert sorted(arrived.contents) == sorted(contents())
    assert arrived.notes == ()


def test_a_missing_file_is_missed_by_its_own_parcels_alone(tmp_path: Path) -> None:
    paths, _ = packed(tmp_path)
    whole = read_pieces(tmp_path).contents
    paths[2].unlink()
    arrived = read_pieces(tmp_path)
    assert 0 < len(arrived.contents) < len(whole)
    assert set(arrived.contents) < set(whole)
    assert any("bytes are missing; bring the other files as well." in note for note in arrived.notes)
    assert not set(arrived.whole) & {paths[1], paths[3]}  # they hold the beginning and the rest of something


@pytest.mark.parametrize("renamed", [False, True])
@pytest.mark.parametrize("place", [0.02, 0.3, 0.6, 0.8])
def test_no_damage_goes_unseen(place: float, renamed: bool, tmp_path: Path) -> None:
    path = packed(tmp_path)[0][1]
    data = bytearray(path.read_bytes())
    data[int(place * len(data))] ^= 16
    if renamed:  # a file's name says what its content is, where it still has it
        path = path.rename(tmp_path / "by-hand.pack")
    path.write_bytes(data)
    arrived = read_pieces(tmp_path)
    assert set(arrived.contents) < set(contents())
    assert arrived.notes
    for cut_short in (0, 1, 700, 10_240):
        path.write_bytes(bytes(data[:cut_short]))
        assert set(read_pieces(tmp_path).contents) < set(contents())


def test_files_that_mean_no_good_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("undertow.store.pieces._LARGEST_CONTENT", 2**20)

    def tar(name: str, data: bytes, kind: bytes = tarfile.REGTYPE) -> bytes:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as out:
            about = tarfile.TarInfo(name)
            about.size, about.type, about.linkname = len(data), kind, "/etc/passwd"
            out.addfile(about, io.BytesIO(data))
        return buffer.getvalue()

    bomb = lzma.compress(bytes(2**20 + 1), preset=0)
    name = f"{digest(bomb)}.0-of-{len(bomb)}"
    write_pieces(tmp_path, [tar(name, bomb)])
    (tmp_path / "link.pack").write_bytes(tar(f"{'0' * 64}.0-of-5", b"", tarfile.SYMTYPE))
    (tmp_path / "path.pack").write_bytes(tar("../../out", b"there"))
    (tmp_path / "none.pack").write_bytes(b"\x1f\x8b nothing of the kind")
    (tmp_path / "folder.pack").mkdir()
    arrived = read_pieces(tmp_path)
    assert arrived.contents == ()
    assert arrived.whole == ()
    assert len(arrived.notes) == 5


def test_a_folder_that_is_not_there_is_empty_and_files_have_a_least_size(tmp_path: Path) -> None:
    assert read_pieces(tmp_path / "nowhere").contents == ()
    with pytest.raises(InputError, match="20480"):
        cut([], largest=20_000)
