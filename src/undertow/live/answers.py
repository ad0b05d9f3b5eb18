"""What the server answers: one page, its state as server-sent events, curves and lists as JSON."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from undertow.drawing.palette import DARK, LIGHT, css_variables
from undertow.live.curve_points import Selection
from undertow.live.hub import Hub, encode
from undertow.store.followed_trials import STATES

__all__ = ["routes"]

_ASSETS = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/chart.js": ("chart.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
"""Everything that is served as a file: by name, from the package, never from the folder of runs."""

_MOST_TRIALS = 200
_LONGEST_TEXT = 40_000


def routes(hub: Hub) -> list[Route]:
    """Every address that there is; none of them leads to a file of the folder of runs."""
    found = [Route(path, _asset(_packaged(name), kind)) for path, (name, kind) in _ASSETS.items()]
    found.append(Route("/colours.css", _asset(_colours(), "text/css; charset=utf-8")))
    for path, answer in (
        ("/events", _events),
        ("/curves", _curves),
        ("/trials", _trials),
        ("/failure", _failure),
    ):
        found.append(Route(path, _with(hub, answer)))
    return found


Answer = Callable[[Hub, Request], Any]


def _with(hub: Hub, answer: Answer) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        response: Response = await answer(hub, request)
        return response

    return endpoint


def _packaged(name: str) -> bytes:
    return resources.files("undertow.live").joinpath("page", name).read_bytes()


def _colours() -> bytes:
    """The report's palette; ``--dark`` tells the script which half of it is in force."""
    light, dark = f"{css_variables(LIGHT)} --dark: 0;", f"{css_variables(DARK)} --dark: 1;"
    rules = (
        f":root {{ color-scheme: light; {light} }}",
        f"@media (prefers-color-scheme: dark) {{ :root {{ color-scheme: dark; {dark} }} }}",
        f':root[data-theme="light"] {{ color-scheme: light; {light} }}',
        f':root[data-theme="dark"] {{ color-scheme: dark; {dark} }}',
    )
    return "\n".join(rules).encode()


def _asset(content: bytes, kind: str) -> Callable[[Request], Any]:
    async def endpoint(_: Request) -> Response:
        return Response(content, headers={"content-type": kind})

    return endpoint


async def _events(hub: Hub, request: Request) -> Response:
    if request.method == "HEAD":
        return Response(media_type="text/event-stream")
    seen = request.headers.get("last-event-id") or request.query_params.get("seen", "")
    return StreamingResponse(hub.events(seen[:200]), media_type="text/event-stream")


async def _curves(hub: Hub, request: Request) -> Response:
    asked = request.query_params
    since = asked.get("since", "0")
    if asked.get("label") not in hub.follower.parts or not since.isdecimal():
        return _json({"problem": "there is no such study here."}, status=404)
    selection = Selection(asked["label"], asked.get("measure", ""), asked.get("key", ""))
    return _json(await hub.curves(selection, int(since[:12]), asked.get("name", "")))


async def _trials(hub: Hub, request: Request) -> Response:
    part = hub.follower.parts.get(request.query_params.get("label", ""))
    state = request.query_params.get("state", "")
    if part is None or state not in STATES:
        return _json({"problem": "there is no such study here."}, status=404)
    states = await hub.read(lambda: hub.follower.states(part))
    chosen = [trial for trial, each in states.items() if each == state]
    rows = []
    for trial in chosen[:_MOST_TRIALS]:
        done = hub.follower.done.get(trial)
        rows.append({"trial": trial, "columns": part.trials[trial], "reason": done.reason if done else None})
    return _json({"trials": rows, "of": len(chosen)})


async def _failure(hub: Hub, request: Request) -> Response:
    failure = hub.follower.failures.get(request.query_params.get("group", ""))
    if failure is None:
        return _json({"problem": "that group has not failed, or has finished since."}, status=404)
    return _json({"text": failure.text[-_LONGEST_TEXT:]})


def _json(value: Any, *, status: int = 200) -> Response:
    return Response(encode(value), status_code=status, media_type="application/json")
