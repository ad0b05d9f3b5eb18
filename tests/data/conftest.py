"""Every test here has a cache of its own, and sees no data folder but the one it names."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNDERTOW_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("UNDERTOW_DATA", raising=False)
    return tmp_path / "cache"
