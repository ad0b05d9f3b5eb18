"""Studies of several parts: which grids they have, and what figures and claims get to see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars
import pytest

from undertow import studies
from undertow.core.errors import ConfigError
from undertow.execution.engines.here import Here
from undertow.execution.sweep import sweep
from undertow.store.store import Store
from undertow.studies.kit.claim import Claim, Finding, Verdict, decide
from undertow.studies.kit.ledger import ledger
from undertow.studies.kit.reproduction import reproductions
from undertow.studies.kit.study import Scale, Study


def _part(widths: list[int]) -> dict[str, Any]:
    return {
        "data": {"name": "kou-mixture", "n": 4, "d": 5},
        "model": {"name": "two-layer", "width": 2},
        "training": {"epochs": 1},
        "grid": {"width": widths, "seed": [0, 1]},
    }


def narrow(scale: Scale, variant: str) -> dict[str, Any]:  # noqa: ARG001
    return _part([2])


def wide(scale: Scale, variant: str) -> dict[str, Any] | None:  # noqa: ARG001
    return None if variant == "authors" else _part([3, 4])


def widths_seen(frame: polars.DataFrame) -> Finding:
    return decide(frame["width"].unique().to_list(), above=0.0, note=f"columns {frame.columns}")


TOY = Study(
    name="toy",
    title="A toy",
    source="nowhere",
    costs={},
    variants={"paper": "both parts", "authors": "one of them"},
).but(
    parts={"narrow": narrow, "wide": wide},
    figures=(),
    claims=(
        Claim("T-a", "narrow", "here", widths_seen, parts=("narrow",)),
        Claim("T-b", "both", "here", widths_seen, parts=("narrow", "wide")),
    ),
)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(studies.STUDIES, "toy", __name__)


def test_networks_that_diverged_are_told_and_excuse_a_test_that_needs_them(
    toy: None,  # noqa: ARG001
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def wild(scale: Scale, variant: str) -> dict[str, Any]:  # noqa: ARG001
        return {**_part([2]), "training": {"epochs": 40}, "grid": {"learning_rate": [0.05, 1e200]}}

    def ends(frame: polars.DataFrame) -> Finding:
        last = frame.filter(polars.col("step") == 40)
        return decide([last.filter(learning_rate=1e200)["value"][0]], above=0.0)

    claims = (
        Claim("T-a", "any", "here", lambda frame: decide([1.0] * frame["trial"].n_unique(), above=0.0)),
        Claim("T-b", "the end", "here", ends),
    )
    study = TOY.but(parts={"main": wild}, claims=claims)
    monkeypatch.setattr(f"{__name__}.STUDY", study)
    store = Store(tmp_path)
    assert sweep(store, *study.grids("smoke", "paper"), engine=Here()).complete
    first, second = (entry.finding for entry in ledger(store))
    assert first.note == "2 seeds are too few, 6 are needed; 1 of 2 trials diverged"
    assert second.verdict is Verdict.UNDECIDED
    assert "it cannot be judged on what is there" in second.note


STUDY = TOY  # where `find` looks for it


def test_a_variant_has_the_parts_it_has() -> None:
    assert [each.part for each in TOY.grids("smoke", "paper")] == ["narrow", "wide"]
    assert [each.part for each in TOY.grids("smoke", "authors")] == ["narrow"]
    assert [each.label for each in TOY.grids("smoke", "paper", parts=["wide"])] == ["toy.paper.smoke.wide"]
    with pytest.raises(ConfigError, match="no part 'wdie'; did you mean 'wide'"):
        TOY.grids("smoke", "paper", parts=["wdie"])
    with pytest.raises(ConfigError, match="the variant authors of toy has no part wide"):
        TOY.grids("smoke", "authors", parts=["wide"])


def test_a_claim_sees_its_parts_and_waits_for_those_alone(toy: None, tmp_path: Path) -> None:  # noqa: ARG001
    store = Store(tmp_path)
    first, second = TOY.grids("smoke", "paper")
    assert sweep(store, first, engine=Here()).complete
    assert [entry.claim.id for entry in ledger(store)] == ["T-a"]  # the other part was not asked for
    store.add_study(second)
    entries = {entry.claim.id: entry.finding for entry in ledger(store)}
    assert entries["T-a"].effect == 2.0
    assert "missing" not in entries["T-a"].note
    assert "4 of 6 trials are missing" in entries["T-b"].note
    assert sweep(store, second, engine=Here()).complete
    assert {entry.claim.id: entry.finding.effect for entry in ledger(store)} == {"T-a": 2.0, "T-b": 3.0}
    (whole,) = reproductions(store)
    assert set(whole.frame(["wide"])["width"]) == {3, 4}
    assert whole.missing(["wide"]) == (0, 4)
    assert entries["T-b"].verdict == Verdict.UNDECIDED
