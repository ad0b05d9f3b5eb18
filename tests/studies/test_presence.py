"""Whether a data set is here: looked at once, but asked again of other folders and of what was missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.data import tiny
from undertow.data import local
from undertow.data.catalogue import CATALOGUE, RawFile
from undertow.studies.kit.presence import present

READ = 1  # the smallest file tells whose they are; of the others sizes are enough


@pytest.fixture
def verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files whose checksums were computed so far; data are looked for in ``tmp_path / "data"``."""
    monkeypatch.setitem(CATALOGUE, "tiny", tiny.entry())
    monkeypatch.setenv("UNDERTOW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("UNDERTOW_DATA", str(tmp_path / "data"))
    seen: list[Path] = []
    verify = local.read_verified

    def counted(path: Path, file: RawFile) -> bytes:
        seen.append(path)
        return verify(path, file)

    monkeypatch.setattr(local, "read_verified", counted)
    return seen


def test_it_reads_one_file_once(verified: list[Path], tmp_path: Path) -> None:
    tiny.write_gz(tmp_path / "data" / "tiny")
    assert [present("tiny") for _ in range(3)] == [True] * 3
    assert len(verified) == READ


def test_it_notices_another_folder(
    verified: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny.write_gz(tmp_path / "data" / "tiny")
    assert present("tiny")
    monkeypatch.setenv("UNDERTOW_DATA", str(tmp_path / "elsewhere"))
    assert not present("tiny")
    tiny.write_gz(tmp_path / "elsewhere" / "tiny")
    assert present("tiny")
    assert {path.parent.parent.name for path in verified} == {"data", "elsewhere"}


def test_what_was_missing_may_have_been_fetched(verified: list[Path], tmp_path: Path) -> None:
    assert not present("tiny")
    tiny.write_gz(tmp_path / "data" / "tiny")
    assert present("tiny")
    assert len(verified) == READ


def test_a_damaged_copy_does_not_count(verified: list[Path], tmp_path: Path) -> None:  # noqa: ARG001
    tiny.write_gz(tmp_path / "data" / "tiny")
    for name in tiny.contents():
        kept = (tmp_path / "data" / "tiny" / f"{name}.gz").read_bytes()
        for damaged in (b"no gzip", b"", kept[:-7]):
            (tmp_path / "data" / "tiny" / f"{name}.gz").write_bytes(damaged)
            assert not present("tiny")
        (tmp_path / "data" / "tiny" / f"{name}.gz").write_bytes(kept)
    assert present("tiny")


def test_files_of_another_set_with_the_same_names_and_sizes_do_not_count(
    verified: list[Path],  # noqa: ARG001
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As MNIST's files in one folder are not Fashion-MNIST's."""
    tiny.write_gz(tmp_path / "data")
    assert present("tiny")
    whole = tiny.entry()
    other = [replace(file, md5="0" * 32) for file in whole.files]
    monkeypatch.setitem(CATALOGUE, "other", replace(whole, name="other", files=tuple(other)))
    assert not present("other")
