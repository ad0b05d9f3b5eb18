"""The stable-rank study: its claims on made-up records with known answers, and a small run of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars
import pytest

from undertow.core.errors import ConfigError
from undertow.execution.engines.here import Here
from undertow.execution.sweep import sweep
from undertow.models import TwoLayerModel
from undertow.report.figures import draw
from undertow.store.store import Store
from undertow.studies import STUDIES, find
from undertow.studies.kit.claim import Verdict
from undertow.studies.kit.ledger import ledger
from undertow.studies.kit.reproduction import reproductions
from undertow.studies.stable_rank import STUDY
from undertow.studies.stable_rank.parts import INIT_SCALES

CLAIMS = {claim.id: claim.test for claim in STUDY.claims}


def made_up(
    rank: Callable[[float, int, float], float], *, loss: float = 0.001, seeds: int = 10
) -> polars.DataFrame:
    """Records of a stable rank that is a function of progress, seed and init scale."""
    rows = [
        {
            "measure": measure,
            "key": key,
            "epoch": epoch,
            "value": rank(epoch / 100, seed, init) if measure == "stable-rank" else loss,
            "activation": activation,
            "seed": seed,
            "std": init,
        }
        for activation in ("relu", "leaky-relu")
        for seed in range(seeds)
        for init in INIT_SCALES
        for epoch in range(0, 101, 10)
        for measure, key in (
            ("stable-rank", "hidden.weight"),
            ("stable-rank", "output.weight"),
            ("loss", "mean"),
        )
    ]
    return polars.DataFrame(rows)


def test_falling_to_below_two_holds() -> None:
    frame = made_up(lambda t, seed, _: 1.5 + 50 * (1 - t) ** 20 + 0.01 * seed)
    assert CLAIMS["R-a.falls"](frame).verdict is Verdict.HOLDS
    assert CLAIMS["R-a.limit"](frame).verdict is Verdict.HOLDS
    assert CLAIMS["R-a.limit"](frame).effect == pytest.approx(1.545, abs=0.01)


def test_one_init_that_rises_is_enough_against_falling() -> None:
    frame = made_up(lambda t, seed, init: 50 + (5 + 0.1 * seed) * t * (1 if init == 1e-3 else -1))
    assert CLAIMS["R-a.falls"](frame).verdict is Verdict.FAILS
    assert CLAIMS["R-a.order"](frame).verdict is not Verdict.FAILS


def test_a_limit_is_contradicted_only_at_rest() -> None:
    resting = made_up(lambda _, seed, __: 10.0 + 0.1 * seed)
    assert CLAIMS["R-a.limit"](resting).verdict is Verdict.FAILS
    unfinished = made_up(lambda _, seed, __: 10.0 + 0.1 * seed, loss=0.5)
    assert CLAIMS["R-a.limit"](unfinished).verdict is Verdict.UNDECIDED
    assert "not at rest yet (loss 0.5" in CLAIMS["R-a.limit"](unfinished).note
    falling = made_up(lambda t, seed, _: 50 - 30 * t + 0.1 * seed)
    assert CLAIMS["R-a.limit-leaky"](falling).verdict is Verdict.UNDECIDED


@pytest.mark.parametrize(("sign", "verdict"), [(1, Verdict.HOLDS), (-1, Verdict.FAILS)])
def test_order(sign: int, verdict: Verdict) -> None:
    frame = made_up(lambda t, seed, init: 20 - 5 * t + sign * 1000 * init * t + 0.1 * seed)
    found = CLAIMS["R-a.order"](frame)
    assert found.verdict is verdict
    assert found.effect == pytest.approx(sign)
    assert (
        CLAIMS["R-a.order"](made_up(lambda t, _, init: 20 + init * t, seeds=3)).verdict is Verdict.UNDECIDED
    )


@pytest.mark.parametrize("variant", ["paper", "authors"])
@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
def test_grids_follow_the_report(scale: str, variant: str) -> None:
    study = STUDY.grids(scale, variant)[0]
    trial = study.points[0].trial
    assert isinstance(trial.model, TwoLayerModel)
    assert trial.training.learning_rate == 1e-4
    assert trial.model.head == "mean"
    assert len({point.columns["seed"] for point in study.points}) >= 10
    assert all(len(group.trials) == 5 for group in study.groups)
    key = "std" if variant == "paper" else "variance"
    assert {point.columns[key] for point in study.points} == {1e-5, 5e-5, 1e-4, 5e-4, 1e-3}
    if scale != "smoke":
        assert (trial.model.width, trial.training.epochs, trial.data.model_dump()["d"]) == (100, 5000, 784)


def test_unknown_names_are_told() -> None:
    with pytest.raises(ConfigError, match="did you mean 'authors'"):
        STUDY.grids("smoke", "author")[0]
    with pytest.raises(ConfigError, match="did you mean 'laptop'"):
        STUDY.grids("laptp", "paper")[0]
    assert [find(name).name for name in STUDIES] == list(STUDIES)


def test_a_smaller_run_ends_in_figures_and_verdicts(tmp_path: Path) -> None:
    study = STUDY.grids("smoke", "authors")[0].model_copy(
        update={"grid": {**STUDY.grids("smoke", "authors")[0].grid, "activation": ("relu",), "seed": (0, 1)}}
    )
    store = Store(tmp_path)
    outcome = sweep(store, study, engine=Here())
    assert outcome.complete
    pictures = draw(*reproductions(store))
    assert [path.name for path in pictures] == ["fig1-left.svg", "fig1-right.svg"]
    assert all(path.read_text().startswith("<svg") for path in pictures)
    shown = json.loads(pictures[0].with_suffix(".vl.json").read_text())
    assert "$schema" in shown
    entries = [entry.row() for entry in ledger(store)]
    assert [entry["id"] for entry in entries] == list(CLAIMS)
    assert {"id", "text", "source", "study", "variant", "verdict", "effect", "interval", "n"} <= set(
        entries[0]
    )
    assert entries[0]["verdict"] == "undecided"
    assert "too few" in entries[0]["note"]
    # With a trial missing there is evidence, but no verdict.
    store.folder(study.points[0].trial.id).rename(tmp_path / "gone")
    assert all("1 of 10 trials are missing" in entry.finding.note for entry in ledger(store))
