"""Looks at the folder while somebody watches, and tells all pages what changed."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from undertow.core.canonical import plain
from undertow.live.curve_points import Curves, Selection
from undertow.live.snapshot import snapshot
from undertow.live.verdicts import Verdicts
from undertow.store.folder import Folder
from undertow.store.following import Follower

__all__ = ["Hub", "encode"]

_KEPT = 6  # selections of curves kept in memory
_STILL_HERE = 15.0  # seconds of silence after which a page is told that the server lives

Result = TypeVar("Result")


class Hub:
    """The folder's state, shared by all pages.

    Without a page nothing is read. One thread does all the reading, so that pages never wait for the disk.
    """

    def __init__(self, path: Path, *, every: float = 1.0) -> None:
        self.follower = Follower(Folder(path))
        self._verdicts = Verdicts(self.follower.folder.path)
        self._every = every
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="undertow-live")
        self._curves: OrderedDict[Selection, Curves] = OrderedDict()
        self._name = uuid.uuid4().hex[:8]  # of this server: another one's revisions mean nothing here
        self._events: dict[str, tuple[int, bytes]] = {}
        self._pages = 0
        self._looking: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._closing = False

    async def events(self, last_seen: str) -> AsyncIterator[bytes]:
        """Server-sent events: ``state`` and ``verdicts``, each whole, whenever it has changed.

        ``last_seen`` is the id of the last event that the page has seen; what it knows is not sent again.
        """
        seen = self._parse(last_seen)
        self._pages += 1
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            yield b"retry: 2000\n\n"
            while not self._closing:
                news = self._news
                for kind, (revision, data) in list(self._events.items()):
                    if seen.get(kind) != revision:
                        seen[kind] = revision
                        place = ".".join(f"{each}-{number}" for each, number in sorted(seen.items()))
                        yield f"id: {self._name}.{place}\nevent: {kind}\ndata: ".encode() + data + b"\n\n"
                try:
                    await asyncio.wait_for(news.wait(), _STILL_HERE)
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            self._pages -= 1

    async def curves(self, selection: Selection, since: int, name: str) -> dict[str, Any]:
        """What a page does not know that has seen the curves called ``name`` up to revision ``since``."""

        def work() -> dict[str, Any]:
            curves = self._curves.pop(selection, None) or Curves(selection, self.follower)
            self._curves[selection] = curves
            while len(self._curves) > _KEPT:
                self._curves.popitem(last=False)
            curves.update()
            known = since if name == curves.name else 0
            return {**curves.since(known), "name": curves.name}

        return await self.read(work)

    async def read(self, work: Callable[[], Result]) -> Result:
        """Do something that reads the folder, in the one thread that does."""
        return await asyncio.get_running_loop().run_in_executor(self._reader, work)

    def hang_up(self) -> None:
        """End all event streams."""
        self._closing = True
        self._tell()

    async def close(self) -> None:
        """Leave nothing running."""
        self.hang_up()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        await self._verdicts.close()
        self._reader.shutdown(wait=False, cancel_futures=True)

    async def _look(self) -> None:
        while self._pages and not self._closing:
            state = await self.read(self._state)
            version = self.follower.version
            if self.follower.parts:
                self._verdicts.keep_up(version, busy=bool(self.follower.running))
            verdicts = encode(self._verdicts.snapshot(version))
            if self._is_news("state", state) | self._is_news("verdicts", verdicts):
                self._tell()
            await asyncio.sleep(self._every)

    def _state(self) -> bytes:
        try:
            self.follower.look()
            return encode(snapshot(self.follower))
        except (
            Exception
        ) as error:  # whatever someone has put into the folder: the page says so, and looks again
            return encode({"problem": f"The folder cannot be followed: {type(error).__name__}: {error}."})

    def _is_news(self, kind: str, data: bytes) -> bool:
        revision, before = self._events.get(kind, (0, b""))
        if data != before:
            self._events[kind] = (revision + 1, data)
        return data != before

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _parse(self, last_seen: str) -> dict[str, int]:
        name, *places = last_seen.split(".")
        pairs = (place.partition("-") for place in places)
        if name != self._name:
            return {}
        return {kind: int(number) for kind, _, number in pairs if number.isdecimal()}


def encode(value: Any) -> bytes:
    """JSON on one line."""
    return json.dumps(plain(value), separators=(",", ":"), allow_nan=False, default=str).encode()
