"""Settings of any size and kind end in one sentence, before anything is asked of the machine."""

from __future__ import annotations

import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.execution.sweeps import tiny_study
from tests.test_cli import call
from undertow.config.study_files import apply_overrides, load_study
from undertow.core.errors import ConfigError, InputError
from undertow.execution.engines.worker import attempt
from undertow.execution.footprint import check_memory, free_memory, least_bytes
from undertow.measures import MEASURES
from undertow.probe import Probe, measure
from undertow.store.store import Store

STUDY = """
[data]
name = "kou-mixture"
[model]
name = "two-layer"
width = 8
"""


def study(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("seed = " + "9" * 5000, "is not valid TOML: Exceeds the limit"),
        ("seed = " + "9" * 4000, "seed = a number of 400"),
        ("seed = 0x" + "f" * 9000, "seed = a number of 108"),
        (".".join("a" * 4000) + " = 1", "a key of more than 32 parts"),
        ("[" + ".".join(['"a"'] * 4000) + "]", "a key of more than 32 parts"),
        ("x = " + "[" * 9000, "nested too deeply"),
        ("x = " + "{a=" * 400 + "1" + "}" * 400, "x is not a setting|nested too deeply"),
        ("# " + "x" * 2_000_000, "more than 1,048,576 bytes"),
        ("\n".join(f"k{i} = 1" for i in range(20_000)), "k0 is not a setting"),
    ],
    ids=["digits", "seed", "hexadecimal", "key", "header", "lists", "tables", "length", "keys"],
)
def test_a_study_file_of_any_size_is_one_sentence(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        load_study(study(tmp_path, text))
    assert len(str(caught.value)) < 1000


def test_prose_and_lists_are_not_taken_for_deep_keys(tmp_path: Path) -> None:
    text = "# " + "a.b. " * 50 + "\n" + STUDY + "# ....." + "." * 90 + "\n[grid]\nlearning_rate = ["
    assert (
        len(load_study(study(tmp_path, text + ", ".join(f"0.{i}" for i in range(1, 60)) + "]")).points) == 54
    )


def test_an_override_of_many_parts_is_one_sentence() -> None:
    with pytest.raises(ConfigError, match="has 5000 parts"):
        apply_overrides({}, ["--" + ".".join("a" * 5000), "1"])


def test_the_name_of_a_file_may_be_anything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a\0b.toml", "\udcff.toml", "x" * 300 + ".toml"):
        assert call("run", f"{tmp_path}/{name}") == 2
        assert "cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"name": "robust-accuracy", "eps": 0.5}, "robust-accuracy.eps = 0.5 must be a list"),
        ({"name": "robust-accuracy", "eps": ["a"]}, "robust-accuracy.eps.0 = 'a': should be a valid number"),
        ({"name": "robust-accuracy", "seed": -1}, "seed = -1: should be greater than or equal to 0"),
        ({"name": "robust-accuracy", "seed": 10**30}, "seed = a number of 31 digits: should be less than"),
        ({"name": "robust-accuracy", "unit": True}, "unit = True: should be a valid number"),
        ({"name": "robust-accuracy", "norm": "1"}, "norm = '1' is not known; choose from: 2, inf"),
        ({"name": "robust-accuracy", "attack": "pdg"}, "attack 'pdg' is unknown: did you mean 'pgd'"),
        ({"name": "robust-accuracy", "self": 3}, "robust-accuracy.self is not a setting"),
        ({"name": "collaboration", "seam": 3}, "collaboration.seam = 3: should be a valid string"),
        ({"name": "collaboration"}, "collaboration.seam is missing"),
        ({"name": "chain", "seams": "hidden"}, "chain.seams = 'hidden' must be a list"),
        ({"name": "loss", "kind": ["bce"]}, r"loss.kind = \['bce'\] is not known; did you mean 'bce'"),
        ({"name": "bias-search", "reach": "far"}, "bias-search.reach = 'far': should be a valid number"),
        ({"name": "feature-cosines", "pairs": 1}, "feature-cosines.pairs = 1: should be a valid boolean"),
    ],
)
def test_a_measure_of_the_wrong_shape_is_one_sentence(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        tiny_study(probe={"measures": [table]})


def test_every_measure_says_what_its_options_are() -> None:
    needed: dict[str, dict[str, Any]] = {
        "collaboration": {"seam": "s"},
        "printed-collaboration": {"seam": "s"},
        "robustness-profile": {"seam": "s"},
        "off-manifold": {"dimension": 2},
    }
    for name in MEASURES:
        made = measure(name, **needed.get(name, {}))
        assert made.name == name
        for option in vars(made):
            with pytest.raises(ConfigError, match=option):
                measure(name, **{**needed.get(name, {}), option: {"no": "kind"}})


@dataclass(frozen=True)
class _Own:
    gives: Any
    name: str = "mine"

    def __call__(self, net: torch.nn.Module, x: torch.Tensor, y: torch.Tensor | None) -> Any:  # noqa: ARG002
        return self.gives


@pytest.mark.parametrize(
    "gives", [None, 0.5, [0.5], [("", 0.5)], [(1, 0.5, None)], [("", "x", None)], [("", torch.ones(3), None)]]
)
def test_readings_of_the_wrong_shape_are_one_sentence(gives: Any) -> None:
    with pytest.raises(InputError, match=r"the measure mine gave .*: a reading is \(key, value, error\)"):
        Probe(torch.nn.Linear(2, 1), torch.ones(3, 2), measures=[_Own(gives)])
    probe = Probe(torch.nn.Linear(2, 1), torch.ones(3, 2), measures=[_Own([("a", torch.tensor(0.5), 1)])])
    assert (probe.records[0].value, probe.records[0].error) == (0.5, 1.0)


def group(**changes: Any) -> Any:
    return tiny_study(**changes).groups[0]


def test_what_no_machine_has_is_refused_before_it_is_asked_for(tmp_path: Path) -> None:
    data = {"name": "kou-mixture", "n": 10**9, "d": 10**6}
    with pytest.raises(ConfigError, match=r"the data of this group take 4,000,000\.0 GB at least"):
        check_memory(group(data=data).trials)
    model = {"name": "two-layer", "width": 10**9}
    with pytest.raises(ConfigError, match="the weights of this group take"):
        check_memory(group(model=model, grid={}).trials)
    mlp = {"name": "mlp", "widths": [10**6, 10**6]}
    outcome = attempt(
        Store(tmp_path),
        group(model=mlp, training={"epochs": 1}, grid={}),
        stop=lambda: False,
        on_progress=lambda *_: None,
        checkpoint_seconds=30.0,
        keep_weights=True,
    )
    assert outcome.status == "failed"
    assert "choose a smaller width" in outcome.notes[0]
    assert "line" not in outcome.notes[0]


def test_the_least_that_a_group_takes() -> None:
    data, weights = least_bytes(group().trials)
    assert data == 4 * 6 * 12
    assert weights == 3 * 4 * 8 * (12 + 1)  # three members, which share the data
    check_memory(group().trials)
    free = free_memory()
    assert free is not None
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (free // 2, hard))
    try:
        assert free_memory() == free // 2
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def test_memory_that_is_used_up_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for error in (MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried")):

        def fail(*_: Any, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr("undertow.execution.group_members.build_data", fail)
        assert call("run", study(tmp_path, STUDY), "--runs", tmp_path / "runs", "--engine", "here") == 1
        printed = capsys.readouterr()
        assert "the memory was used up: choose less data" in printed.out
        assert ", line " not in printed.out + printed.err
    monkeypatch.setattr("undertow.cli.sweeps.run_studies", fail)
    monkeypatch.setattr("undertow.config.study_files.load_study", lambda *_: fail(error=MemoryError()))
    assert call("run", study(tmp_path, STUDY)) == 1
    assert "The memory is used up" in capsys.readouterr().err


def test_images_of_another_size_are_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = '[data]\nname = "digits"\nlimit = 9\n[model]\nname = "resnet"\nimage = [1, 28, 28]\n[training]\nepochs = 0\n'
    assert call("run", study(tmp_path, text), "--runs", tmp_path / "runs", "--engine", "here") == 1
    printed = capsys.readouterr().out
    assert "model.image is 1×28×28, but each input has 64 numbers" in printed
    assert ", line " not in printed


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("randomised-features", {"name": "slabs", "n": 12, "d": 5}, "reads the sign of one logit"),
        ("kkt-network", {"name": "d-binary", "n": 12, "d": 10, "k": 2}, "reads the sign of one logit"),
        (
            "bias-search",
            {"name": "axis-clusters", "n": 12, "d": 10, "k": 4},
            "one output for each of the 4 clusters",
        ),
    ],
)
def test_a_measure_and_a_network_that_do_not_go_together(
    name: str, data: dict[str, Any], said: str, tmp_path: Path
) -> None:
    study = tiny_study(
        data=data,
        model={"name": "two-layer", "width": 6},
        training={"epochs": 0, "loss": "cross-entropy"},
        probe={"measures": [name]},
        grid={},
    )
    outcome = attempt(
        Store(tmp_path),
        study.groups[0],
        stop=lambda: False,
        on_progress=lambda *_: None,
        checkpoint_seconds=30.0,
        keep_weights=True,
    )
    assert said in outcome.notes[0]
    assert ", line " not in outcome.notes[0]
