"""A new study is its package and one line in ``STUDIES``; it is found, run, judged, drawn and reported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from undertow import studies
from undertow.execution.engines.here import Here
from undertow.execution.sweep import sweep
from undertow.report.figures import draw
from undertow.report.page import write_report
from undertow.store.store import Store
from undertow.studies.kit.claim import Verdict
from undertow.studies.kit.ledger import ledger
from undertow.studies.kit.reproduction import reproductions
from undertow.studies.kit.study import Study

FILES = {
    "__init__.py": """
from undertow.studies.kit.study import Study

STUDY = Study(
    name="tiny",
    title="The loss of a small network",
    source="nowhere",
    costs={"smoke": "a second"},
    variants={"paper": "as printed"},
    home=__name__,
    topics=("falling",),
)
""",
    "falling/__init__.py": "",
    "falling/parts.py": """
def main(scale, variant):
    return {
        "data": {"name": "kou-mixture", "n": 4, "d": 5},
        "model": {"name": "two-layer", "width": 2},
        "training": {"epochs": 4, "learning_rate": 0.1},
        "probe": {"measures": ["loss"], "every": "epoch"},
        "grid": {"width": [2, 3], "seed": list(range(6))},
    }

PARTS = {"main": main}
""",
    "falling/claims.py": """
from undertow.studies.kit.per_seed import per_seed, verdict
from undertow.studies.kit.readings import before_and_after, curves
from undertow.studies.kit.statements import Claims, PublishedNumbers

CLAIMS = Claims("A paper")
PUBLISHED = PublishedNumbers("A paper")
NETWORK = ("width", "seed")

def losses(frame):
    return curves(frame, "loss", "mean", by=NETWORK)

@PUBLISHED.add("the loss at the end", "0.5", "Table 1")
def final(frame):
    return per_seed(before_and_after(losses(frame), by=NETWORK), "end")

@CLAIMS.add("T-b", "It falls by a lot.", "§2", figure="losses", line=-9.0)
@CLAIMS.add("T-a", "The loss falls.", "§1", figure="losses", line=0.0)
def falls(frame, line):
    return verdict(before_and_after(losses(frame), by=NETWORK), "rise", over="max", below=line, note="effect: change")
""",
    "falling/figures.py": """
from tiny_study.falling.claims import losses
from undertow.drawing.line_plot import LinePlot
from undertow.studies.kit.statements import Figures

FIGURES = Figures()

@FIGURES.add("losses", "The loss over training")
def over_training(frame):
    return LinePlot(x="epoch", y="loss", colour="width").draw(losses(frame))
""",
}


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        file = tmp_path / "code" / "tiny_study" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.syspath_prepend(tmp_path / "code")
    monkeypatch.setitem(studies.STUDIES, "tiny", "tiny_study")
    return tmp_path


def test_a_new_study_is_its_package_and_one_line(tiny: Path) -> None:
    study = studies.find("tiny")
    store = Store(tiny / "runs")
    assert sweep(store, *study.grids("smoke", "paper"), engine=Here()).complete
    entries = {entry.claim.id: entry for entry in ledger(store)}
    assert list(entries) == ["T-a", "T-b"]  # by their letters, however they are written
    assert entries["T-a"].verdict is Verdict.HOLDS
    assert entries["T-b"].verdict is Verdict.FAILS
    assert (entries["T-a"].claim.source, entries["T-a"].finding.n) == ("A paper, §1", 6)
    (whole,) = reproductions(store)
    assert [file.name for file in draw(whole)] == ["losses.svg"]
    page = write_report(store, tiny / "report.html").read_text()
    assert "the loss at the end" in page
    assert "A paper, Table 1" in page


def test_looking_a_study_up_imports_neither_tables_nor_drawing_nor_torch() -> None:
    code = (
        "import sys; from undertow.studies import STUDIES, find; "
        "[find(name).settings('smoke', 'paper') for name in STUDIES]; "
        "print([name for name in ('torch', 'polars', 'altair') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_what_a_study_names_must_be_there(tiny: Path) -> None:
    topic = tiny / "code" / "tiny_study" / "falling"
    study = studies.find("tiny")
    again = Study(
        "tiny", "A title", "nowhere", {}, {"paper": ""}, home="tiny_study", topics=("falling", "falling")
    )
    with pytest.raises(TypeError, match="two parts 'main'"):
        again.parts  # noqa: B018
    with pytest.raises(TypeError, match="two claims 'T-"):
        again.claims  # noqa: B018
    lost = study.but(parts={"other": study.parts["main"]})
    for name in ("claims", "figures", "published"):
        vars(lost).pop(name, None)
    with pytest.raises(TypeError, match=r"T-b of the study tiny reads a part 'main' that is not there"):
        lost.claims  # noqa: B018
    assert topic.is_dir()
