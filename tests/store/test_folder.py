"""Reading a folder without ever leaving it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from undertow.store.folder import Folder, Growing


@pytest.fixture
def place(tmp_path: Path) -> Path:
    root = tmp_path / "runs"
    (root / "inside").mkdir(parents=True)
    (root / "inside" / "file").write_text("inside")
    (tmp_path / "secret").write_text("secret")
    return root


def test_links_are_not_followed_wherever_they_are(place: Path) -> None:
    (place / "link").symlink_to(place.parent / "secret")
    (place / "inside" / "loop").symlink_to(place)
    (place / "elsewhere").symlink_to(place.parent)
    folder = Folder(place)
    assert folder.read("inside", "file") == b"inside"
    for names in [("link",), ("elsewhere", "secret"), ("inside", "loop", "inside", "file")]:
        assert folder.read(*names) is None
        assert folder.stamp(*names) is None
    assert folder.names() == ["inside"]
    assert folder.names("elsewhere") == []


def test_the_folder_itself_may_be_a_link(place: Path) -> None:
    (place.parent / "alias").symlink_to(place)
    assert Folder(place.parent / "alias").read("inside", "file") == b"inside"


@pytest.mark.parametrize(
    "names",
    [("..", "secret"), ("inside", "..", "file"), ("/etc/passwd",), ("",), ("a\0b",), ("inside/file",)],
)
def test_names_that_are_paths_are_refused(names: tuple[str, ...], place: Path) -> None:
    assert Folder(place).read(*names) is None


def test_what_is_no_file_is_not_read_nor_waited_for(place: Path) -> None:
    os.mkfifo(place / "pipe")
    assert Folder(place).read("pipe") is None
    assert Folder(place).read("inside") is None
    assert Folder(place).read("missing") is None
    assert Folder(place / "nowhere").names() == []


def test_a_listing_is_never_old(place: Path) -> None:
    folder = Folder(place)
    for count in range(50):  # many changes within one tick of the file system's clock
        (place / "inside" / f"new-{count}").touch()
        assert len(folder.names("inside")) == count + 2
    long_ago = 10**18
    os.utime(place / "inside", ns=(long_ago, long_ago))
    assert folder.names("inside") is folder.names("inside")  # settled: not listed again
    (place / "inside" / "last").touch()
    assert "last" in folder.names("inside")


def test_growing_lines_are_given_once_and_whole(place: Path) -> None:
    path = place / "lines"
    growing = Growing(Folder(place), "lines")
    assert growing.more() == (b"", False)
    path.write_bytes(b"one\ntw")
    assert growing.more() == (b"one\n", True)
    assert growing.more() == (b"", False)
    with path.open("ab") as file:
        file.write(b"o\nthree\n")
    assert growing.more() == (b"two\nthree\n", False)
    other = place / "other"
    other.write_bytes(b"one\ntwo\nthree\nfour\n")
    other.replace(path)
    assert growing.more() == (b"one\ntwo\nthree\nfour\n", True)
    path.write_bytes(b"one\n")
    assert growing.more() == (b"one\n", True)
