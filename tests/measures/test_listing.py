"""A measure is one file and one line in the registry; its section refuses what it does not know, in one sentence."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from undertow.config.grid import StudyConfig
from undertow.config.trial import validate
from undertow.core.adapting import adapted
from undertow.core.errors import ConfigError
from undertow.measures import MEASURES, Listed, MeasureRegistry, measure
from undertow.measures.bias_search import BiasSearch
from undertow.measures.named_measure import NamedMeasure
from undertow.probe import (
    Accuracy,
    Collaboration,
    Energy,
    Loss,
    RobustAccuracy,
    SeamProfile,
    Sharpness,
    StableRank,
)

SOURCE = Path(__file__).parents[2] / "src" / "undertow"
NEEDED: dict[str, dict[str, Any]] = {
    "collaboration": {"seam": "hidden"},
    "printed-collaboration": {"seam": "hidden"},
    "off-manifold": {"dimension": 2},
    "robustness-profile": {"seam": "hidden"},
}
NEW_FILE = """
from typing import ClassVar
from undertow.core.sections import Positive
from undertow.measures.named_measure import NamedMeasure

def weight_size(net, *, power):
    return sum(float(p.detach().double().abs().pow(power).sum()) for p in net.parameters())

class WeightSize(NamedMeasure):
    name: ClassVar[str] = "weight-size"
    power: Positive = 2.0

    def __call__(self, net, x, y):
        yield f"{self.power}:lower", weight_size(net, power=self.power), None
"""


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_new_measure_is_one_file_and_one_line(tmp_path: Path) -> None:
    """The file is put somewhere and its line into the registry: a TOML file can ask for it, readers know its bounds."""
    (tmp_path / "weight_size.py").write_text(NEW_FILE)
    (tmp_path / "study.toml").write_text(
        '[data]\nname = "kou-mixture"\nn = 4\nd = 6\n[model]\nname = "two-layer"\nwidth = 3\n'
        '[training]\nepochs = 1\nloss = "logistic"\n[grid]\nlearning_rate = [0.1, 0.2]\n'
        '[probe]\nmeasures = ["loss", {name = "weight-size", power = 1}]\n'
    )
    code = f"""
import sys; sys.path.insert(0, {str(tmp_path)!r})
import undertow.measures as measures
line = measures.Listed("weight-size", "weight_size:WeightSize", truth={{"*:lower": "above"}})  # the line
measures.MEASURES = measures.MeasureRegistry(*measures.MEASURES.lines.values(), line)
from undertow.measures.bounds import sign_of_bound
assert sign_of_bound("weight-size", "1:lower") == "≥ "
assert "torch" not in sys.modules
from pathlib import Path
from undertow.execution.engines.here import Here
from undertow.store.store import Store
from undertow.execution.sweep import sweep
from undertow.config.study_files import load_study
store = Store({str(tmp_path / "runs")!r})
assert sweep(store, load_study(Path({str(tmp_path / "study.toml")!r})), engine=Here()).complete
trial = store.trial(store.finished()[0])
import json
print(json.dumps([trial.settings["probe"]["measures"][1], [r.key for r in trial.records]]))
"""
    config, keys = json.loads(run(code))
    assert config == {"name": "weight-size", "power": 1.0}
    assert keys.count("1.0:lower") == 2


def test_no_package_lists_measures_beside_the_registry() -> None:
    """Only the probe's public names, the tour, and a measure made of others import a section from its file."""
    sections = {tuple(line.section.split(":")) for line in MEASURES.lines.values()}
    importing = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = node.names if isinstance(node, ast.ImportFrom) else []
            if any((getattr(node, "module", None), alias.name) in sections for alias in names):
                importing.add(str(path.relative_to(SOURCE)))
    assert importing == {"probe/__init__.py", "cli/tour/look.py", "measures/robustness_profile.py"}


def test_every_line_finds_its_section() -> None:
    kinds = [MEASURES[name] for name in MEASURES]
    assert [kind.name for kind in kinds] == list(MEASURES)
    alone = [kind.__module__ for kind in kinds if not kind.name.startswith("kkt")]
    assert len(set(alone)) == len(alone)  # one file each
    for kind in kinds:
        assert issubclass(kind, NamedMeasure)
        made: Any = kind(**NEEDED.get(kind.name, {}))
        assert callable(made) or hasattr(made, "begin")
        assert hash(made) == hash(kind(**NEEDED.get(kind.name, {})))
        assert measure(kind.name, **json.loads(json.dumps(made.model_dump()))) == made
        assert eval(repr(made), {kind.__name__: kind}) == made
        with pytest.raises(ValueError, match="frozen"):
            made.name_of_nothing = 1


def test_readers_of_records_load_neither_torch_nor_pydantic() -> None:
    code = (
        "import sys, undertow.probe, undertow.probe.records, undertow.probe.schedule\n"
        "from undertow.measures.bounds import error_side\n"
        "from undertow.probe import MEASURES, Record, Schedule\n"
        "assert [error_side(name, '') for name in MEASURES][:2] == ['below', 'above']\n"
        "print([m for m in ('torch', 'pydantic', 'numpy', 'scipy', 'polars') if m in sys.modules])"
    )
    assert run(code).strip() == "[]"


def test_options_may_be_lists_and_the_first_go_without_a_name() -> None:
    assert RobustAccuracy(eps=[0.5, 1]).eps == (0.5, 1.0)  # type: ignore[arg-type]
    assert Collaboration("hidden") == Collaboration(seam="hidden")  # type: ignore[arg-type,call-arg]
    assert str(Loss("bce")) == "Loss(kind='bce')"  # type: ignore[arg-type,call-arg]
    with pytest.raises(TypeError, match="StableRank has 0 options, not 1"):
        StableRank("hidden")  # type: ignore[arg-type,call-arg]


def test_numbers_stay_as_they_were_written_where_identities_have_them() -> None:
    assert str(BiasSearch(reach=2).reach) == "2"
    assert str(BiasSearch(reach=2.0).reach) == "2.0"
    with pytest.raises(ConfigError, match=r"bias-search.reach = 0: should be greater than 0"):
        BiasSearch(reach=0)


def test_one_mistake_is_one_sentence_and_several_are_told_together() -> None:
    with pytest.raises(ConfigError) as caught:
        RobustAccuracy(epss=[0.5], norm="3", unit="far")  # type: ignore[call-arg, arg-type]
    assert str(caught.value) == (
        "robust-accuracy.norm = '3' is not known; choose from: 2, inf; robust-accuracy.unit = 'far': should be a valid "
        "number; robust-accuracy.epss is not a setting; did you mean 'eps'?"
    )
    study = {"data": {"name": "kou-mixture"}, "model": {"name": "two-layer", "width": 3}}
    with pytest.raises(
        ConfigError, match=r"^probe\.measures: loss\.kind = 'bec' is not known; did you mean 'bce'"
    ):
        validate(StudyConfig, {**study, "probe": {"measures": [{"name": "loss", "kind": "bec"}]}})


def test_the_first_pattern_that_matches_says_on_which_side_the_truth_lies() -> None:
    line = Listed("mine", "x:Mine", truth={"*@0": None, "*": "below"})
    assert (line.side("a@0"), line.side("a@1")) == (None, "below")
    assert Listed("mine", "x:Mine", truth={"a": "above"}).side("b") is None
    assert "mine" in MeasureRegistry(line)  # which does not import it
    assert list(MeasureRegistry(line)) == ["mine"]


@pytest.mark.parametrize("name", [name for name in MEASURES if name not in ("growth",)])
def test_points_that_are_not_given_leave_every_identity_as_it_was(name: str) -> None:
    """Options that came later are left out where nobody gave them: finished trials stay what they are."""
    made: Any = MEASURES[name](**NEEDED.get(name, {}))
    written = made.model_dump(exclude_none=True)
    assert not {"points", "standard_error"} & written.keys()
    assert made.points is None
    few: Any = MEASURES[name](**NEEDED.get(name, {}), points=3)
    assert few.model_dump(exclude_none=True) == {**written, "points": 3}


def test_every_measure_of_a_function_takes_the_first_points_alone() -> None:
    """One network or several, with rows of its own beside x or not: the readings are those on the first ones."""
    x, y = torch.randn(12, 3), torch.arange(12) % 2
    nets = [
        torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)) for _ in range(2)
    ]
    for made in (Accuracy, Energy, Loss, Sharpness, SeamProfile, partial(Collaboration, seam="1")):
        own: Any = made
        assert list(own(points=4)(nets[0], x, y)) == list(own()(nets[0], x[:4], y[:4])), own
        if hasattr(own(), "batched"):
            assert own(points=4).batched(nets, x, y) == own().batched(nets, x[:4], y[:4])

    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(3, 2)

        def forward(self, x: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"logits": self.inner(x) * scale}

    net, scale = Scaled(), torch.arange(1.0, 13)[:, None]
    f, whole = adapted(net, x, extras={"scale": scale})
    g, part = adapted(net, x[:4], extras={"scale": scale[:4]})
    assert list(Energy(points=4)(f, whole, y)) == list(Energy()(g, part, y[:4]))
