"""One report for all tests that only read it: a study of a paper in two variants, and one's own with examples."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.report.stores import own_study, publish_stable_rank, run
from undertow.report.page import write_report

CHROMIUM = Path("/usr/bin/chromium")
_QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    for variant in ("paper", "authors"):
        publish_stable_rank(folder / "runs", variant)
    run(folder / "runs", own_study(examples=2))
    return write_report(folder / "runs", folder / "made" / "report.html")


# Not for the session: two of Playwright's drivers cannot live in one process, and other tests have theirs.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
    if not CHROMIUM.exists():
        pytest.skip(f"no Chromium at {CHROMIUM}: the page is not opened")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=_QUIET)
        yield browser
        browser.close()
