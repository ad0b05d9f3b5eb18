"""What the command line says before anything is run: its help, the studies, one study."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from undertow.cli import app
from undertow.cli.command import call
from undertow.studies import STUDIES, find


def test_a_study_lists_its_parts_and_the_sentences_it_tests(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["studies", "margin"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    study = find("margin")
    assert all(part in told for part in study.parts)
    assert all(claim.id in told for claim in study.claims)
    assert " ".join(study.summary.split()) in told


def test_a_study_is_told_to_machines_as_the_list_tells_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["studies", "--json"]) == 0
    listed = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    for name in STUDIES:
        assert call(["studies", name, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == listed[name]


def test_a_study_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["studies", "margins"]) == 2
    assert "did you mean 'margin'?" in capsys.readouterr().err


def test_help_has_no_options_that_nobody_wants(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("reproduce", "measure", "claims", "live", "studies"):
        app.help_print([command])
        told = capsys.readouterr().out
        assert "--empty-" not in told
        assert "--no-json" not in told
        assert "--no-open" not in told
    app.help_print(["reproduce"])
    assert "--no-weights" in capsys.readouterr().out


def test_the_first_command_of_the_help_is_the_tour(capsys: pytest.CaptureFixture[str]) -> None:
    app.help_print([])
    told = capsys.readouterr().out
    places = [
        told.index(f"│ {name} ")
        for name in ("tour", "studies", "reproduce", "show", "report", "measure", "data")
    ]
    assert places == sorted(places)


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "undertow", "studies", "nowhere"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "there is no study 'nowhere'" in done.stderr
