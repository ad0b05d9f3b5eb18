"""The server against requests that mean no good. Raw sockets: libraries would tidy them up."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.execution.sweeps import tiny_study
from tests.live.serving import Server, live
from tests.test_cli import call
from undertow.execution.engines.here import Here
from undertow.execution.sweep import sweep
from undertow.store.failures import write_failure
from undertow.store.store import Store

SECRET = "the-secret-of-the-house"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with links to what is outside, put there by someone else."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.txt").write_text(f"group: aaaa\ntrials: t\n\n{SECRET}\n")
    runs = outside / "runs"
    study = tiny_study(name=SECRET, grid={"seed": [0]})
    sweep(Store(outside / "other"), study, engine=Here())
    store = Store(runs)
    sweep(store, tiny_study(grid={"seed": [1, 2]}), engine=Here())
    for label in store.labels():
        assert SECRET not in label
    (runs / "studies" / f"{SECRET}.own.own.json").symlink_to(
        outside / "other" / "studies" / f"{study.label}.json"
    )
    (runs / "trials" / "0123456789abcdef").symlink_to(outside / "other" / "trials" / study.points[0].trial.id)
    write_failure(runs, "bbbb", ["t"], sentence="an honest failure")
    (runs / "failures" / "aaaa.txt").symlink_to(outside / "secret.txt")
    (runs / "locks").mkdir(exist_ok=True)
    (runs / "work").rename(outside / "work")
    (runs / "work").symlink_to(outside / "work")
    return runs


@pytest.fixture(scope="module")
def server(runs: Path) -> Iterator[Server]:
    before = tree(runs)
    with live(runs) as server:
        server.event("state")
        yield server
    assert tree(runs) == before, "the server has written into the folder of runs"


def tree(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): (
            hashlib.sha256(path.read_bytes()).hexdigest()
            if path.is_file()
            else f"folder {path.stat().st_mtime_ns}"
        )
        for path in folder.rglob("*")
    }


def test_the_page_is_served_with_all_its_marks(server: Server) -> None:
    answer = server.get("/")
    assert answer.status == 200
    assert b"<title>undertow live</title>" in answer.body
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http:" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["x-frame-options"] == "DENY"
    assert "server" not in answer.headers
    assert "access-control-allow-origin" not in answer.headers
    assert "set-cookie" not in answer.headers
    head = server.get("/", method="HEAD")
    assert (head.status, head.body) == (200, b"")
    assert server.get("/events", method="HEAD").status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt",
        "/../../../../../../etc/passwd",
        "/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/..%2f..%2f..%2fetc%2fpasswd",
        "/%252e%252e/secret.txt",
        "/..\\..\\secret.txt",
        "//etc/passwd",
        "/page/../../../../etc/passwd",
        "/page.css/../../secret.txt",
        "/page.js%00.css",
        "/trials/0123456789abcdef/config.json",
        "/failures/aaaa.txt",
        "/studies",
        "http://elsewhere.example/secret.txt",
        "/failure?group=aaaa",
        "/failure?group=../../secret",
        "/failure?group=%2e%2e%2f%2e%2e%2fsecret",
        "/trials?label=../../etc&state=finished",
        "/trials?label=tiny.own.own&state=../..",
        "/curves?label=../../../etc/passwd&measure=loss&key=mean",
        "/curves?label=tiny.own.own&since=-1",
        "/curves?label=tiny.own.own&since=²",
    ],
)
def test_no_path_leads_out(path: str, server: Server) -> None:
    answer = server.get(path)
    assert answer.status in (0, 400, 404, 421)
    assert SECRET.encode() not in answer.body
    assert b"root:" not in answer.body
    if answer.status == 404:
        assert "content-security-policy" in answer.headers


def test_links_in_the_folder_are_not_followed(server: Server) -> None:
    state = server.event("state")
    assert [part["study"] for part in state["parts"]] == ["tiny"]
    assert state["counts"]["finished"] == 2
    assert [failure["group"] for failure in state["failures"]] == ["bbbb"]
    assert SECRET not in str(state)
    assert b"an honest failure" in server.get("/failure?group=bbbb").body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"])
@pytest.mark.parametrize("path", ["/", "/curves", "/nowhere"])
def test_nothing_can_be_changed(method: str, path: str, server: Server) -> None:
    answer = server.get(path, "Content-Length: 0", method=method)
    assert answer.status == 405
    assert answer.headers["allow"] == "GET, HEAD"


def test_a_body_is_refused(server: Server) -> None:
    host = f"Host: 127.0.0.1:{server.port}\r\nConnection: close\r\n"
    for head in (
        "Content-Length: 5\r\n\r\nhello",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ):
        assert server.raw(f"GET / HTTP/1.1\r\n{host}{head}".encode()).status in (400, 413)
    assert server.raw(f"POST / HTTP/1.1\r\n{host}Content-Length: 999999999999\r\n\r\n".encode()).status == 405
    assert server.raw(f"GET / HTTP/1.1\r\n{host}Content-Length: -1\r\n\r\n".encode()).status == 400


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /" + b"a" * 300_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"a" * 300_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-Many: a\r\n" * 30_000 + b"\r\n",
        b"GET /?" + b"q" * 4000 + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 10 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"\r\n" * 10 + b"nonsense\r\n\r\n",
    ],
    ids=["line", "header", "headers", "query", "tls", "space", "nonsense"],
)
def test_oversized_and_malformed_requests_are_refused(request_bytes: bytes, server: Server) -> None:
    assert server.raw(request_bytes).status in (0, 400, 414, 431)
    assert server.get("/").status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", "user@localhost",
     "localhost/evil", "192.168.7.7", "[::2]", "", "0.0.0.0", "localhost:x", "[::1"],
)  # fmt: skip
def test_foreign_names_are_refused(host: str, server: Server) -> None:
    assert server.get("/", host=host).status in (400, 421)
    assert server.get("/events", host=host).status in (400, 421)


def test_our_names_are_answered_also_through_a_tunnel(server: Server) -> None:
    for host in ("localhost", "LOCALHOST:1234", "127.0.0.1", "[::1]:8000"):
        assert server.get("/", host=host).status == 200
    assert server.raw(b"GET / HTTP/1.0\r\n\r\n").status == 421
    twice = b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    assert server.raw(twice).status in (400, 421)


def test_pages_of_other_sites_may_link_here_but_not_read(server: Server) -> None:
    assert server.get("/events", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors").status == 403
    assert server.get("/page.js", "Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: no-cors").status == 403
    assert server.get("/", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate").status == 200


def test_by_default_only_this_machine_is_answered(server: Server) -> None:
    addresses = {each[4][0] for each in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in addresses - {"127.0.0.1", "127.0.1.1"}:
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((str(address), server.port), timeout=2)


def test_any_other_address_needs_the_token(runs: Path) -> None:
    with live(runs, "--host", "0.0.0.0") as server:
        token = server.url.partition("?token=")[2]
        assert len(token) >= 32
        for path in ("/", "/page.js", "/events", "/curves", "/nowhere", "/?token=", "/?token=wrong", "/?token=%FF",
                     f"/?token={token[:-1]}", f"/?token={token}x", f"/?Token={token}"):  # fmt: skip
            assert server.get(path).status == 401, path
        answer = server.get(f"/?token={token}")
        assert answer.status == 200
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert token not in cookie
        kept = cookie.partition(";")[0]
        assert server.get("/page.js", f"Cookie: {kept}").status == 200
        assert server.get("/page.js", f"Cookie: {kept[:-1]}").status == 401
        assert server.get("/page.js", f"Cookie: {kept.partition('=')[0]}={token}").status == 401
        assert server.get(f"/?token={token}", host="evil.example").status == 421
        assert server.get("/", host="192.168.7.7").status == 401  # a number may lead here; the token decides


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--port", "70000"), "a port is a number from 0"),
        (("--host", "203.0.113.1"), "choose another --host"),
        (("--token", " "), "--token is empty"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(
    options: tuple[str, str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("live", tmp_path, *options) == 2
    assert sentence in capsys.readouterr().err


def test_a_port_in_use_and_a_file_are_one_sentence_too(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("live", tmp_path, "--port", str(server.port)) == 2
    assert "choose another --port" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert call("live", tmp_path / "file") == 2
    assert "is a file" in capsys.readouterr().err


def test_a_token_of_ones_own(runs: Path) -> None:
    with live(runs, "--token", "hush & more") as server:
        assert server.url.endswith("?token=hush%20%26%20more")
        assert server.get("/").status == 401
        assert server.get("/?token=hush%20%26%20more").status == 200


def test_half_sent_requests_keep_nobody_out(runs: Path) -> None:
    with live(runs) as server, contextlib.ExitStack() as stack:
        half = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=30))
            for _ in range(80)
        ]
        for connection in half:
            with contextlib.suppress(ConnectionError):  # the first are cut off for the last
                connection.sendall(b"GET / HTTP/1.1\r\nHost: loc")
        assert server.get("/").status == 200
        assert server.event("state")["counts"]["finished"] == 2
        # A byte now and then buys no time.
        with contextlib.suppress(ConnectionError):
            for _ in range(3):
                time.sleep(0.5)
                half[-1].sendall(b"a")
        for connection in half:
            with contextlib.suppress(ConnectionError):
                assert connection.recv(100) == b""  # hung up on, all of them
        assert server.get("/").status == 200


def test_a_second_request_half_sent_is_hung_up_on_too(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(b"GET /icon.svg HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(15) == b"HTTP/1.1 200 OK"
        connection.sendall(b"GET /icon.svg HTT")
        rest = b""
        with contextlib.suppress(ConnectionError):
            while piece := connection.recv(65536):
                rest += piece
        assert rest.count(b"HTTP/1.1 200") == 0
