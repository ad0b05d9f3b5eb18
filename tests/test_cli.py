"""The command line, mostly as a user meets it."""

from __future__ import annotations

import json
import math
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from undertow.cli import main
from undertow.cli.json_output import print_json
from undertow.core.canonical import seal, unseal
from undertow.store.store import Store

STUDY = """
[data]
name = "kou-mixture"
n = 6
d = 12
[model]
name = "two-layer"
width = 8
init = {name = "gaussian", std = 0.1}
[training]
optimizer = "sgd"
batch_size = 2
learning_rate = 0.05
epochs = 4
[probe]
measures = ["stable-rank", "loss"]
[grid]
std = [0.1, 1.0]
seed = [0, 1]
"""


HERE = ("--engine", "here")
"""Where the engine is no matter: processes of its own take seconds to start."""


def call(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    assert isinstance(caught.value.code, int)
    return caught.value.code


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(STUDY)
    return path


def test_help_answers_without_torch() -> None:
    code = (
        "import sys; from undertow.cli import app; app.help_print(); "
        "assert not any(m in sys.modules for m in ('torch', 'polars', 'altair', 'pydantic', 'numpy'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for command in ("studies", "reproduce", "run", "resume", "claims", "show", "data", "tour"):
        assert command in done.stdout


def test_a_study_of_another_version_does_not_stop_the_others(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    assert call("run", study, "--runs", runs, *HERE) == 0
    written = runs / "studies" / "mine.own.own.json"
    document = unseal(written.read_bytes(), written)
    document["study"] = {**document["study"], "name": "older", "novelty": 1}
    for ending in ("json", "copy"):
        (runs / "studies" / f"older.own.own.{ending}").write_bytes(seal(document))
    capsys.readouterr()
    for command in ("claims", "show"):  # readers take it as it is
        assert call(command, runs) == 0
        assert capsys.readouterr().err == ""
    assert call("resume", runs, *HERE) == 1
    printed = capsys.readouterr().out
    assert (
        "older.own.own was written by another version of undertow, and this one cannot run it again"
        in printed
    )
    assert "novelty is not a setting" in printed
    assert "trials finished." in printed
    assert call("run", study, "--runs", runs, "--grid", "seed=3", *HERE) == 0
    assert "mine.own.own: 2 of 2 trials finished." in capsys.readouterr().out


def test_run_show_resume(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = tmp_path / "runs"
    arguments = ("--training.epochs", "2", "--grid", "std=0.1,1.0,2.0")
    assert call("run", study, "--runs", runs, *arguments) == 0
    out = capsys.readouterr().out
    assert "mine.own.own: 6 of 6 trials finished." in out
    assert "\x1b" not in out
    assert Store(runs).frame()["epoch"].max() == 2
    assert call("show", runs, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["studies"][0]["finished"] == 6
    victim = Store(runs).finished()[2]
    path = runs / "trials" / victim / "records.jsonl"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert call("show", runs) == 1
    assert f"{victim}/records.jsonl is damaged" in capsys.readouterr().out
    assert call("resume", runs, *HERE) == 0
    assert "is computed again" in capsys.readouterr().out
    assert call("show", runs) == 0
    assert call("claims", runs, "--json") == 0
    assert "[]" in capsys.readouterr().out
    assert call("claims", runs) == 0
    assert "make no claims" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("--training.epohcs", "5"), "training.epohcs is not a setting; did you mean 'epochs'?"),
        (("--grid", "widht=5"), "did you mean 'width'?"),
        (("--model.activation=rellu",), "did you mean 'relu'?"),
        (("--training.epochs",), "needs a value"),
        (("stray",), "'stray' is not an option"),
        (("--engine", "dusk"), "dusk"),
        (("--workers", "0", "--engine", "processes"), "at least one is needed"),
    ],
)
def test_bad_usage_is_one_sentence_and_code_two(
    change: tuple[str, ...], sentence: str, study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("run", study, "--runs", tmp_path / "runs", *change) == 2
    printed = capsys.readouterr()
    assert sentence in printed.err + printed.out
    assert "Traceback" not in printed.err + printed.out
    assert not (tmp_path / "runs").exists()


def test_the_tour_ends_with_its_own_code(monkeypatch: pytest.MonkeyPatch) -> None:
    for code in (0, 1, 130):
        monkeypatch.setattr("undertow.cli.tour.main", lambda code=code: code)
        assert call("tour") == code


def test_json_has_null_for_the_numbers_it_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"effect": math.nan, "interval": [0.0, math.inf]})
    assert json.loads(capsys.readouterr().out) == {"effect": None, "interval": [0.0, None]}


def test_unknown_names_and_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("reproduce", "stable-rnak") == 2
    assert "did you mean 'stable-rank'?" in capsys.readouterr().err
    assert call("reproduce", "stable-rank", "--variant", "author") == 2
    assert "did you mean 'authors'?" in capsys.readouterr().err
    assert call("claims", tmp_path / "nowhere") == 1
    assert "is no folder" in capsys.readouterr().err
    assert call("reprodcue") == 2
    blocked = tmp_path / "file"
    blocked.touch()
    assert call("reproduce", "stable-rank", "--scale", "smoke", "--runs", blocked) == 1
    assert "cannot be written" in capsys.readouterr().err


def test_a_table_with_a_hole_is_refused_before_anything_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{'ill' if i % 2 else 'well'},{i},{'' if i == 3 else i * i},p{i}" for i in range(12)]
    (tmp_path / "my.csv").write_text("\n".join(["outcome,a,b,name", *rows]))
    table = ("--data", "table", "--path", tmp_path / "my.csv", "--label", "outcome")
    asked = ("reproduce", "stable-rank", "--scale", "smoke", "--runs", tmp_path / "runs", *table)
    assert call(*asked) == 1
    told = capsys.readouterr()
    assert "the column 'b' has 1 missing or infinite values" in told.err
    assert not (tmp_path / "runs").exists()
    assert call(*asked, "--features", "a", "--seeds", "1", "--engine", "here") == 0
    assert "6 of 6 trials finished" in capsys.readouterr().out


def test_a_second_table_does_not_take_the_place_of_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And a table that was changed is trained on anew: its old results are not those of what it holds now."""
    runs = tmp_path / "runs"

    def asked(name: str, *more: str) -> int:
        table = ("--data", "table", "--path", tmp_path / name, "--label", "outcome")
        few = ("--scale", "smoke", "--seeds", "1", "--engine", "here", "--runs", runs)
        return call("reproduce", "stable-rank", *few, *table, *more)

    def write(name: str, shift: int) -> None:
        rows = [f"{'ill' if i % 2 else 'well'},{i},{(i * i + shift) % 7}" for i in range(12)]
        (tmp_path / name).write_text("\n".join(["outcome,a,b", *rows]))

    write("first.csv", 0)
    write("second.csv", 3)
    assert asked("first.csv") == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "first.csv: 12 rows with a label (ill: 6, well: 6); learned from are 2 columns: a, b." in told
    assert "on first.csv" in told
    assert "the mean |cosine| of two is" in told
    document = (runs / "studies" / "stable-rank.paper.smoke.seeds-0-0.table.json").read_bytes()
    assert asked("second.csv") == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "this folder holds" in told
    assert "a folder of its own, with `--runs`" in told
    assert asked("first.csv", "--features", "a") == 2
    assert "features = None" in " ".join(capsys.readouterr().err.split())
    assert (runs / "studies" / "stable-rank.paper.smoke.seeds-0-0.table.json").read_bytes() == document
    trained = len(list((runs / "trials").iterdir()))
    assert asked("first.csv") == 0
    assert len(list((runs / "trials").iterdir())) == trained
    write("first.csv", 5)
    assert asked("first.csv") == 0
    assert len(list((runs / "trials").iterdir())) == 2 * trained


def test_a_copy_that_cannot_be_loaded_is_a_note_in_the_list_of_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERTOW_DATA", str(tmp_path))
    (tmp_path / "neuroblastoma.csv").write_text("Event-fre,a\n1,2\n0,3\n")
    assert call("data", "list") == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "neuroblastoma is here, but cannot be loaded" in told
    assert "did you mean 'Event-fre'?" in told
    assert call("data", "list", "--json") == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["neuroblastoma"]["near_orthogonality"] is None
    assert "Event-fre" in rows["neuroblastoma"]["problem"]
    assert rows["digits"]["mean_cosine"] == pytest.approx(0.6899)


def test_studies_and_data_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("studies") == 0
    assert "stable-rank" in capsys.readouterr().out
    assert call("studies", "--json") == 0
    assert set(json.loads(capsys.readouterr().out)[0]["costs"]) == {"smoke", "laptop", "paper"}
    assert call("data", "list") == 0
    assert "digits" in capsys.readouterr().out
    assert call("data", "check", "digits") == 0
    assert "digits is whole" in capsys.readouterr().out
    assert call("data", "fetch") == 2
    capsys.readouterr()
    for command in ("check", "fetch"):
        assert call("data", command, "digist") == 2
        assert "did you mean 'digits'?" in capsys.readouterr().err


def test_the_sentences_of_a_reproduction_are_wrapped_not_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    arguments = ("--scale", "smoke", "--part", "main", "--runs", tmp_path / "runs", *HERE)
    assert call("reproduce", "stable-rank", *arguments) == 0
    assert "final/initial stable rank, largest of the inits" in " ".join(capsys.readouterr().out.split())


def start(study: Path, runs: Path, *more: str, **options: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", "from undertow.cli import main; main()"]
    arguments = [
        "run",
        str(study),
        "--runs",
        str(runs),
        "--training.epochs",
        "100000",
        "--probe.every",
        "1000",
        *more,
    ]
    return subprocess.Popen([*command, *arguments], **options)  # type: ignore[call-overload,no-any-return]


def wait_until_begun(runs: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while not list(runs.glob("locks/*.lock")) and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)


def test_an_interrupt_stops_at_a_checkpoint_and_says_how_to_go_on(study: Path, tmp_path: Path) -> None:
    runs = tmp_path / "my runs"
    process = start(study, runs, "--workers", "1", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until_begun(runs, process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert f"Go on with:  undertow resume '{runs}'" in out.decode()
    assert err == b""
    assert list(runs.glob("work/*/checkpoint-*.json"))
    assert not list(runs.glob("locks/*.lock"))


def test_a_terminal_sees_progress(study: Path, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = start(study, tmp_path / "runs", *HERE, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b""
    deadline = time.monotonic() + 60
    while (b"steps" not in seen or b"trials" not in seen) and time.monotonic() < deadline:
        seen += os.read(ours, 4096)
    process.send_signal(signal.SIGTERM)
    try:
        while chunk := os.read(ours, 4096):
            seen += chunk
    except OSError:  # a terminal ends with an error, not with an end of file
        pass
    assert process.wait(timeout=30) == 130
    assert b"mine.own.own" in seen
    assert b"Stopped; nothing is lost." in seen
