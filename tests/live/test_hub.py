"""What pages are told: only what they do not know, verdicts only when trials have changed, by a small process."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.execution.sweeps import tiny_study
from tests.live.serving import live
from undertow.core.canonical import plain
from undertow.execution.engines.here import Here
from undertow.execution.sweep import sweep
from undertow.live.hub import Hub
from undertow.live.verdicts import Verdicts
from undertow.store.store import Store
from undertow.studies import find
from undertow.studies.kit.ledger import ledger


def test_the_server_is_small() -> None:
    code = (
        "import sys, undertow.live.server, undertow.cli.live; "
        "print([m for m in ('torch', 'polars', 'altair', 'pydantic', 'numpy', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def hear(hub: Hub, last_seen: str, *, seconds: float = 0.3) -> dict[str, str]:
    """The ids of the events that a page gets which saw ``last_seen``."""
    heard: dict[str, str] = {}

    async def listen() -> None:
        async for message in hub.events(last_seen):
            if found := re.match(rb"id: (\S+)\nevent: (\w+)\ndata: ", message):
                json.loads(message[found.end() :])
                heard[found[2].decode()] = found[1].decode()

    listening = asyncio.create_task(listen())
    await asyncio.sleep(seconds)
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    return heard


def test_a_page_that_comes_back_is_told_what_it_missed(tmp_path: Path) -> None:
    store = Store(tmp_path)

    async def visit() -> None:
        hub, other = Hub(tmp_path, every=0.05), Hub(tmp_path, every=0.05)
        try:
            first = await hear(hub, "")
            assert set(first) == {"state", "verdicts"}
            last = first["verdicts"]
            assert await hear(hub, last) == {}
            store.add_study(tiny_study())
            assert "state" in await hear(hub, last)
            assert set(await hear(other, last)) == {"state", "verdicts"}  # another server: all of it again
            assert set(await hear(hub, "nonsense.-.x-y..")) == {"state", "verdicts"}
        finally:
            await hub.close()
            await other.close()

    asyncio.run(visit())


def test_without_a_page_nothing_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def visit() -> None:
        hub = Hub(tmp_path, every=0.01)
        looks = 0

        def look() -> None:
            nonlocal looks
            looks += 1

        monkeypatch.setattr(hub.follower, "look", look)
        await asyncio.sleep(0.1)
        assert looks == 0
        await hear(hub, "", seconds=0.1)
        await asyncio.sleep(0.05)
        assert looks > 0
        before = looks
        await asyncio.sleep(0.1)
        assert looks == before
        await hub.close()

    asyncio.run(visit())


def test_verdicts_are_the_ledgers(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (study,) = find("stable-rank").grids("smoke", "paper", parts=["main"])
    sweep(store, study, engine=Here())
    with live(tmp_path) as server:
        told = server.event("verdicts", lambda each: bool(each["current"]))
    assert told["note"] == ""
    expected = json.loads(json.dumps(plain([entry.row() for entry in ledger(store)])))
    assert told["rows"] == expected
    assert len(expected) == 6


def test_verdicts_are_computed_only_when_trials_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[int] = []
    polite: list[bool] = []
    clock = 0.0
    monkeypatch.setattr("undertow.live.verdicts.time.monotonic", lambda: clock)

    async def compute(self: Verdicts, version: int, *, niceness: int) -> None:
        computed.append(version)
        polite.append(niceness > 0)
        self._version, self._ended, self._took = version, clock, 3.0

    monkeypatch.setattr(Verdicts, "_compute", compute)

    async def visit() -> None:
        nonlocal clock
        verdicts = Verdicts(tmp_path)
        for version, busy, at in (
            (1, True, 0),  # the first time at once
            (1, True, 100),
            (2, True, 101),
            (3, True, 130),  # took 3 s: 60 s of rest while trials run
            (3, True, 161),
            (3, False, 300),
            (4, False, 301),  # nothing runs: at once
            (5, False, 302),
        ):
            clock = float(at)
            verdicts.keep_up(version, busy=busy)
            await asyncio.sleep(0)
        await verdicts.close()

    asyncio.run(visit())
    assert computed == [1, 2, 3, 4, 5]
    assert polite == [True, True, True, False, False]  # trials that run go first


def test_a_folder_that_cannot_be_judged_says_so(tmp_path: Path) -> None:
    async def visit() -> Verdicts:
        verdicts = Verdicts(tmp_path)
        verdicts.keep_up(1, busy=False)
        while verdicts.computing:
            await asyncio.sleep(0.05)
        return verdicts

    verdicts = asyncio.run(visit())
    assert "holds no studies" in verdicts.note
    assert verdicts.rows == []
