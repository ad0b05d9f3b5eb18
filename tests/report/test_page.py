"""The report as a document: complete, honest about what is missing, and safe whatever the names say."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import json
import re
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.execution.sweeps import flip
from tests.report.stores import own_study, publish_stable_rank
from undertow.adversary.examples import Examples
from undertow.config.grid import StudyConfig
from undertow.config.trial import validate
from undertow.report.contents import gather
from undertow.report.origins import study_file
from undertow.report.page import render, write_report
from undertow.report.pairs import picture_pairs
from undertow.report.words import facts
from undertow.store.store import Store
from undertow.store.tolerant import ReadableStore
from undertow.studies.kit.ledger import judge
from undertow.studies.kit.reproduction import reproductions

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


class Elements(HTMLParser):
    """Every start tag with its attributes, and the text outside of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._inside = tag

    def handle_data(self, data: str) -> None:
        if self._inside not in ("script", "style"):
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


def packed(page: str, name: str) -> Any:
    match = re.search(rf'id="{name}"[^>]*>([^<]*)<', page)
    assert match
    return json.loads(gzip.decompress(base64.b64decode(match.group(1))))


@pytest.fixture(scope="module")
def page(report: Path) -> str:
    return report.read_text()


def test_every_claim_is_there_with_its_verdict(page: str) -> None:
    elements = Elements(page)
    claims = [each for each in elements.all("article") if each.get("class") == "claim"]
    assert [claim["id"] for claim in claims][:2] == [
        "claim-stable-rank-R-a.falls",
        "claim-stable-rank-R-a.falls-leaky",
    ]
    findings = [each for each in elements.all("div") if each.get("class") == "finding"]
    assert len(findings) == 2 * len(claims)
    assert {each["data-variant"] for each in findings} == {"paper", "authors"}
    assert findings[0]["data-verdict"] == "holds"


def test_both_p_and_the_family_are_told(page: str) -> None:
    text = " ".join(Elements(page).text.split())
    assert "covers 97.9 %, n = 10" in text
    assert "p = 0.002 alone, 0.002" in text
    assert "among 6 claims" in text  # those of the part that ran
    assert "6 claims judged together: 6 decided, at most 0.3 of these expected to be false" in text


def test_checks_stand_apart_and_are_not_counted(tmp_path: Path) -> None:
    publish_stable_rank(tmp_path, "paper")
    store = ReadableStore(tmp_path)
    (reproduction,) = reproductions(store)
    first, *others = reproduction.study.claims
    checked = dataclasses.replace(first, check="it is so by construction", hindsight="drawn late")
    study = reproduction.study.but(claims=(checked, *others))
    reproduction = dataclasses.replace(reproduction, study=study)
    elements = Elements(render(gather(store, [(reproduction, judge(reproduction))])))
    text = " ".join(elements.text.split())
    assert "Of 5 verdicts" in text
    assert "5 claims judged together" in text
    assert "a check, not counted among the verdicts: it is so by construction" in text
    assert "settled after a look at its records: drawn late" in text
    articles = [each for each in elements.all("article") if (each.get("class") or "").startswith("claim")]
    assert [each["class"] for each in articles] == ["claim"] * 5 + ["claim check"]
    findings = [each for each in elements.all("div") if each.get("class") == "finding"]
    assert findings[-1]["data-verdict"] == "kept"


def test_links_inside_the_page_lead_somewhere(page: str) -> None:
    elements = Elements(page)
    places = {attributes["id"] for _, attributes in elements.found if "id" in attributes}
    ids = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    links = [each["href"] for each in elements.all("a")]
    assert len(links) > 10
    assert {link[1:] for link in links if link} <= places
    assert len(ids) == len(places)


def test_nothing_is_asked_of_other_machines(page: str) -> None:
    elements = Elements(page)
    assert not [each for each in elements.found if each[1].get("src")]
    assert [each["href"] for each in elements.all("link")] == ["data:,"]
    policy = next(each["content"] for each in elements.all("meta") if each.get("http-equiv"))
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    for script in scripts:
        assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy
    assert len(scripts) == 2


def test_figures_share_their_data_and_hold_every_variant(page: str) -> None:
    document = packed(page, "packed-figures")
    cards = [each for each in Elements(page).all("figure") if each.get("data-figure")]
    assert len(cards) == len(document["figures"]) > 4
    names = re.findall(r'"data": ?\{"name": ?"(\w+)"\}', json.dumps(document["figures"]))
    assert set(names) == set(document["tables"])
    assert "values" not in json.dumps(document["figures"])


def test_the_browser_has_every_trial_with_its_configuration_and_examples(page: str) -> None:
    grids = [packed(page, f"packed-grid-{i}") for i in range(3)]
    own = next(grid for grid in grids if grid["study"] == "mine")
    assert own["axes"] == ["width", "seed"]
    assert [trial["at"] for trial in own["trials"]] == [[4, 0], [4, 1], [8, 0], [8, 1]]
    assert {trial["status"] for trial in own["trials"]} == {"finished"}
    assert own["config"]["training.epochs"] == 3
    assert own["trials"][2]["own"] == {"model.width": 8, "seed": 0}
    assert own["pairs"]["0"]["side"] == 8
    assert len(own["pairs"]["0"]["distance"]) == 2
    assert ["spectrum", "hidden.weight:0"] in own["series"]["names"]


def test_provenance_and_commands_are_told(page: str) -> None:
    text = Elements(page).text
    assert "undertow reproduce stable-rank --scale smoke --variant authors --part main --runs" in text
    assert "undertow run mine.toml" in text
    assert f"torch {torch.__version__}" in text
    assert "SHA-256 " + "ab" * 32 in text
    assert "1 MB" not in text


def test_a_study_of_which_only_some_parts_ran_is_rerun_by_naming_them(tmp_path: Path) -> None:
    from undertow.studies import find

    study = find("co-correlation")
    parts = [grid.part for grid in study.grids("smoke", "paper")][:2]
    for grid in study.grids("smoke", "paper", parts=parts):
        Store(tmp_path).add_study(grid)
    text = Elements(write_report(tmp_path, tmp_path / "r.html").read_text()).text
    assert f"--variant paper --part {parts[0]} --part {parts[1]} --runs" in text


def test_the_study_file_is_the_study() -> None:
    study = own_study(examples=3)
    again = validate(StudyConfig, tomllib.loads(study_file(study.model_dump(mode="json"))))
    assert [point.trial.id for point in again.points] == [point.trial.id for point in study.points]


@pytest.mark.parametrize("variant", ["paper", "authors"])
def test_files_of_the_papers_studies_round_trip(variant: str) -> None:
    from undertow.studies import STUDIES, find

    for name in STUDIES:
        study = find(name)
        if variant in study.variants:
            for grid in study.grids("smoke", variant):
                assert validate(StudyConfig, tomllib.loads(study_file(grid.model_dump(mode="json")))) == grid


def test_missing_and_damaged_trials_are_told(tmp_path: Path) -> None:
    published = publish_stable_rank(tmp_path, "paper", without=3)
    flip(tmp_path / "trials" / published[0] / "records.jsonl", 40)
    page = write_report(Store(tmp_path), tmp_path / "report.html").read_text()
    elements = Elements(page)
    every = len(published) + 3
    assert f"4 of {every} trials of stable-rank, variant paper, scale smoke are not there" in elements.text
    assert "records.jsonl is damaged" in elements.text
    findings = [each for each in elements.all("div") if each.get("class") == "finding"]
    assert {each["data-verdict"] for each in findings} == {"undecided"}
    grid = packed(page, "packed-grid-0")
    assert [trial["status"] for trial in grid["trials"]][:4] == ["missing"] * 3 + ["damaged"]


def test_a_claim_that_stumbles_over_missing_trials_is_undecided_and_over_none_an_error(
    tmp_path: Path,
) -> None:
    def stumbles(_: object) -> Any:
        raise TypeError("no such row")

    for without in (1, 0):
        folder = tmp_path / str(without)
        publish_stable_rank(folder, "paper", without=without)
        (reproduction,) = reproductions(ReadableStore(folder))
        claim = dataclasses.replace(reproduction.study.claims[0], test=stumbles)
        study = reproduction.study.but(claims=(claim,))
        broken = dataclasses.replace(reproduction, study=study)
        if without:
            (entry,) = judge(broken)
            assert "cannot be judged on what is there (TypeError: no such row)" in entry.finding.note
        else:
            with pytest.raises(TypeError, match="no such row"):
                judge(broken)


def test_a_study_with_both_copies_damaged_is_told_and_the_others_shown(tmp_path: Path) -> None:
    publish_stable_rank(tmp_path, "paper")
    Store(tmp_path).add_study(own_study())
    for path in (tmp_path / "studies").glob("mine*"):
        flip(path, 30)
    page = write_report(tmp_path, tmp_path / "report.html").read_text()
    assert "The study mine.own.own cannot be read" in Elements(page).text
    assert "R-a.falls" in page


def test_a_folder_where_nothing_has_run_yet_makes_a_report(tmp_path: Path) -> None:
    every = len(publish_stable_rank(tmp_path / "whole", "paper"))
    assert not publish_stable_rank(tmp_path / "none", "paper", without=every)
    text = Elements(write_report(tmp_path / "none", tmp_path / "report.html").read_text()).text
    assert f"{every} of {every} trials" in text


def test_a_study_of_ones_own_may_have_the_name_of_a_known_one(tmp_path: Path) -> None:
    own = validate(StudyConfig, {**own_study().model_dump(mode="json"), "name": "stable-rank"})
    Store(tmp_path).add_study(own)
    text = Elements(write_report(tmp_path, tmp_path / "report.html").read_text()).text
    assert "come with no claims" in text
    assert "undertow run stable-rank.toml" in text


def test_networks_that_studies_share_are_counted_once(tmp_path: Path) -> None:
    for name in ("mine", "yours"):
        study = validate(StudyConfig, {**own_study().model_dump(mode="json"), "name": name})
        Store(tmp_path).add_study(study)
    contents = gather(ReadableStore(tmp_path), [])
    assert dict(facts(contents))["Networks trained"] == "0 of 4"
    assert [run.trials for run in contents.runs] == [4, 4]


def test_without_figures_the_page_has_no_section_for_them(tmp_path: Path) -> None:
    Store(tmp_path).add_study(own_study())
    assert 'id="figures"' not in write_report(tmp_path, tmp_path / "report.html").read_text()


def test_names_and_notes_cannot_write_markup(tmp_path: Path) -> None:
    publish_stable_rank(tmp_path, "paper")
    Store(tmp_path).add_study(own_study())
    store = ReadableStore(tmp_path)
    judged = []
    for reproduction in reproductions(store):
        entries = [
            dataclasses.replace(
                entry,
                claim=dataclasses.replace(entry.claim, text=EVIL, source=EVIL, id=f"R-{EVIL}"),
                finding=dataclasses.replace(entry.finding, note=EVIL),
            )
            for entry in judge(reproduction)
        ]
        figures = tuple(dataclasses.replace(each, caption=EVIL) for each in reproduction.study.figures)
        study = reproduction.study.but(title=EVIL, summary=EVIL, source=EVIL, figures=figures)
        judged.append((dataclasses.replace(reproduction, study=study), entries))
    contents = gather(store, judged)
    contents.grids[0]["study"] = EVIL
    contents = dataclasses.replace(contents, path=EVIL, problems=(EVIL,))
    plain = Elements(render(gather(store, [(each, judge(each)) for each in reproductions(store)])))
    evil = Elements(render(contents))
    assert [tag for tag, _ in evil.found if tag in ("script", "img")] == ["script"] * len(plain.all("script"))
    assert EVIL in evil.text


def test_a_figure_that_cannot_be_drawn_says_so_and_spoils_nothing(tmp_path: Path) -> None:
    publish_stable_rank(tmp_path, "paper")
    store = ReadableStore(tmp_path)
    (reproduction,) = reproductions(store)

    def broken(_: object) -> Any:
        raise KeyError("no such column")

    first, *others = reproduction.study.figures
    study = reproduction.study.but(figures=(dataclasses.replace(first, draw=broken), *others))
    page = render(gather(store, [(dataclasses.replace(reproduction, study=study), judge(reproduction))]))
    assert "cannot be drawn from the records that are there (KeyError" in Elements(page).text
    left = [figure for figure in others if set(figure.parts) <= {"main"}]  # the part that ran
    assert len(packed(page, "packed-figures")["figures"]) == len(left)


def test_pictures_are_packed_to_a_byte_and_their_change_on_its_own_scale() -> None:
    generator = torch.Generator().manual_seed(0)
    clean = torch.rand(3, 64, generator=generator)
    moved = clean + 0.01 * torch.randn(3, 64, generator=generator)
    labels = torch.tensor([1, 2, 3])
    examples = Examples(clean, moved, labels, labels + 1, torch.tensor([0.1, float("inf"), 0.0]))
    shown = picture_pairs(examples, most=2)
    assert shown is not None
    pixels = torch.frombuffer(bytearray(base64.b64decode(shown["pixels"])), dtype=torch.uint8).view(2, 64)
    change = torch.frombuffer(bytearray(base64.b64decode(shown["change"])), dtype=torch.int8).view(2, 64)
    low, high = clean[:2].amin(1, keepdim=True), clean[:2].amax(1, keepdim=True)
    assert ((low + (high - low) * pixels / 255) - clean[:2]).abs().max() <= 0.51 / 255
    stretch = torch.tensor(shown["stretch"])[:, None] * (high - low)
    assert (change / 127 * stretch - (moved - clean)[:2]).abs().max() <= 0.51 / 127 * stretch.max()
    assert shown["distance"] == [pytest.approx(0.1), None]
    assert (
        picture_pairs(dataclasses.replace(examples, x=clean[:, :10], adversarial=moved[:, :10]), most=2)
        is None
    )
