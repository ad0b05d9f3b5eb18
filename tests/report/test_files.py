"""The command that writes reports, and figures as files."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.report.stores import own_study, publish_stable_rank
from undertow.cli import main
from undertow.store.store import Store
from undertow.studies import find

STARTS = {"pdf": b"%PDF-", "svg": b"<svg", "png": b"\x89PNG"}


def command(*words: object) -> int:
    with pytest.raises(SystemExit) as stopped:
        main([str(word) for word in words])
    assert isinstance(stopped.value.code, int)
    return stopped.value.code


@pytest.mark.parametrize("ending", STARTS)
def test_figures_are_written_in_the_format_asked_for(
    tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    publish_stable_rank(tmp_path / "runs", "paper")
    assert command("report", tmp_path / "runs", "-o", tmp_path / "r.html", "--figures", ending) == 0
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    folder = tmp_path / "runs" / "figures" / "stable-rank.paper.smoke"
    pictures = sorted(folder.glob(f"*.{ending}"))
    assert pictures
    assert [path.stem for path in pictures] == sorted(
        path.name.split(".")[0] for path in folder.glob("*.vl.json")
    )
    assert all(path.read_bytes().startswith(STARTS[ending]) for path in pictures)
    assert f"{len(pictures)} as {ending}" in capsys.readouterr().out


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_value_that_is_no_number_is_a_gap_and_no_reason_to_draw_nothing(
    tmp_path: Path, value: float
) -> None:
    publish_stable_rank(tmp_path, "paper", spoilt=value)
    assert command("report", tmp_path, "-o", tmp_path / "r.html", "--figures", "svg") == 0
    drawn = {path.stem for path in (tmp_path / "figures" / "stable-rank.paper.smoke").glob("*.svg")}
    assert drawn == {figure.name for figure in find("stable-rank").figures if set(figure.parts) <= {"main"}}
    assert "cannot be drawn" not in (tmp_path / "r.html").read_text().partition("packed-figures")[0]


def test_a_damaged_trial_is_told_and_the_report_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *_ = publish_stable_rank(tmp_path, "paper")
    (tmp_path / "trials" / first / "status.json").unlink()
    assert command("report", tmp_path, "--output", tmp_path / "deep" / "er" / "r.html") == 0
    assert "status.json is missing" in capsys.readouterr().out
    assert (tmp_path / "deep" / "er" / "r.html").exists()


def test_studies_without_figures_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Store(tmp_path).add_study(own_study())
    assert command("report", tmp_path, "-o", tmp_path / "r.html", "--figures", "pdf") == 0
    assert "none" in capsys.readouterr().out


def test_a_folder_that_holds_no_runs_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("report", tmp_path / "nothing", "-o", tmp_path / "r.html") == 1
    assert "is no folder" in capsys.readouterr().err
    assert not (tmp_path / "r.html").exists()
