"""One report for all tests that only read it: a study of a paper in two variants, and one's own with examples."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.stores import own_study, publish_stable_rank, run
from undertow.report.page import write_report


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    for variant in ("paper", "authors"):
        publish_stable_rank(folder / "runs", variant)
    run(folder / "runs", own_study(examples=2))
    return write_report(folder / "runs", folder / "made" / "report.html")
