"""What `pip install .` gives: the package with its pages and its types, from anywhere and without the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.full
def test_a_wheel_has_every_file_and_runs_without_the_checkout(tmp_path: Path) -> None:
    build = "import sys, hatchling.build; print(hatchling.build.build_wheel(sys.argv[1]))"
    built = subprocess.run(
        [sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    wheel = tmp_path / built.stdout.split()[-1]
    source = ROOT / "src"
    files = {
        str(path.relative_to(source))
        for path in (source / "undertow").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if name.startswith("undertow/")}
        archive.extractall(tmp_path / "installed")
    assert held == files
    assert "undertow/py.typed" in held
    code = (
        "import undertow, undertow.cli.app, undertow.report.page, undertow.live.server; print(undertow.__file__);"
        "from undertow.studies import STUDIES, find; print(sum(len(find(name).claims) for name in STUDIES))"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    place, claims = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert Path(place).is_relative_to(tmp_path)
    assert int(claims) > 100
