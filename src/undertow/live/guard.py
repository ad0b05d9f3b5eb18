"""Who may see the page: checks every request before anything else looks at it, and marks every answer.

- Only GET and HEAD, without a body; nothing here changes anything.
- The Host header must name this server, so that a foreign page cannot reach it through a name of its own that
  resolves to this machine (DNS rebinding).
- Requests that a page of another site makes are refused.
- With a token, it must come along: in the address once, then in a cookie that no script can read.
"""

from __future__ import annotations

import hashlib
import hmac
import http.cookies
import ipaddress
import re
import urllib.parse
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Guard", "is_loopback"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

_LONGEST_QUERY = 2048
_HOST = re.compile(r"(?:\[(?P<number>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::[0-9]{1,5})?")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True)
class Guard:
    """Wraps an application. ``hosts`` are the names it answers to; ``addresses`` lets in any numeric address.

    A name can be made to point here by anyone, a number cannot: behind a wildcard address such as 0.0.0.0,
    where the server does not know which addresses lead to it, numbers are let in.
    """

    application: Application
    hosts: Collection[str]
    addresses: bool = False
    token: str | None = None
    cookie: str = "undertow"

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer or refuse one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.application(scope, receive, send)
            return
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        refusal = self._refusal(scope, headers)
        given = self._given(scope)
        if refusal is None and self.token is not None and not self._is_allowed(given, headers):
            refusal = 401, "This page needs its token: open the address that `undertow live` printed."
        marks = dict(_HEADERS)
        if refusal is None and given is not None:
            marks["set-cookie"] = f"{self.cookie}={self._pass}; HttpOnly; SameSite=Strict; Path=/"

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name, value) for name, value in message.get("headers", ())]
                extra = [(name.encode(), value.encode()) for name, value in marks.items()]
                message = {**message, "headers": [*own, *extra]}
            await send(message)

        if refusal is not None:
            await _refuse(*refusal, marked)
        else:
            await self.application(scope, receive, marked)

    def _refusal(self, scope: Message, headers: dict[str, str]) -> tuple[int, str] | None:
        if scope["method"] not in ("GET", "HEAD"):
            return 405, "Nothing can be changed here: only GET and HEAD are answered."
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            return 413, "A request for this page has no body."
        if len(scope["query_string"]) > _LONGEST_QUERY:
            return 414, "The address is too long."
        named = [value for name, value in scope["headers"] if name.lower() == b"host"]
        if len(named) != 1 or not self._is_ours(named[0].decode("latin-1")):
            return 421, "This server does not answer to that name."
        navigating = headers.get("sec-fetch-mode", "navigate") == "navigate"
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not navigating:
            return 403, "Pages of other sites may not read this one."
        return None

    def _is_ours(self, host: str) -> bool:
        split = _HOST.fullmatch(host)
        if split is None:
            return False
        name = (split["number"] or split["name"]).lower()
        if name in self.hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return self.addresses

    def _given(self, scope: Message) -> str | None:
        """The token in the address, where one is needed and given."""
        if self.token is None:
            return None
        query = urllib.parse.parse_qs(scope["query_string"].decode("latin-1"))
        return query["token"][0] if "token" in query else None

    def _is_allowed(self, given: str | None, headers: dict[str, str]) -> bool:
        if given is not None:
            return hmac.compare_digest(given.encode(), (self.token or "").encode())
        try:
            cookies = http.cookies.SimpleCookie(headers.get("cookie", ""))
        except http.cookies.CookieError:
            return False
        shown = cookies[self.cookie].value if self.cookie in cookies else ""
        return hmac.compare_digest(shown.encode(), self._pass.encode())

    @property
    def _pass(self) -> str:
        """What the cookie holds: who steals it has not got the token."""
        return hmac.new((self.token or "").encode(), b"undertow live", hashlib.sha256).hexdigest()


async def _refuse(status: int, sentence: str, send: Send) -> None:
    body = (sentence + "\n").encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    if status == 405:
        headers.append((b"allow", b"GET, HEAD"))
    await send(
        {"type": "http.response.start", "status": status, "headers": [*headers, (b"connection", b"close")]}
    )
    await send({"type": "http.response.body", "body": body})
