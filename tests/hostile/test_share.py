"""A share of ``benchmarks/hostile.py``: files that mean no good, through the command line, in 1 GB of memory."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.hostile.data_files import data_cases
from tests.hostile.harness import MEMORY, Case, Ending, run_cases
from tests.hostile.studies import fuzzed_studies

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="memory is limited through Linux"
)


def refuse(endings: list[Ending]) -> None:
    wrong = [each for each in endings if not each.is_clean or each.bytes > MEMORY]
    assert not wrong, "\n".join(
        f"{each.name}: {each.ended}, {each.seconds:.1f} s\n{each.printed}" for each in wrong
    )


def test_study_files(tmp_path: Path) -> None:
    cases = []
    for number, text in enumerate(fuzzed_studies(40, seed=11)):
        path = tmp_path / f"{number}.toml"
        path.write_bytes(text)
        cases.append(Case(path.name, ("run", str(path), "--runs", "{runs}", "--engine", "here", "--offline")))
    endings = list(run_cases(cases))
    refuse(endings)
    assert {"0", "1", "2"} <= {each.ended for each in endings}  # some of them are valid, and run


def test_data_files(tmp_path: Path) -> None:
    refuse(list(run_cases(data_cases(tmp_path, 20, seed=7))))
