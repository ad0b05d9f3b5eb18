"""The co-correlation study: its claims on made-up records with known answers, and small runs of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars
import pytest
import torch

from undertow.data.local import State
from undertow.data.sources import check
from undertow.errors import ConfigError, InputError
from undertow.measures.energy import energy
from undertow.report.figures import draw
from undertow.runs.build import build_data, build_network
from undertow.runs.config import NamedData, TrialConfig, TwoLayerModel, validate
from undertow.runs.engines.here import Here
from undertow.runs.grid import StudyConfig
from undertow.runs.store import Store
from undertow.runs.sweep import sweep
from undertow.studies.claims import Verdict
from undertow.studies.co_correlation import RADII, STUDY
from undertow.studies.ledger import ledger
from undertow.studies.reproduction import reproductions
from undertow.studies.risk_bound import both_sides, reaches

CLAIMS = {claim.id: claim.test for claim in STUDY.claims}
ENERGY, RISK = 0.5, 0.7


def made_up(left: Callable[[float, int, int], float], *, seeds: int = 5) -> polars.DataFrame:
    """Records in which the share of r·S left over is a function of radius, seed and width."""
    rows = []
    for activation in ("linear", "relu"):
        for width in (16, 64):
            for seed in range(seeds):
                network = {
                    "measure": "risk-bound",
                    "activation": activation,
                    "width": width,
                    "q": 0.25,
                    "seed": seed,
                    "data_name": "digits",
                    "variant": "paper",
                }
                for step in (0, 100):
                    readings = {"risk": RISK, "energy": ENERGY, "holds_up_to": 0.0}
                    for r in RADII:
                        share = left(r, seed, width) if step else -1.0
                        readings[f"gap@{r!r}"] = share * r * ENERGY
                        readings[f"bound@{r!r}"] = RISK + r * ENERGY
                        readings[f"adversarial@{r!r}"] = RISK + (1 - share) * r * ENERGY
                    rows += [{**network, "step": step, "key": k, "value": v} for k, v in readings.items()]
    return polars.DataFrame(rows)


def test_the_table_holds_both_sides_before_and_after_training() -> None:
    frame = made_up(lambda r, _, __: 0.2 - r)
    sides = both_sides(frame)
    assert len(sides) == 2 * 2 * 5 * len(RADII)
    assert sides["left"].to_list() == pytest.approx((0.2 - sides["r"]).to_list())
    rise = (sides["bound"] - sides["adversarial"]).to_list()
    assert rise == pytest.approx(sides["gap"].to_list())
    assert both_sides(frame, trained=False)["left"].to_list() == pytest.approx([-1.0] * len(sides))
    with pytest.raises(InputError, match="no record of the adversarial risk"):
        both_sides(frame.filter(polars.col("measure") == "accuracy"))


def test_an_inequality_with_room_everywhere_holds() -> None:
    frame = made_up(lambda r, seed, _: 0.9 - r + 0.01 * seed)
    for claim in CLAIMS.values():
        assert claim(frame).verdict is Verdict.HOLDS
    assert CLAIMS["C-b.linear"](frame).effect == pytest.approx(0.42)
    assert CLAIMS["C-b.first-order"](frame).effect == pytest.approx(0.92)
    assert "holds up to r = 0.5 … 0.5" in CLAIMS["C-b.linear"](frame).note
    assert CLAIMS["C-b.linear"](made_up(lambda *_: 0.5, seeds=3)).verdict is Verdict.UNDECIDED


def test_one_width_that_breaks_it_far_out_is_enough_against_it() -> None:
    frame = made_up(lambda r, seed, width: 0.09 + 0.001 * seed - (r if width == 64 else 0.0))
    found = CLAIMS["C-b.relu"](frame)
    assert found.verdict is Verdict.FAILS
    assert found.effect == pytest.approx(0.092 - 0.5)
    assert "holds up to r = 0.03 … 0.5" in found.note
    assert "on digits" in found.note
    assert CLAIMS["C-b.first-order"](frame).verdict is Verdict.HOLDS


def test_to_first_order_the_limit_counts_and_not_the_smallest_radius() -> None:
    """With a share of 1e-4 − r the inequality fails at every measured r, and holds as r → 0."""
    frame = made_up(lambda r, seed, _: 1e-4 + 1e-6 * seed - r)
    assert CLAIMS["C-b.linear"](frame).verdict is Verdict.FAILS
    assert reaches(both_sides(frame))["reach"].to_list() == [0.0] * 20
    found = CLAIMS["C-b.first-order"](frame)
    assert found.verdict is Verdict.HOLDS
    assert found.effect == pytest.approx(1.02e-4)
    assert CLAIMS["C-b.first-order"](made_up(lambda r, seed, _: -0.1 - r * seed)).verdict is Verdict.FAILS


def test_reach_stops_at_the_first_failure() -> None:
    frame = made_up(lambda r, *_: -0.1 if r == 0.03 else 0.1)
    assert set(reaches(both_sides(frame))["reach"]) == {0.01}


@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
@pytest.mark.parametrize("variant", ["paper", "paper-low-high", "authors"])
def test_settings_follow_text_and_code(scale: str, variant: str) -> None:
    study = STUDY.grids(scale, variant)[0]
    trial = study.points[0].trial
    data, model, training = trial.data, trial.model, trial.training
    assert isinstance(data, NamedData)
    assert isinstance(model, TwoLayerModel)
    assert (training.optimizer, training.learning_rate, training.frozen) == ("sgd", 0.003, ("output.weight",))
    assert trial.probe.split == "test"
    bound = trial.probe.measures[0]
    if variant == "authors":
        assert (data.task, data.normalise, model.head) == (None, "centred", "gaussian")
        assert (training.loss, training.batch_size, training.shuffle) == ("cross-entropy", 1024, False)
        assert bound["unit"] == 2.0
    else:
        task = "parity" if variant == "paper" else "low-high"
        assert (data.task, data.normalise, model.head) == (task, "unit-norm", "signs")
        assert (training.loss, training.batch_size, training.shuffle) == ("bce", 512, True)
        assert bound["unit"] == 1.0
    assert {point.columns["activation"] for point in study.points} == {"linear", "relu"}
    assert len({point.columns["seed"] for point in study.points}) >= 5
    assert {point.columns["data_name"] for point in study.points} == {data.name}
    if scale == "paper":
        assert (data.name, data.limit, training.epochs, trial.probe.limit) == ("mnist", None, 50, None)
        assert {point.columns["width"] for point in study.points} == {2**k for k in range(4, 14)}
        assert {point.columns["q"] for point in study.points} == {-0.15, -0.1, -0.05, 0, 0.05, 0.15, 0.25}
    if scale == "laptop":
        assert data.name == ("mnist" if check("mnist").state is State.PRESENT else "digits")
    assert validate(StudyConfig, study.model_dump(mode="json")) == study  # as the store reads it again
    assert validate(TrialConfig, trial.model_dump(mode="json")).id == trial.id


def small(variant: str) -> StudyConfig:
    study = STUDY.grids("smoke", variant)[0]
    return study.model_copy(
        update={
            "training": study.training.model_copy(update={"epochs": 3}),
            "grid": {**study.grid, "seed": (0, 1)},
        }
    )


@pytest.mark.parametrize("variant", ["paper", "authors"])
def test_a_smaller_run_ends_in_figures_and_verdicts(variant: str, tmp_path: Path) -> None:
    study, store = small(variant), Store(tmp_path)
    assert sweep(store, study, engine=Here()).complete
    frame = store.frame()
    assert {"risk-bound", "accuracy"} == set(frame["measure"])
    assert set(frame["epoch"]) == {0, 3}
    pictures = draw(*reproductions(store))
    assert [path.name for path in pictures] == ["theorem-4-1.svg", "theorem-4-1-gap.svg"]
    shown = pictures[0].read_text()
    assert ("in raw pixels" if variant == "authors" else "of inputs with norm 1") in shown
    entries = [entry.row() for entry in ledger(store)]
    assert [entry["id"] for entry in entries] == list(CLAIMS)
    assert {entry["verdict"] for entry in entries} == {"undecided"}  # two seeds are too few
    assert sweep(store, study, engine=Here()).notes == ()
    # The supremum of a convex loss over growing balls is convex in r: the share cannot rise.
    linear = both_sides(frame).filter(polars.col("activation") == "linear")
    for network in linear.partition_by("seed"):
        assert network["left"].diff().drop_nulls().max() < 1e-5  # type: ignore[operator]


def test_what_is_measured_is_the_test_split_before_any_training(tmp_path: Path) -> None:
    study, store = small("authors"), Store(tmp_path)
    study = study.model_copy(update={"grid": {**study.grid, "activation": ("relu",), "seed": (0,)}})
    sweep(store, study, engine=Here())
    trial = study.points[0].trial
    assert isinstance(trial.data, NamedData)
    test = build_data(trial.data.model_copy(update={"split": "test", "limit": 40}))
    net = build_network(trial, test)
    start = {
        (row["measure"], row["key"]): row["value"]
        for row in store.frame().filter(polars.col("step") == 0).to_dicts()
    }
    right = net(test.x).argmax(1) == test.y
    assert start["accuracy", ""] == pytest.approx(right.double().mean().item())
    per_pixel = 2 * energy(net, test.x, test.y, loss="cross-entropy", dtype=torch.float64).value
    assert start["risk-bound", "energy"] == pytest.approx(per_pixel, rel=1e-6)


def test_a_probe_on_a_split_needs_data_with_splits() -> None:
    trial = STUDY.grids("smoke", "paper")[0].points[0].trial.model_dump(mode="json")
    mixture = {"name": "kou-mixture"}
    with pytest.raises(ConfigError, match=r"kou-mixture has no splits: leave probe\.split out"):
        validate(TrialConfig, {**trial, "data": mixture})
    with pytest.raises(ConfigError, match="did you mean 'test'"):
        validate(TrialConfig, {**trial, "probe": {**trial["probe"], "split": "tset"}})
    with pytest.raises(ConfigError, match="did you mean 'radii'"):
        validate(TrialConfig, {**trial, "probe": {"measures": [{"name": "risk-bound", "radi": [0.1]}]}})
    with pytest.raises(ConfigError, match="must be a word, a number or a list of them"):
        validate(TrialConfig, {**trial, "probe": {"measures": [{"name": "risk-bound", "radii": {}}]}})


@pytest.mark.full
def test_the_smoke_scale_refutes_the_printed_inequality_for_linear_networks(tmp_path: Path) -> None:
    """For a linear logit with equal slopes everywhere curvature wins at once: measured, not assumed."""
    study, store = STUDY.grids("smoke", "paper")[0], Store(tmp_path)
    assert sweep(store, study, engine=Here()).complete
    verdicts = {entry.claim.id: entry.finding.verdict for entry in ledger(store)}
    assert verdicts["C-b.first-order"] is Verdict.HOLDS
    assert verdicts["C-b.linear"] is Verdict.FAILS
