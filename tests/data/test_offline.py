"""Nothing is downloaded unsaid, and nothing at all with --offline."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.data.tiny import contents, entry, serve, write_gz
from tests.test_cli import call
from undertow.core.errors import DataError
from undertow.data.catalogue import CATALOGUE
from undertow.data.offline import offline, staying_offline
from undertow.data.sources import obtain

STUDY = """
[data]
name = "mnist"
limit = 10
[model]
name = "two-layer"
width = 4
[training]
epochs = 1
"""


def test_a_download_is_announced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_gz(tmp_path / "site")
    with serve(tmp_path / "site") as address:
        tiny = entry(mirrors=(f"{address}/{{name}}.gz",))
        assert obtain(tiny, tiny.files) == contents()
    said = capsys.readouterr().err
    assert said.startswith("Downloading tiny (4 files, 438 bytes unpacked) from a mirror at 127.0.0.1 to ")
    assert obtain(tiny, tiny.files) == contents()
    assert capsys.readouterr().err == ""  # it is here now


def test_offline_nothing_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_gz(tmp_path / "site")
    with serve(tmp_path / "site") as address:
        tiny = entry(mirrors=(f"{address}/{{name}}.gz",))
        with (
            staying_offline(True),
            pytest.raises(DataError, match=r"switched off \(--offline, or UNDERTOW_OFFLINE\)"),
        ):
            obtain(tiny, tiny.files)
        assert not offline()
        with staying_offline(False):
            assert obtain(tiny, tiny.files) == contents()
    assert "Downloading" in capsys.readouterr().err


def test_commands_refuse_offline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.toml").write_text(STUDY)
    runs = tmp_path / "runs"
    assert call("run", tmp_path / "mine.toml", "--runs", runs, "--offline") == 1
    said = capsys.readouterr().err
    assert "mnist is not complete on this machine: it needs train-images-idx3-ubyte" in said
    assert "t10k" not in said  # the test set is not asked for
    assert "Downloading is switched off (--offline" in said
    assert not runs.exists()
    assert call("data", "fetch", "mnist", "--offline") == 1
    assert "Downloading is switched off" in capsys.readouterr().err
    assert call("data", "fetch", "digits", "--offline") == 0


def test_what_cannot_be_had_is_said_once_and_leaves_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unreachable = entry(mirrors=("http://127.0.0.1:9/{name}.gz",))
    monkeypatch.setitem(CATALOGUE, "mnist", unreachable)
    (tmp_path / "mine.toml").write_text(STUDY + "[grid]\nseed = [0, 1]\n")
    run = ("run", tmp_path / "mine.toml", "--runs", tmp_path / "runs", "--engine", "here")
    assert call(*run, "--group_size", "1") == 1
    printed = capsys.readouterr()
    assert printed.err.count("Downloading tiny") == 1  # not once for each group
    assert "What was tried: http://127.0.0.1:9/" in printed.out
    assert "0 of 2 trials finished" in printed.out
    assert not offline()
