from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import pytest

from tests.data.tiny import serve
from undertow.core.errors import DataError
from undertow.data.download import download, scratch_folder, write_atomically


def test_a_file_arrives_whole(tmp_path: Path) -> None:
    content = os.urandom(700_000)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "a.bin").write_bytes(content)
    with serve(tmp_path / "site") as address:
        download(f"{address}/a.bin", tmp_path / "a.bin")
        assert (tmp_path / "a.bin").read_bytes() == content
        with pytest.raises(DataError, match="answers 404"):
            download(f"{address}/b.bin", tmp_path / "b.bin")


def test_no_network_is_noticed_at_once(tmp_path: Path) -> None:
    start = time.monotonic()
    with pytest.raises(DataError, match=r"nowhere\.invalid cannot be found"):
        download("http://nowhere.invalid/a", tmp_path / "a")
    with pytest.raises(DataError, match="refused"):
        download(f"http://127.0.0.1:{_free_port()}/a", tmp_path / "a")
    assert time.monotonic() - start < 9


def test_a_silent_server_and_a_broken_connection(tmp_path: Path) -> None:
    answers = [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"]
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/a"
        finished = threading.Event()

        def answer() -> None:
            for text in answers:
                connection, _ = server.accept()
                with connection:
                    connection.recv(1000)
                    connection.sendall(text)
                    if not text:
                        finished.wait(10)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        with pytest.raises(DataError, match=r"no answer in time|timed out"):
            download(url, tmp_path / "a", timeout=0.3)
        finished.set()
        with pytest.raises(DataError, match=r"broke off after 4 of 100|IncompleteRead|4 bytes read"):
            download(url, tmp_path / "a", timeout=5)
        thread.join(10)


def test_writes_are_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a"
    write_atomically(path, b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert [p.name for p in path.parent.iterdir()] == ["a"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DataError, match="UNDERTOW_CACHE"):
        write_atomically(tmp_path / "file" / "a", b"x")
    with pytest.raises(DataError, match="UNDERTOW_CACHE"), scratch_folder(tmp_path / "file"):
        pass


def test_scratch_folders_are_removed(tmp_path: Path) -> None:
    with scratch_folder(tmp_path) as scratch:
        (scratch / "a").write_bytes(b"x")
    assert not list(tmp_path.iterdir())


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
