"""Whether a data set is here: verified once, but asked again of other folders and of what was missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.data import tiny
from undertow.data import local
from undertow.data.catalogue import CATALOGUE, RawFile
from undertow.studies.kit.presence import present

FILES = len(tiny.contents())


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


def test_it_verifies_once(verified: list[Path], tmp_path: Path) -> None:
    tiny.write_gz(tmp_path / "data" / "tiny")
    assert [present("tiny") for _ in range(3)] == [True] * 3
    assert len(verified) == FILES


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
    assert len(verified) == FILES


def test_a_damaged_copy_does_not_count(verified: list[Path], tmp_path: Path) -> None:
    tiny.write_gz(tmp_path / "data" / "tiny")
    (tmp_path / "data" / "tiny" / "tiny-test-labels.gz").write_bytes(b"no gzip")
    assert not present("tiny")
    assert len(verified) == FILES
