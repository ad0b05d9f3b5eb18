"""Configurations: identity, errors as sentences, and five thousand random ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from undertow.config.axes import put
from undertow.config.grid import StudyConfig
from undertow.config.study_files import apply_overrides, load_study
from undertow.config.trial import TrialConfig, validate
from undertow.core.canonical import digest, dumps
from undertow.core.errors import ConfigError, DataError

DOCUMENT: dict[str, Any] = {
    "data": {"name": "kou-mixture", "n": 4, "d": 8},
    "model": {"name": "two-layer", "width": 4},
    "training": {"learning_rate": 0.1, "epochs": 3},
}


def changed(path: str, value: Any) -> dict[str, Any]:
    return apply_overrides(DOCUMENT, [f"--{path}", json.dumps(value)])


def test_identity_is_the_hash_of_the_resolved_configuration() -> None:
    trial = validate(TrialConfig, DOCUMENT)
    assert trial.digest == digest(dumps(trial.model_dump(mode="json")))
    assert trial.id == trial.digest[:16]
    spelled_out = json.loads(dumps(trial.model_dump(mode="json")))
    assert validate(TrialConfig, spelled_out) == trial
    assert validate(TrialConfig, spelled_out).digest == trial.digest


def test_identity_is_the_same_in_another_process() -> None:
    code = (
        "import json, sys; from undertow.config.trial import TrialConfig, validate; "
        "print(validate(TrialConfig, json.loads(sys.argv[1])).digest)"
    )
    other = subprocess.run(
        [sys.executable, "-c", code, json.dumps(DOCUMENT)], capture_output=True, text=True, check=True
    )
    assert other.stdout.strip() == validate(TrialConfig, DOCUMENT).digest


@pytest.mark.parametrize(
    ("training", "identity"),
    [
        ({"learning_rate": 0.1, "epochs": 3}, "9377d2c75c623388"),
        ({"optimizer": "sgd", "batch_size": 2, "momentum": 0.9}, "b58958a841bdb17e"),
        (
            {"optimizer": "adam", "batch_size": 4, "shuffle": False, "frozen": ["output.weight"]},
            "3fd75f11aac426b7",
        ),
    ],
)
def test_trials_stored_before_there_were_rates_and_directions_keep_their_identity(
    training: dict[str, Any], identity: str
) -> None:
    assert validate(TrialConfig, {**DOCUMENT, "training": training}).id == identity
    optimizer = training.get("optimizer", "gd")
    spelled = {
        **training,
        "optimizer": {"name": optimizer},
        "rate": {"name": "constant"},
        "objective": "loss",
    }
    assert validate(TrialConfig, {**DOCUMENT, "training": spelled}).id == identity
    assert validate(TrialConfig, {**DOCUMENT, "training": {**spelled, "rate": "scheduled"}}).id != identity


@pytest.mark.parametrize(
    ("data", "identity"),
    [
        ({"name": "dlbcl"}, "a5d3820b1aa530ba"),
        ({"name": "table", "path": "a.csv", "label": "y"}, "3bc03fc700248995"),
    ],
)
def test_files_whose_rows_all_have_labels_keep_their_identity(data: dict[str, Any], identity: str) -> None:
    model = {"name": "two-layer", "width": 4}
    assert validate(TrialConfig, {"data": data, "model": model}).id == identity
    assert validate(TrialConfig, {"data": {**data, "unlabelled_as": None}, "model": model}).id == identity
    trial = validate(TrialConfig, {"data": {**data, "unlabelled_as": "event"}, "model": model})
    assert trial.id != identity
    assert trial.model_dump()["data"]["unlabelled_as"] == "event"


def test_a_table_that_was_changed_has_other_trials(tmp_path: Path) -> None:
    """Its path and label are the same, its content is not: results of the old one must not stand for the new one."""
    file = tmp_path / "my.csv"
    rows = [f"{i % 2},{i}" for i in range(10)]
    document = {
        "data": {"name": "table", "path": str(file), "label": "y"},
        "model": {"name": "two-layer", "width": 4},
    }
    file.write_text("\n".join(["y,a", *rows]))
    before = validate(TrialConfig, document)
    assert validate(TrialConfig, document).id == before.id
    assert validate(TrialConfig, before.model_dump(mode="json")).id == before.id
    derived = {"name": "mixed-labels", "of": document["data"], "share": 0.5}
    of_before = validate(TrialConfig, {**document, "data": derived}).id
    file.write_text("\n".join(["y,a", *rows[:-1], "1,17"]))
    after = validate(TrialConfig, document)
    assert after.id != before.id
    assert validate(TrialConfig, {**document, "data": derived}).id != of_before
    assert len(after.data.build()) == 8
    with pytest.raises(DataError, match=r"has changed since this was set up.*put the earlier file back"):
        before.data.build()


def test_the_users_own_copy_of_a_data_set_is_known_by_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERTOW_DATA", str(tmp_path))
    document = {"data": {"name": "neuroblastoma"}, "model": {"name": "two-layer", "width": 4}}
    found = set()
    for content in (None, "one", "two"):
        if content is not None:
            (tmp_path / "neuroblastoma.csv").write_text(content)
        found.add(validate(TrialConfig, document).id)
    assert len(found) == 3


def test_optimisers_and_rates_with_settings_are_written_out() -> None:
    document = {
        **DOCUMENT,
        "training": {
            "optimizer": "adamw",
            "batch_size": 2,
            "rate": {"name": "loss-based", "ceiling": 50.0},
        },
    }
    trial = validate(TrialConfig, document)
    written = trial.model_dump(mode="json")["training"]
    assert written["optimizer"] == {
        "name": "adamw",
        "beta1": 0.9,
        "beta2": 0.999,
        "epsilon": 1e-8,
        "weight_decay": 0.01,
    }
    assert written["rate"]["ceiling"] == 50.0
    assert written["rate"]["growth"] == 2**0.2
    assert validate(TrialConfig, json.loads(dumps(trial.model_dump(mode="json")))).id == trial.id
    other = validate(TrialConfig, put(document, ("training", "optimizer"), {"name": "adam", "beta2": 0.9}))
    assert other.model_dump(mode="json")["training"]["optimizer"]["beta2"] == 0.9
    grid = validate(StudyConfig, {**document, "grid": {"weight_decay": [0.0, 1.0], "ceiling": [50.0, 600.0]}})
    assert len(grid.points) == 4
    rules = validate(StudyConfig, {**DOCUMENT, "grid": {"rate": ["constant", "loss-based"], "seed": [0, 1]}})
    assert [point.trial.training.rate.name == "constant" for point in rules.points] == [
        True,
        True,
        False,
        False,
    ]
    assert rules.points[0].trial.id == validate(TrialConfig, DOCUMENT).id


def test_studies_and_stores_are_read_without_torch_and_without_validation() -> None:
    code = (
        "import sys, undertow.runs, undertow.store.store, undertow.live.server; "
        "from undertow.studies import STUDIES, find; "
        "[find(name).settings('smoke', next(iter(find(name).variants))) for name in STUDIES]; "
        "sys.exit(any(m in sys.modules for m in ('torch', 'pydantic', 'polars', 'altair')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("path", "value"), [("seed", 1), ("model.width", 5), ("training.epochs", 4), ("data.sigma_p", 0.02)]
)
def test_every_setting_changes_the_identity(path: str, value: Any) -> None:
    assert validate(TrialConfig, changed(path, value)).id != validate(TrialConfig, DOCUMENT).id


def test_the_data_follow_the_seed_unless_they_have_their_own() -> None:
    assert validate(TrialConfig, changed("seed", 7)).model_dump()["data"]["seed"] == 7
    own = apply_overrides(DOCUMENT, ["--seed", "7", "--data.seed", "3"])
    assert validate(TrialConfig, own).model_dump()["data"]["seed"] == 3


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ("training.epohcs", 5, "training.epohcs is not a setting; did you mean 'epochs'?"),
        ("trainig.epochs", 5, "trainig is not a setting; did you mean 'training'?"),
        ("model.activation", "rellu", "model.activation = 'rellu' is not known; did you mean 'relu'?"),
        ("data.name", "mnsit", "data.name = 'mnsit' is not known; did you mean 'mnist'?"),
        ("data.sigma", 1, "data.sigma is not a setting; did you mean 'sigma_p'?"),
        ("training.epochs", True, "training.epochs = True: should be a valid integer"),
        ("training.epochs", -1, "training.epochs = -1: should be greater than or equal to 0"),
        ("training.learning_rate", 0, "training.learning_rate = 0: should be greater than 0"),
        ("training", 3, "training = 3 must be a table of settings"),
        ("probe.measures", ["stable-rnak"], "'stable-rnak' is not a measure; did you mean 'stable-rank'?"),
        ("probe.measures", ["collaboration"], "probe.measures: collaboration.seam is missing"),
        ("probe.every", "eopch", "probe.every = 'eopch' is not known; did you mean 'epoch'?"),
        ("training.batch_size", 5, "training: gd takes all of the data"),
        ("training.optimizer", "adma", "training.optimizer.name = 'adma' is not known; did you mean 'adam'?"),
        (
            "training.optimizer",
            {"name": "adamw", "weigth_decay": 1.0},
            "training.optimizer.weigth_decay is not a setting; did you mean 'weight_decay'?",
        ),
        (
            "training.rate",
            "loss-base",
            "training.rate.name = 'loss-base' is not known; did you mean 'loss-based'?",
        ),
        (
            "training.rate",
            {"name": "loss-based", "growth": 0},
            "training.rate.growth = 0: should be greater than 0",
        ),
        (
            "training.rate",
            {"name": "scheduled", "shape": "steps"},
            "training.rate: milestones are the epochs",
        ),
        ("training.log_below", -5.0, "training: log_below says where steps follow the log-loss"),
        ("model.init.std", 1, "model.init.name is missing: say which init is meant"),
    ],
)
def test_mistakes_name_field_value_and_nearest_choice(path: str, value: Any, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate(TrialConfig, changed(path, value))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_study_from_a_file_with_overrides(tmp_path: Path) -> None:
    path = tmp_path / "widths.toml"
    path.write_text(
        '[data]\nname = "kou-mixture"\n[model]\nname = "two-layer"\nwidth = 4\n'
        "[training]\nepochs = 9\n[grid]\nseed = [0, 1]\nwidth = [4, 8]\n"
    )
    study = load_study(path, ["--training.epochs", "5", "--grid", "width=16,64,256"])
    assert study.name == "widths"
    assert [point.columns for point in study.points][:3] == [
        {"seed": 0, "width": 16},
        {"seed": 0, "width": 64},
        {"seed": 0, "width": 256},
    ]
    assert {point.trial.training.epochs for point in study.points} == {5}
    with pytest.raises(
        ConfigError, match=r"widths\.toml: grid\.widht is not a setting .* did you mean 'width'"
    ):
        load_study(path, ["--grid", "widht=1"])
    with pytest.raises(ConfigError, match=r"model\.width = 0"):
        load_study(path, ["--grid", "width=0"])
    with pytest.raises(ConfigError, match="cannot be read"):
        load_study(tmp_path / "nowhere.toml")


def test_groups_follow_from_the_grid() -> None:
    study = validate(
        StudyConfig,
        {**DOCUMENT, "grid": {"width": [4, 8], "seed": [0, 1, 2], "learning_rate": [0.1, 0.2]}},
    )
    # Another seed draws other data, another width has other shapes; learning rates train together.
    assert sorted(len(group.trials) for group in study.groups) == [2] * 6
    fixed = validate(
        StudyConfig,
        {
            **DOCUMENT,
            "data": {**DOCUMENT["data"], "seed": 5},
            "grid": {"seed": list(range(7))},
            "group_size": 3,
        },
    )
    assert [len(group.trials) for group in fixed.groups] == [3, 3, 1]
    assert len({group.id for group in fixed.groups}) == 3


def grid_with(*measures: Any, **changes: Any) -> StudyConfig:
    document = {**DOCUMENT, "probe": {"measures": ["loss", *measures]}}
    grid = {"activation": ["linear", "relu"], "width": [4, 8]}
    return validate(StudyConfig, {**document, "grid": grid, **changes})


def test_a_measure_may_be_for_some_trials_only() -> None:
    study = grid_with({"name": "stable-rank", "only": {"activation": "relu", "model.width": 8}}, "accuracy")
    without, everywhere = grid_with("accuracy"), grid_with("stable-rank", "accuracy")
    for point, less, more in zip(study.points, without.points, everywhere.points, strict=True):
        taken = point.columns == {"activation": "relu", "width": 8}
        names = [measure["name"] for measure in point.trial.probe.measures]
        assert names == (["loss", "stable-rank", "accuracy"] if taken else ["loss", "accuracy"])
        assert point.trial.digest == (more if taken else less).trial.digest
        assert validate(TrialConfig, point.trial.model_dump(mode="json")).digest == point.trial.digest
    assert [len(group.trials) for group in study.groups] == [1, 1, 1, 1]
    assert validate(StudyConfig, study.model_dump(mode="json")).points == study.points  # as a store reads it


def test_a_number_selects_trials_as_a_word_does() -> None:
    study = grid_with({"name": "accuracy", "only": {"width": 4}})
    assert [(point.columns["width"], len(point.trial.probe.measures)) for point in study.points] == [
        (4, 2),
        (8, 1),
        (4, 2),
        (8, 1),
    ]


@pytest.mark.parametrize(
    ("only", "sentence"),
    [
        (
            {"activaton": "relu"},
            "accuracy's only.activaton is not a setting of this study's trials; did you mean",
        ),
        ({"name": "relu"}, "accuracy's only.name could mean data.name or model.name or model.init.name"),
        (
            {"activation": "rellu"},
            "accuracy's only: model.activation = 'rellu' is not known; did you mean 'relu'",
        ),
        ({"width": "wide"}, "accuracy's only: model.width = 'wide'"),
        ("relu", "the measure's only = 'relu' must be a table of settings, such as {activation = 'relu'}"),
        ({}, "must be a table of settings"),
        ({"widths": [4, 8]}, "must be a table of settings"),
        ({"width": float("nan")}, "must be a table of settings"),
    ],
)
def test_a_mistake_in_only_is_told(only: Any, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        grid_with({"name": "accuracy", "only": only}).points  # noqa: B018
    assert sentence in str(caught.value)


def test_a_trial_must_keep_a_measure() -> None:
    probe = {"measures": [{"name": "loss", "only": {"activation": "relu"}}]}
    assert len(grid_with(probe=probe, grid={"activation": ["relu"]}).points) == 1
    with pytest.raises(ConfigError, match="every measure is only for other trials"):
        grid_with(probe=probe).points  # noqa: B018


def test_measures_can_be_an_axis() -> None:
    study = grid_with(grid={"probe.measures": [["loss"], ["accuracy", {"name": "loss", "every": "end"}]]})
    assert [len(point.trial.probe.measures) for point in study.points] == [1, 2]


_WORDS = """relu gd sgd adam kou-mixture digits table two-layer mlp gaussian he scaled epoch log
stable-rank loss collaboration logistic float64 train unit-norm parity none hidden mean"""
_FIELDS = """
data.name data.n data.d data.sigma_p data.seed data.split data.limit data.task data.path data.label
data.features model.name model.width model.widths model.activation model.init model.init.name
model.init.std model.init.q model.bias model.head model.outputs training.optimizer
training.learning_rate training.epochs training.batch_size training.shuffle training.loss
training.dtype training.momentum training.frozen probe.measures probe.every probe.limit seed grid
grid.width grid.seed grid.std grid.learning_rate name variant scale group_size data model training
probe
"""

scalars: st.SearchStrategy[Any] = (
    st.sampled_from([*_WORDS.split(), None, True, 0, 1, 2, 16, -1, 0.1, 1e-4, 10**1000, 2**63])
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
)
values = scalars | st.lists(scalars, max_size=3) | st.dictionaries(st.text(max_size=5), scalars, max_size=2)
fields = st.sampled_from(_FIELDS.split()) | st.text(max_size=6)
good: st.SearchStrategy[tuple[str, Any]] = st.one_of(
    st.tuples(st.sampled_from(["training.epochs", "data.n", "model.width", "seed"]), st.integers(1, 99)),
    st.tuples(st.sampled_from(["data.sigma_p", "training.learning_rate"]), st.floats(1e-9, 1e9)),
    st.tuples(
        st.sampled_from(["grid.seed", "grid.width"]), st.lists(st.integers(1, 99), min_size=1, max_size=3)
    ),
    st.tuples(st.just("model.activation"), st.sampled_from(["relu", "leaky-relu", "tanh"])),
    st.tuples(st.just("model.init"), st.builds(lambda q: {"name": "scaled", "q": q}, st.floats(-1, 1))),
    st.tuples(st.just("probe.every"), st.sampled_from(["epoch", "log", 7])),
)
# Mostly what people write: a valid study, with or without a mistake in it. Sometimes anything at all.
some_good = st.lists(good, max_size=4)
studies = some_good | st.tuples(some_good, fields, values).map(lambda t: [*t[0], (t[1], t[2])]) | values


def outcome(given_to: Any) -> str:
    """The one sentence of the error, or "valid" for a study whose trials survive a round trip."""
    document = given_to
    if isinstance(given_to, list) and all(isinstance(each, tuple) for each in given_to):
        document = DOCUMENT
        for field, value in given_to:
            document = put(document, tuple(field.split(".")), value)
    try:
        study = validate(StudyConfig, document)
        points, groups = study.points, study.groups
    except ConfigError as problem:
        return str(problem)
    for point in points:
        assert validate(TrialConfig, json.loads(dumps(point.trial.model_dump(mode="json")))) == point.trial
    assert sum(len(group.trials) for group in groups) == len(points)
    return "valid"


@settings(max_examples=300)
@given(study=studies)
def test_random_configurations_are_valid_or_one_clear_error(study: Any) -> None:
    assert 0 < len(outcome(study)) < 1000


@pytest.mark.full
@settings(max_examples=5000)
@given(study=studies)
def test_five_thousand_random_configurations(study: Any) -> None:
    sentence = outcome(study)
    event("valid" if sentence == "valid" else "one sentence")
    assert 0 < len(sentence) < 1000
