"""The page in a real browser: it follows a real sweep, and outlives the death of either side."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.execution.sweeps import tiny_study
from tests.live.serving import LONG, live, sweeping, wait_for
from tests.report.stores import publish_stable_rank
from undertow.core.canonical import seal, unseal
from undertow.execution.engines.here import Here
from undertow.execution.sweep import sweep
from undertow.store.failures import write_failure
from undertow.store.store import Store
from undertow.studies import find

EVIL = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
PATIENCE = 40.0  # seconds for what takes a moment


class Visitor:
    """A page, with all it complained about and asked for."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.page = browser.new_page(**options)
        self.page.set_default_timeout(1000 * PATIENCE)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on(
            "console", lambda each: self.complaints.append(each.text) if each.type == "error" else None
        )
        self.page.on("pageerror", lambda each: self.complaints.append(str(each)))
        self.page.on("request", lambda each: self.requests.append(each.url))
        self.page.goto(url)

    def text(self, selector: str) -> str:
        found: str = self.page.locator(selector).inner_text()
        return found

    def wait(self, selector: str, pattern: str) -> None:
        """Until an element's text matches."""
        self.page.wait_for_function(
            "([selector, pattern]) => new RegExp(pattern).test(document.querySelector(selector)?.textContent)",
            arg=[selector, pattern],
        )

    def wait_for_verdicts(self, pattern: str) -> None:
        """Until the note on the verdicts matches, however long judging takes, which has a limit of its own."""
        deadline = time.monotonic() + PATIENCE
        while not re.search(pattern, note := self.text("#verdicts-note")):
            if "Judging the claims" in note:
                deadline = time.monotonic() + PATIENCE
            assert time.monotonic() < deadline, f"the note is {note!r}"
            self.page.wait_for_timeout(50)

    def last_step(self) -> int:
        """The step at which the first curve ends, as the page reads it out to the keyboard."""
        self.page.locator("#chart").focus()
        if not self.text("#readout"):
            self.page.keyboard.press("ArrowDown")
            self.wait("#readout", "at step")
        (step,) = re.findall(r"at step ([\d,]+)", self.text("#readout"))
        return int(step.replace(",", ""))

    def wait_for_growth(self) -> None:
        before = self.last_step()
        wait_for(lambda: self.page.wait_for_timeout(100) or self.last_step() > before)


def test_the_page_follows_a_sweep_and_outlives_server_and_sweep(tmp_path: Path, chromium: Any) -> None:
    runs = tmp_path / "runs"
    (tmp_path / "long.toml").write_text(LONG)
    start = ("run", str(tmp_path / "long.toml"), "--runs", str(runs), "--engine", "here")
    with live(runs) as server:
        visitor = Visitor(chromium, server.root)
        page = visitor.page
        visitor.wait("#done-of", "no study in this folder yet")
        page.evaluate("window.neverReloaded = true")
        with sweeping(runs, *start) as run:
            visitor.wait("#legend", "2 running")
            visitor.wait("#groups", r"step [\d,]+ of 10,000,000")
            visitor.wait_for_growth()
            visitor.wait("#left-basis", "left, from the pace of")
            assert visitor.text("#parts .name") == "long"
            run.send_signal(signal.SIGKILL)
            run.wait()
            visitor.wait("#legend", "4 waiting")
            visitor.wait("#groups", "No group of trials is running")
        with sweeping(runs, "resume", str(runs), "--engine", "here"):
            visitor.wait("#legend", "2 running")
            visitor.wait_for_growth()
            assert visitor.complaints == []
            server.process.kill()
            server.process.wait()
            visitor.wait("#link", "trying again")
            before = visitor.last_step()
            with live(runs, "--port", str(server.port)):
                visitor.wait("#link", "^live$")
                wait_for(lambda: page.wait_for_timeout(100) or visitor.last_step() > before)
                assert page.evaluate("window.neverReloaded")
    refused = ("ERR_CONNECTION", "ERR_INCOMPLETE", "ERR_EMPTY")
    assert all(any(word in each for word in refused) for each in visitor.complaints), visitor.complaints
    assert all(url.startswith(server.root) for url in visitor.requests)
    page.close()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study whose names were written by someone who means no good."""
    runs = tmp_path_factory.mktemp("hostile") / "runs"
    study = tiny_study(grid={"seed": [0, 1], "std": [0.1, 1.0]})
    sweep(Store(runs), study, engine=Here())
    path = runs / "studies" / f"{study.label}.json"
    document = unseal(path.read_bytes(), path)
    document["study"]["name"] = document["study"]["part"] = EVIL
    for _, columns in document["trials"]:
        columns[EVIL] = f"{EVIL}{columns['std']}"
    path.write_bytes(seal(document))
    write_failure(runs, "beef", ["0123456789abcdef"], sentence=EVIL, trace=EVIL)
    trial = Store(runs).finished()[0]
    records = runs / "trials" / trial / "records.jsonl"
    records.write_bytes(records.read_bytes().replace(b'"key":"mean"', b'"key":' + json.dumps(EVIL).encode()))
    return runs


def test_names_become_text_never_markup(hostile: Path, chromium: Any) -> None:
    with live(hostile) as server:
        visitor = Visitor(chromium, server.root)
        page = visitor.page
        visitor.wait("#parts .name", "<script>")
        visitor.wait("#failures summary", "<img src=x")
        page.locator("#failures summary").click()
        visitor.wait("#failures pre", "<script>")
        page.get_by_role("button", name="4 finished").click()
        visitor.wait("#trials", "<img src=x")
        assert page.locator("#colour option").count() == 3
        page.locator("#colour").select_option(EVIL)
        visitor.wait("#chart-legend", "<script>")
        visitor.last_step()
        assert page.evaluate("window.hacked") is None
        assert page.locator("main img, main script").count() == 0
        assert visitor.complaints == []
        page.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_page_fits_its_window_and_its_light(
    width: int, scheme: str, hostile: Path, chromium: Any
) -> None:
    with live(hostile) as server:
        visitor = Visitor(
            chromium, server.root, viewport={"width": width, "height": 800}, color_scheme=scheme
        )
        page = visitor.page
        visitor.wait("#legend", "4 finished")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        bright = sum(map(int, re.findall(r"\d+", ground)[:3])) > 384
        assert bright == (scheme == "light")
        page.get_by_role("button", name="Switch between light and dark").click()
        assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") != ground
        page.keyboard.press("Shift+Tab")  # everything can be reached without a mouse
        reached = set()
        for _ in range(14):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
        assert {"theme", "label", "measure", "colour", "log-y", "log-x", "chart"} <= reached
        assert visitor.complaints == []
        page.close()


def test_a_token_lets_the_page_in_and_leaves_the_address(hostile: Path, chromium: Any) -> None:
    with live(hostile, "--host", "0.0.0.0") as server:
        visitor = Visitor(chromium, server.root + "/?" + server.url.partition("?")[2])
        visitor.wait("#legend", "4 finished")
        assert visitor.page.url == server.root + "/"
        assert visitor.page.evaluate("document.cookie") == ""
        assert visitor.complaints == []
        visitor.page.close()


def test_verdicts_wait_until_the_grid_is_complete(chromium: Any, tmp_path: Path) -> None:
    claims = sum(set(claim.parts) == {"main"} for claim in find("stable-rank").claims)
    published = publish_stable_rank(tmp_path, "paper", without=1)
    with live(tmp_path) as server:
        visitor = Visitor(chromium, server.url)
        visitor.wait_for_verdicts(f"^{claims} claims wait for trials: effects so far")
        badges = visitor.page.locator(".verdict .badge")
        assert set(badges.all_inner_texts()) == {"… so far"}
        assert "effect" in visitor.text("#verdicts")
        assert "p =" not in visitor.text("#verdicts")
        assert len(publish_stable_rank(tmp_path, "paper")) == len(published) + 1
        visitor.wait_for_verdicts(r"\d hold")
        visitor.wait("#verdicts", rf"p = 0\.002 alone, 0\.00\d+ among {claims} claims")
        assert f"{claims} claims judged together" in visitor.text("#verdicts")
        assert "✓ holds" in badges.all_inner_texts()
        assert visitor.complaints == []
