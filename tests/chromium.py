"""A real browser for the tests of pages; without one those tests are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path("/usr/bin/chromium")
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def launched() -> Iterator[Any]:
    """Chromium, asking nothing of the network by itself."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
    if not PROGRAM.exists():
        pytest.skip(f"no Chromium at {PROGRAM}: the page is not opened")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(PROGRAM), args=QUIET)
        yield browser
        browser.close()
