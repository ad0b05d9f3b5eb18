"""The co-correlation study: its settings follow text and code, and small runs end in figures and verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars
import pytest
import torch

from undertow.adversary import Classifier, robust_accuracy
from undertow.config.grid import StudyConfig
from undertow.config.trial import TrialConfig, validate
from undertow.core.errors import ConfigError
from undertow.data.loading import load
from undertow.data.local import State
from undertow.data.named_data import NamedData
from undertow.data.sources import check
from undertow.data.tasks import relabel
from undertow.execution.build import build_data, build_network
from undertow.execution.engines.here import Here
from undertow.execution.sweep import sweep
from undertow.measures.collaboration import collaboration
from undertow.measures.energy import energy
from undertow.models import TwoLayerModel
from undertow.probe.schedule import Schedule
from undertow.report.figures import draw
from undertow.store.store import Store
from undertow.studies.co_correlation import STUDY
from undertow.studies.co_correlation.risk_bound.claims import both_sides
from undertow.studies.kit.claim import Verdict
from undertow.studies.kit.ledger import ledger
from undertow.studies.kit.reproduction import reproductions

TWO_LAYER = ("grid", "risk-bound", "activations", "estimators")


def part(name: str, variant: str, *, scale: str = "smoke") -> StudyConfig:
    return STUDY.grids(scale, variant, parts=(name,))[0]


def shrunk(study: StudyConfig, *, epochs: int = 2, **axes: Any) -> StudyConfig:
    training = study.training.model_copy(update={"epochs": epochs})
    return study.model_copy(update={"training": training, "grid": {**study.grid, **axes}})


@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
@pytest.mark.parametrize("variant", ["paper", "paper-low-high", "authors"])
def test_settings_follow_text_and_code(scale: str, variant: str) -> None:
    for study in STUDY.grids(scale, variant, parts=TWO_LAYER):
        first = {axis: values[:1] for axis, values in study.grid.items()}
        trial = study.model_copy(update={"grid": first}).points[0].trial
        data, model, training = trial.data, trial.model, trial.training
        assert isinstance(data, NamedData)
        assert isinstance(model, TwoLayerModel)
        assert (training.optimizer.name, training.frozen) == ("sgd", ("output.weight",))
        assert trial.probe.split == "test"
        if variant == "authors":
            assert (data.task, data.normalise, model.head) == (None, "centred", "gaussian")
            assert (training.loss, training.shuffle) == ("cross-entropy", False)
        else:
            task = "parity" if variant == "paper" else "low-high"
            assert (data.task, data.normalise, model.head) == (task, "unit-norm", "signs")
            assert (training.loss, training.shuffle) == ("bce", True)
        assert set(study.grid["data.name"]) == {data.name}
        if scale == "paper":
            assert (data.name, data.limit, training.epochs) == ("mnist", None, 50)
            assert (training.learning_rate, training.batch_size) == (
                0.003,
                1024 if variant == "authors" else 512,
            )
        elif variant != "authors":
            assert data.limit is not None
            assert training.batch_size is not None
            steps = training.epochs * data.limit / training.batch_size
            assert training.learning_rate * steps == pytest.approx(17.7, rel=1e-3)  # the paper's time
        if scale == "laptop":
            names = [name for name in ("mnist", "fashion-mnist") if check(name).state is State.PRESENT]
            assert data.name == [*names, "digits"][0]
        assert len(set(study.seeds)) == 10
        assert validate(StudyConfig, study.model_dump(mode="json")) == study  # as the store reads it again
        assert validate(TrialConfig, trial.model_dump(mode="json")).id == trial.id


def attacked(study: StudyConfig) -> set[str]:
    """The activations of networks that are attacked."""
    return {
        point.columns["activation"]
        for point in study.points
        if "robust-accuracy" in [measure["name"] for measure in point.trial.probe.measures]
    }


def test_the_full_grid_is_the_papers_and_a_picture() -> None:
    for variant in STUDY.variants:
        study = part("full-grid", variant, scale="paper")
        assert len(study.points) == 140
        assert {point.columns["width"] for point in study.points} == {2**k for k in range(4, 14)}
        assert {point.columns["q"] for point in study.points} == {-0.15, -0.1, -0.05, 0, 0.05, 0.15, 0.25}
        assert len(study.groups) == 20  # of one width and activation, all q together
        measures = {measure["name"]: measure for measure in study.probe.measures}
        assert measures["robust-accuracy"]["attack"] == "autoattack"
        assert (measures["robust-accuracy"]["eps"], measures["robust-accuracy"]["every"]) == ((0.5,), "end")
        assert measures["collaboration"]["limit"] == 10_000
        assert attacked(study) == {"relu"}  # Fig 1a is about these
        assert {point.columns["seed"] for point in study.points} == {0}
    assert not any("full-grid" in claim.parts for claim in STUDY.claims)
    drawn = {figure.name for figure in STUDY.figures if figure.parts == ("full-grid",)}
    assert drawn == {f"full-{figure.name}" for figure in STUDY.figures if figure.parts == ("grid",)}
    for scale in ("smoke", "laptop"):  # there the grid is small enough to be judged as a whole
        assert "full-grid" not in {study.part for study in STUDY.grids(scale, "paper")}


@pytest.mark.parametrize("variant", ["paper", "authors"])
def test_at_paper_scale_ten_seeds_of_a_smaller_grid_are_judged(variant: str) -> None:
    study = part("grid", variant, scale="paper")
    axes = {
        name: {point.columns[name] for point in study.points} for name in ("activation", "width", "q", "seed")
    }
    assert axes["width"] == {16, 128, 1024, 8192}
    assert axes["q"] == {-0.15, 0.05, 0.25}
    assert (axes["activation"], len(axes["seed"]), len(study.points)) == ({"linear", "relu"}, 10, 240)
    assert attacked(study) == {"relu"}
    # The seeds of a network are members of one batch, and a batch is the most that a lost machine can cost.
    for group in study.groups:
        assert sorted(trial.seed for trial in group.trials) == list(range(10))
    trial = study.points[0].trial
    assert isinstance(trial.probe.every, int)
    steps = -(-60_000 // trial.training.batch_size)  # type: ignore[operator]
    moments = Schedule(trial.probe.every).upto(50 * steps)
    assert [moment / steps for moment in moments] == list(
        range(0, 51, 5)
    )  # a fifth of training is ten epochs


def test_every_claim_names_a_figure_and_parts_that_exist() -> None:
    figures = {figure.name: figure for figure in STUDY.figures}
    assert len(figures) == len(STUDY.figures)
    assert len({claim.id for claim in STUDY.claims}) == len(STUDY.claims)
    for claim in STUDY.claims:
        assert claim.figure in figures or "growth" in claim.parts[0]  # one claim of those is a number alone
        assert set(claim.parts) <= set(STUDY.parts)
    printed = {"fig-1a", "fig-1b", "fig-1c", "fig-1d", *(f"fig-{n}{c}" for n in (3, 4) for c in "abcd")}
    assert printed | {"fig-5a", "fig-5b", "fig-6"} <= set(figures)


@pytest.fixture(scope="module", params=["paper", "authors"])
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Store]:
    """Parts of a variant made as small as they can be: for ``paper`` all but the growth of ϱ."""
    variant, store = request.param, Store(tmp_path_factory.mktemp("runs"))
    studies = [
        shrunk(part("grid", variant), width=(16, 64), q=(-0.15, 0.25), seed=(0, 1)),
        shrunk(part("risk-bound", variant), seed=(0,)),
    ]
    if variant == "paper":
        studies += [
            shrunk(part("activations", variant), seed=(0,)),
            shrunk(part("depth", variant), seed=(0,)),
            shrunk(part("estimators", variant), epochs=1, seed=(0,)),
        ]
    for study in studies:
        assert sweep(store, study, engine=Here()).complete
    return variant, store


def test_a_small_run_ends_in_figures_and_verdicts(ran: tuple[str, Store]) -> None:
    variant, store = ran
    there = {each.part for each in store.studies()}
    if variant == "paper":
        (whole,) = reproductions(store)
        drawn = {path.name for path in draw(whole)}
        assert drawn == {f"{figure.name}.svg" for figure in STUDY.figures if set(figure.parts) <= there}
    both = next(figure for figure in STUDY.figures if figure.name == "theorem-4-1")
    shown = both.draw(store.frame().filter(polars.col("part") == "risk-bound")).to_json()
    assert ("in raw pixels" if variant == "authors" else "of inputs with norm 1") in shown
    entries = {entry.claim.id: entry.finding for entry in ledger(store)}
    assert entries["C-e"].effect is not None
    assert {finding.verdict for finding in entries.values()} == {Verdict.UNDECIDED}  # two seeds are too few


def test_the_share_left_over_cannot_rise_in_linear_networks(ran: tuple[str, Store]) -> None:
    """The supremum of a convex loss over growing balls is convex in r."""
    frame = ran[1].frame()
    sides = both_sides(frame.filter(polars.col("part") == "risk-bound"))
    for network in sides.filter(polars.col("activation") == "linear").partition_by("seed"):
        assert network["left"].diff().drop_nulls().max() < 1e-5  # type: ignore[operator]


def test_what_is_measured_is_the_trained_network_on_test_points(ran: tuple[str, Store]) -> None:
    """Against the functions themselves, on the stored weights; robust accuracy on raw images with pixels in [0, 1]."""
    variant, store = ran
    study = next(each for each in store.studies() if each.part == "grid")
    trial, columns = study.trials[-1]
    stored = store.trial(trial)
    config = validate(TrialConfig, stored.settings)
    assert isinstance(config.data, NamedData)
    test = build_data(config.data.model_copy(update={"split": "test", "limit": 300}))
    net = build_network(config, test)
    net.load_state_dict(stored.weights)
    found = {(r.measure, r.key): r.value for r in stored.records if r.epoch == 2}
    few = test.x[:16]
    rho = collaboration(net, few, seam="activation", dtype=torch.float64)
    assert columns["activation"] == "relu"
    assert found["collaboration", "activation:co_correlation"] == pytest.approx(rho.co_correlation, rel=2e-3)
    assert found["collaboration", "activation:energy"] == pytest.approx(energy(net, few).value, rel=1e-3)
    raw = relabel(load("digits", split="test", limit=16, flatten=True), config.data.task)
    assert raw.bounds == (0.0, 1.0)
    seen: dict[str, Any] = {"mean": 0.5, "std": 0.5} if variant == "authors" else {"unit_norm": True}
    attacks = "autoattack" if variant == "paper" else ["apgd-ce", "apgd-t", "fab-t"]
    attacked = robust_accuracy(
        Classifier(net, bounds=(0.0, 1.0), **seen), raw.x, raw.y, eps=0.5, attack=attacks
    )
    assert found["robust-accuracy", "0.5"] == attacked.value  # FAB and Square find nothing more
    assert attacked.value < attacked.clean
    start = {(r.measure, r.key): r.value for r in stored.records if r.epoch == 0}
    assert ("robust-accuracy", "0.5") not in start


def test_larger_steps_for_the_same_time_give_the_same_co_correlation(tmp_path: Path) -> None:
    """What the smaller scales rest on: on unit-norm inputs SGD follows the flow, and only η × steps counts."""
    study = part("activations", "paper")
    axes = {"activation": ("relu",), "seed": (0, 1)}
    ends = []
    for rate, epochs in ((study.training.learning_rate, 5), (study.training.learning_rate / 10, 50)):
        training = study.training.model_copy(update={"learning_rate": rate, "epochs": epochs})
        probe = study.probe.model_copy(update={"every": "ends"})
        store = Store(tmp_path / f"{epochs}")
        grid = {**study.grid, **axes}
        sweep(
            store,
            study.model_copy(update={"training": training, "probe": probe, "grid": grid}),
            engine=Here(),
        )
        rows = store.frame().filter(
            (polars.col("key") == "activation:co_correlation") & (polars.col("epoch") == epochs)
        )
        ends.append(rows.sort("seed")["value"].to_list())
    assert ends[0] == pytest.approx(ends[1], abs=0.02)


def test_a_probe_on_a_split_needs_data_with_splits() -> None:
    trial = part("risk-bound", "paper").points[0].trial.model_dump(mode="json")
    mixture = {"name": "kou-mixture"}
    with pytest.raises(ConfigError, match=r"kou-mixture has no splits: leave probe\.split out"):
        validate(TrialConfig, {**trial, "data": mixture})
    with pytest.raises(ConfigError, match="did you mean 'test'"):
        validate(TrialConfig, {**trial, "probe": {**trial["probe"], "split": "tset"}})
    with pytest.raises(ConfigError, match="did you mean 'radii'"):
        validate(TrialConfig, {**trial, "probe": {"measures": [{"name": "risk-bound", "radi": [0.1]}]}})
    with pytest.raises(ConfigError, match="must be a word, a number or a list of them"):
        validate(TrialConfig, {**trial, "probe": {"measures": [{"name": "risk-bound", "radii": {}}]}})
    with pytest.raises(ConfigError, match="limit = 0 must be a number of points"):
        validate(TrialConfig, {**trial, "probe": {"measures": [{"name": "accuracy", "limit": 0}]}})


@pytest.mark.full
def test_the_smoke_scale_refutes_the_printed_inequality_for_linear_networks(tmp_path: Path) -> None:
    """For a linear logit with equal slopes everywhere curvature wins at once: measured, not assumed."""
    study, store = part("risk-bound", "paper"), Store(tmp_path)
    assert sweep(store, study, engine=Here()).complete
    verdicts = {entry.claim.id: entry.finding.verdict for entry in ledger(store)}
    assert verdicts["C-b.first-order"] is Verdict.HOLDS
    assert verdicts["C-b.linear"] is Verdict.FAILS
