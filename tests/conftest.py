"""Settings shared by all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings

from tests.chromium import launched

torch.set_num_threads(1)  # pytest-xdist gives each core its own worker
settings.register_profile("undertow", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("full", deadline=None, derandomize=True, max_examples=100)
settings.load_profile("undertow")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """A folder with real data files; tests that need it are skipped without it."""
    candidates = [os.environ.get("UNDERTOW_DATA"), Path(__file__).parents[2] / "shared" / "data"]
    for candidate in candidates:
        if candidate and Path(candidate).is_dir():
            return Path(candidate)
    pytest.skip("no data folder: set UNDERTOW_DATA to a folder that holds the real data files")


# Not for the session: while Playwright's driver lives, no other test of the process can run an event loop.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser for all tests of one file."""
    with launched() as browser:
        yield browser
