"""The growth of co-correlation as parts of a study: claims on made-up records with known answers, and a small run."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import polars
import pytest

from undertow.config.grid import StudyConfig
from undertow.config.trial import validate
from undertow.core.errors import InputError
from undertow.data.named_data import NamedData
from undertow.execution.engines.here import Here
from undertow.execution.sweep import sweep
from undertow.models import TwoLayerModel
from undertow.store.store import Store
from undertow.studies.co_correlation.growth.claims import CLAIMS as CONCLUSIONS
from undertow.studies.co_correlation.growth.figures import FIGURES
from undertow.studies.co_correlation.growth.parts import PARTS
from undertow.studies.co_correlation.growth.rates import exponents_of_norm, networks, rates, slack_exponents
from undertow.studies.co_correlation.proof_steps.claims import CLAIMS as STEPS
from undertow.studies.kit.claim import Finding, Verdict
from undertow.studies.kit.study import Scale

CLAIMS = [*CONCLUSIONS, *STEPS]
TESTS = {claim.id: claim for claim in CLAIMS}
TIMES = (0.0, 4.5, 9.0, 13.5, 18.0)


class Place(NamedTuple):
    """Which network, and when."""

    activation: str
    width: int
    q: float
    seed: int
    time: float


Values = Callable[[Place], dict[str, float]]
"""Readings that differ from those of ``as_claimed``."""


def made_up(change: Values, *, seeds: int = 6) -> polars.DataFrame:
    """Records in which everything is as the theorems say, but for what ``change`` says."""
    rows: list[dict[str, Any]] = []
    parts = {"growth": ("linear", "relu"), "growth-activations": ("leaky-relu", "tanh", "gelu")}
    for part, activations in parts.items():
        for activation in activations:
            for width in (16, 64, 256) if part == "growth" else (64,):
                for q in (0.05, 0.25) if part == "growth" else (0.25,):
                    for seed in range(seeds):
                        place = {"activation": activation, "width": width, "q": q, "seed": seed, "part": part}
                        about = {**place, "measure": "growth", "data_name": "digits", "variant": "paper"}
                        for step, time in enumerate(TIMES):
                            at = Place(activation, width, q, seed, time)
                            readings = as_claimed(at) | change(at)
                            rows += [
                                {**about, "step": step, "key": k, "value": v} for k, v in readings.items()
                            ]
    return polars.DataFrame(rows)


def as_claimed(at: Place) -> dict[str, float]:
    _, width, q, seed, time = at
    norm = width ** (-2 * q)
    rate = 0.01 / norm * (1 - time / 20)
    return {
        "flow_time": time,
        "norm": norm,
        # Grows by ∫ rate: with a drive that is the same for all networks the exponent is −1.
        "co_correlation": 0.2 * math.exp(0.01 * (1 + 0.01 * seed) / norm * (time - time**2 / 40)),
        "measured": rate,
        "exact": rate,
        "main": 0.005 / norm,
        "remaining": -0.002 * width**-0.5,
        "replacement": 0.0,
        "inequality": 0.001,
        "dropped": 0.0,
        "remaining_bound": 0.1 / norm,
        "replacement_bound": 0.0,
        "update_gap": 1e-14 * (1 + seed),
        "cosine_first": 0.99,
        "cosine_sum": 0.995,
        "cosine_least": 0.9 - 0.01 * seed - 0.01 * time,
        "steepest": 1.0,
    }


def judge(identifier: str, frame: polars.DataFrame) -> Finding:
    claim = TESTS[identifier]
    return claim.test(frame.filter(polars.col("part").is_in(list(claim.parts))))


def test_where_everything_is_as_claimed_every_claim_holds() -> None:
    frame = made_up(lambda _: {})
    for identifier in TESTS:
        found = judge(identifier, frame)
        assert found.verdict is Verdict.HOLDS, f"{identifier}: {found}"
        assert found.n == 6
    assert judge("C-l.linear", frame).effect == pytest.approx(-1.0)
    assert judge("C-h.rate", frame).effect == pytest.approx(0.1)
    assert "on digits" in judge("C-l.relu", frame).note


@pytest.mark.parametrize(
    ("identifier", "change"),
    [
        ("C-h.rate", lambda _: {"exact": 0.01}),
        (
            "C-l.inverse",
            lambda at: {
                "co_correlation": 0.2 * math.exp(1e-3 * at.time * at.width ** (-at.q) * (1 + at.seed))
            },
        ),
        (
            "C-l.linear",
            lambda at: {"co_correlation": 0.2 * math.exp(1e-3 * at.time * at.width**at.q * (1 + at.seed))},
        ),
        (
            "C-l.relu",
            lambda at: {
                "co_correlation": 0.2 * math.exp(1e-3 * at.time * at.width ** (4 * at.q) * (1 + at.seed))
            },
        ),
        ("C-m.update", lambda at: {"update_gap": 1e-3 * (1 + at.seed)}),
        ("C-m.bound", lambda _: {"remaining_bound": 0.0, "main": 1e9}),
        ("C-m.slack", lambda at: {"remaining": at.width ** (-at.q / 2)}),
        ("C-m.step", lambda at: {"inequality": -0.1 if at.time == 0 else 0.1}),
        ("C-m.grows", lambda at: {"measured": -0.1 if at.activation == "linear" else 0.1}),
        ("C-n.bound", lambda _: {"remaining_bound": 0.0, "main": 1e9}),
        ("C-n.bound-others", lambda _: {"remaining_bound": 0.0, "main": 1e9}),
        ("C-n.slack", lambda at: {"replacement": float(at.width)}),
        ("C-n.step", lambda at: {"inequality": -0.1 if at.width == 16 else 0.1}),
        ("C-n.grows", lambda at: {"measured": -0.1 if at.activation == "relu" else 0.1}),
        (
            "C-n.frozen",
            lambda at: {"exact": 0.005 * at.width ** (2 * at.q) * (1 + 0.01 * at.seed) * (1 - at.time / 20)},
        ),
        ("C-n.smooth", lambda at: {"dropped": -0.01 * (1 + at.seed) if at.activation == "gelu" else 0.0}),
        ("C-n.slopes", lambda _: {"steepest": 1.2}),
        ("C-o.early", lambda at: {"cosine_least": -0.1 - 0.01 * at.seed}),
        ("C-o.throughout", lambda at: {"cosine_least": 0.9 if at.time < 9 else -0.1 - 0.01 * at.seed}),
    ],
)
def test_each_claim_can_fail(identifier: str, change: Values) -> None:
    frame = made_up(change)
    assert judge(identifier, frame).verdict is Verdict.FAILS, judge(identifier, frame)
    untouched = "C-o.early" if identifier == "C-n.slopes" else "C-n.slopes"
    assert judge(untouched, frame).verdict is Verdict.HOLDS


def test_the_share_that_needs_the_slack_is_told_for_both_halves() -> None:
    late = made_up(lambda at: {"measured": 0.001 / at.width ** (-2 * at.q) if at.time > 9 else 1e6})
    note = judge("C-m.bound", late).note
    assert "rate ≥ main alone in 100% of the readings of the first half of training, 0% of the second" in note


def test_exponents_are_recovered_and_networks_that_shrank_left_out() -> None:
    frame = made_up(
        lambda at: {
            "norm": float(at.width),
            "main": 2.0 / at.width,
            "co_correlation": 0.1 * math.exp((1 if at.width < 256 else -1) * at.time / at.width**0.7),
            "remaining": at.width**-0.3,
            "replacement": 0.0,
        }
    )
    table = rates(frame, "linear")
    found = networks(table)
    assert len(found) == 36
    assert set(found["drive"].round(9)) == {2.0}
    assert found["grew"].to_list() == (found["width"] < 256).to_list()
    assert exponents_of_norm(found, "speed")["value"].to_list() == pytest.approx([-0.7] * 6)
    for too_few in (found[:1], found.filter(polars.col("width") == 256)):
        assert all(map(math.isnan, exponents_of_norm(too_few, "growth")["value"]))
    slopes = slack_exponents(table, ["remaining", "replacement"])["value"].to_list()
    assert slopes == pytest.approx([-0.3] * 12)


def test_networks_that_did_not_grow_are_told() -> None:
    shrinking = made_up(lambda at: {"co_correlation": 0.3 - 0.01 * at.time} if at.width == 16 else {})
    for identifier, networks_left_out in (("C-l.linear", "12 of 36"), ("C-l.inverse", "24 of 72")):
        assert (
            f"{networks_left_out} networks did not grow and are left out" in judge(identifier, shrinking).note
        )
    assert "did not grow" not in judge("C-l.linear", made_up(lambda _: {})).note
    none = made_up(lambda at: {"co_correlation": 0.3 - 0.01 * at.time})
    assert (judge("C-l.linear", none).verdict, judge("C-l.linear", none).effect) == (Verdict.UNDECIDED, None)
    (drawn,) = [figure.draw for figure in FIGURES if figure.name == "growth-norm"]
    drawn(none.filter(polars.col("part") == "growth")).to_dict()


def test_a_rate_that_explains_too_much_does_not_explain() -> None:
    twice = made_up(lambda at: {"exact": 2 * as_claimed(at)["exact"]})
    assert judge("C-n.frozen", twice).verdict is Verdict.FAILS


def test_without_records_there_is_a_sentence() -> None:
    frame = made_up(lambda _: {}).with_columns(measure=polars.lit("loss"))
    with pytest.raises(InputError, match="no record of the growth of co-correlation"):
        judge("C-o.early", frame)


@pytest.mark.parametrize("variant", ["paper", "paper-low-high"])
@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
@pytest.mark.parametrize("name", list(PARTS))
def test_the_grids_are_what_the_theorems_assume(name: str, scale: Scale, variant: str) -> None:
    study = grid(name, scale, variant)
    trial = study.points[0].trial
    assert isinstance(trial.data, NamedData)
    assert isinstance(trial.model, TwoLayerModel)
    assert (trial.data.normalise, trial.model.head, trial.model.bias) == ("unit-norm", "signs", "none")
    assert trial.data.task == ("parity" if variant == "paper" else "low-high")
    training = trial.training
    assert (training.optimizer.name, training.loss, training.dtype) == ("gd", "bce", "float64")
    assert training.frozen == ("output.weight",)
    assert training.learning_rate * training.epochs == pytest.approx(18)  # the paper's 5,900 · 0.003 is 17.7
    assert min(point.columns["q"] for point in study.points) > 0
    assert len({point.columns["seed"] for point in study.points}) >= 5
    assert PARTS[name](scale, "authors") is None


def grid(name: str, scale: Scale, variant: str = "paper") -> StudyConfig:
    settings = PARTS[name](scale, variant)
    assert settings is not None
    names = {"name": "co-correlation", "variant": variant, "scale": scale, "part": name}
    return validate(StudyConfig, {**names, **settings})


def test_a_smaller_run_ends_in_figures_and_findings(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for name in PARTS:
        study = grid(name, "smoke")
        smaller = {**study.grid, "seed": (0, 1)}
        assert sweep(store, study.model_copy(update={"grid": smaller}), engine=Here()).complete
    frame = store.frame()
    for identifier in TESTS:
        found = judge(identifier, frame)
        assert found.verdict is Verdict.UNDECIDED  # two seeds are too few
        assert found.effect is not None
        assert math.isfinite(found.effect)
    for figure in FIGURES:
        drawn = figure.draw(frame.filter(polars.col("part").is_in(list(figure.parts))))
        assert "digits" in json.dumps(drawn.to_dict(), ensure_ascii=False)
    assert {claim.figure for claim in CLAIMS} - {None} == {figure.name for figure in FIGURES}
    # The identity of the five terms, on every record of the run.
    table = rates(frame)
    parts = table["main"] + table["replacement"] + table["remaining"] + table["inequality"] + table["dropped"]
    assert float((parts - table["exact"]).abs().max()) < 1e-12  # type: ignore[arg-type]
    assert float(table["update_gap"].max()) < 1e-10  # type: ignore[arg-type]
    # What the proof's bounds allow is so much that a ϱ that shrinks as fast as it should grow would be within them.
    rate = frame.filter(polars.col("key") == "main").with_columns(
        key=polars.lit("measured"), value=-polars.col("value")
    )
    shrinking = polars.concat([frame.filter(polars.col("key") != "measured"), rate])
    for identifier in ("C-m.bound", "C-n.bound", "C-n.bound-others"):
        assert TESTS[identifier].check
        assert judge(identifier, shrinking).effect == 1.0
    assert judge("C-m.grows", shrinking).effect == judge("C-n.grows", shrinking).effect == 0.0
