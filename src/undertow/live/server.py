"""The web server behind ``undertow live``: where it listens, whom it lets in, how it ends."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import secrets
import signal
import socket
import urllib.parse
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from undertow.core.errors import ConfigError
from undertow.live.answers import routes
from undertow.live.guard import Guard, is_loopback
from undertow.live.hub import Hub
from undertow.live.patience import MOST_WAITING, PatientProtocol

__all__ = ["Address", "application", "serve"]

_LARGEST_HEAD = 16 * 1024  # bytes of request line and headers
_MOST_ANSWERED = 64  # pages that are open, and answers on their way


@dataclass(frozen=True)
class Address:
    """Where the page is: what was asked for, the port that was got, and the token where one is needed."""

    host: str
    port: int
    token: str | None

    @property
    def url(self) -> str:
        """To be opened in a browser."""
        wildcard = not is_loopback(self.host) and _is_wildcard(self.host)
        host = socket.gethostname() if wildcard else self.host
        place = f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"
        return place if self.token is None else f"{place}?token={urllib.parse.quote(self.token, safe='')}"


def application(runs: Path, address: Address) -> tuple[Guard, Hub]:
    """The guarded application and the hub behind it."""
    hub = Hub(runs)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await hub.close()

    hosts = {"localhost", "127.0.0.1", "::1", address.host.lower()}
    wildcard = _is_wildcard(address.host)
    if wildcard:
        hosts |= {socket.gethostname().lower(), socket.getfqdn().lower()}
    guard = Guard(
        Starlette(routes=routes(hub), lifespan=lifespan),
        hosts=hosts,
        addresses=wildcard,
        token=address.token,
        cookie=f"undertow-{address.port}",  # browsers do not tell ports apart
    )
    return guard, hub


def serve(
    runs: Path, *, host: str, port: int, token: str | None, ready: Callable[[Address], None] = lambda _: None
) -> None:
    """Serve the page until interrupted; ``ready`` is told the address once it can be opened."""
    if runs.exists() and not runs.is_dir():
        raise ConfigError(f"{runs} is a file: name the folder that holds the runs.")
    if not is_loopback(host):
        token = token or secrets.token_urlsafe(24)
    with _listen(host, port) as listener:
        address = Address(host, listener.getsockname()[1], token)
        guard, hub = application(runs, address)
        config = uvicorn.Config(
            guard,
            http=PatientProtocol,
            ws="none",
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=_LARGEST_HEAD,
            limit_concurrency=_MOST_ANSWERED + MOST_WAITING,
            timeout_keep_alive=4,
            timeout_graceful_shutdown=2,
        )
        server = _Server(config, hub)
        ready(address)
        server.run(sockets=[listener])


class _Server(uvicorn.Server):
    """Ends the event streams on the first signal: they would keep the server waiting for ever.

    And does not raise the signal again afterwards, as uvicorn's own does: being stopped is how this one ends.
    """

    def __init__(self, config: uvicorn.Config, hub: Hub) -> None:
        super().__init__(config)
        self._hub = hub

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self._hub.hang_up()
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OverflowError:
        raise ConfigError(f"--port {port}: a port is a number from 0 (any that is free) to 65535.") from None
    except OSError as error:
        taken = error.errno in (errno.EADDRINUSE, errno.EACCES)
        hint = "choose another --port, or 0 for any that is free" if taken else "choose another --host"
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise ConfigError(f"{host}, port {port}, cannot be listened on ({why}): {hint}.") from None


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
