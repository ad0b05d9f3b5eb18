"""Servers and sweeps in processes of their own, and requests byte by byte."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

UNDERTOW = [sys.executable, "-c", "from undertow.cli import main; main()"]
LONG = """
name = "long"
[data]
name = "kou-mixture"
n = 6
d = 12
[model]
name = "two-layer"
width = 8
init = {name = "gaussian", std = 0.1}
[training]
learning_rate = 0.001
epochs = 10000000
[probe]
measures = ["stable-rank", "loss"]
every = 500
[grid]
std = [0.1, 1.0]
seed = [0, 1]
"""


@dataclass(frozen=True)
class Answer:
    """What came back over a socket; ``status`` is 0 where the server hung up without a word."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Server:
    """A running ``undertow live``."""

    process: subprocess.Popen[str]
    url: str

    @property
    def port(self) -> int:
        return urllib.parse.urlsplit(self.url).port or 0

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def raw(self, request: bytes) -> Answer:
        """Send bytes, read the answer to its end."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            with contextlib.suppress(OSError):  # it may hang up before it has heard all
                connection.sendall(request)
            response = http.client.HTTPResponse(
                connection, method=request.partition(b" ")[0].decode("latin-1")
            )
            try:
                response.begin()
                headers = {name.lower(): value for name, value in response.getheaders()}
                return Answer(response.status, headers, response.read())
            except (OSError, http.client.HTTPException):
                return Answer(0, {}, b"")

    def get(self, path: str, *lines: str, method: str = "GET", host: str | None = None) -> Answer:
        """One request; the path goes out as it is, unlike with any library."""
        named = f"127.0.0.1:{self.port}" if host is None else host
        head = [f"{method} {path} HTTP/1.1", f"Host: {named}", "Connection: close", *lines]
        return self.raw("\r\n".join([*head, "", ""]).encode("latin-1"))

    def event(self, kind: str, until: Callable[[dict[str, Any]], bool] = lambda _: True) -> dict[str, Any]:
        """The first event of a kind that will do."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=40)
        connection.request("GET", "/events")
        stream = connection.getresponse()
        name = ""
        try:
            while line := stream.fp.readline().decode():
                if line.startswith("event: "):
                    name = line[7:].strip()
                elif line.startswith("data: ") and name == kind:
                    document: dict[str, Any] = json.loads(line[6:])
                    if until(document):
                        return document
        finally:
            connection.close()
        raise AssertionError(f"no {kind} came")


@contextlib.contextmanager
def live(runs: Path, *options: str) -> Iterator[Server]:
    """``undertow live RUNS``, ended afterwards."""
    command = [*UNDERTOW, "live", str(runs), *(options if "--port" in options else (*options, "--port", "0"))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline() for _ in range(2)]
        assert lines[1].startswith("http://"), lines
        wait_for(lambda: _answers(urllib.parse.urlsplit(lines[1]).port or 0))
        yield Server(process, lines[1].strip())
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(timeout=10)


@contextlib.contextmanager
def sweeping(runs: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A sweep in a process of its own; killed afterwards, if that was not done before."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        [*UNDERTOW, *command], env=environment, stdout=quiet, stderr=quiet, cwd=runs.parent
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(timeout=10)


def wait_for(condition: Callable[[], bool], *, seconds: float = 40.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
