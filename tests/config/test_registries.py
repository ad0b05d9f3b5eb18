"""A new data set or model is one file and one line: nothing else knows the ones there are."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import undertow
from undertow.config.trial import TrialConfig, validate
from undertow.core.errors import ConfigError
from undertow.core.sections import Section
from undertow.data.catalogue import CATALOGUE
from undertow.data.data_section import DataSection
from undertow.data.data_sets import DATA_SETS
from undertow.models import MODELS, ModelSection
from undertow.models.initialisation import INITIALISATIONS

SOURCE = Path(undertow.__file__).parent


def mentions(name: str) -> set[str]:
    """The files of the package in which a name occurs."""
    return {file for file, text in texts().items() if name in text and re.search(rf"\b{name}\b", text)}


@cache
def texts() -> dict[str, str]:
    return {str(path.relative_to(SOURCE)): path.read_text() for path in SOURCE.rglob("*.py")}


def file_of(kind: type[Section]) -> str:
    return kind.__module__.removeprefix("undertow.").replace(".", "/") + ".py"


@pytest.mark.parametrize("kind", DATA_SETS)
def test_only_the_registry_knows_a_data_set(kind: type[DataSection]) -> None:
    assert mentions(kind.__name__) == {file_of(kind), "data/data_sets.py"}


@pytest.mark.parametrize("kind", MODELS)
def test_only_the_registry_knows_a_model(kind: type[ModelSection]) -> None:
    assert mentions(kind.__name__) == {file_of(kind), "models/__init__.py"}


def test_every_section_with_a_name_is_registered() -> None:
    for folder, base, registry in (("data", DataSection, DATA_SETS), ("models", ModelSection, MODELS)):
        named = set()
        for path in (SOURCE / folder).glob("*.py"):
            text = path.read_text()
            for body in re.split(r"^class ", text, flags=re.MULTILINE)[1:]:
                if re.search(r"^    name: (Literal\[|Name\b)", body, re.MULTILINE):
                    named.add(re.match(r"\w+", body).group())  # type: ignore[union-attr]
        named -= {kind.__name__ for kind in INITIALISATIONS}
        assert named == {kind.__name__ for kind in registry}
        assert all(issubclass(kind, base) for kind in registry)


def test_a_data_set_with_files_is_an_entry_of_the_catalogue_and_no_more() -> None:
    model = {"name": "mlp", "widths": []}
    for name in CATALOGUE:
        assert validate(TrialConfig, {"data": {"name": name}, "model": model}).data.name == name
    with pytest.raises(ConfigError, match=r"data\.name = 'cifar11' is not known; did you mean 'cifar10'\?"):
        validate(TrialConfig, {"data": {"name": "cifar11"}, "model": model})


NEW_DATA = """
from typing import Literal
import torch
from undertow.core.sections import Count
from undertow.data.data_section import DrawnData
from undertow.data.dataset import Dataset

class RingData(DrawnData):
    name: Literal["ring"]
    classes: Count = 2

    def draw(self, n, seed, *, like):
        angle = 2 * torch.pi * torch.rand(n, generator=torch.Generator().manual_seed(seed))
        x = torch.stack([angle.cos(), angle.sin()], dim=1)
        return Dataset.of(x, (angle / (2 * torch.pi) * self.classes).long(), name="ring", classes=self.classes)
"""

NEW_MODEL = """
from typing import Literal
import torch
from undertow.models.model_section import ReadOutModel

class QuadraticModel(ReadOutModel):
    name: Literal["quadratic"]

    def build(self, dataset, *, loss, dtype, generator):
        size, outputs = dataset.x[0].numel(), self.outputs_for(dataset, loss)
        class Quadratic(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.form = torch.nn.Parameter(torch.randn(outputs, size, size, generator=generator, dtype=dtype))
            def forward(self, x):
                return torch.einsum("ni,kij,nj->nk", x, self.form, x)
        return Quadratic()
"""

RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import undertow.data.data_sets as data_sets, undertow.models as models
from ring import RingData
from quadratic import QuadraticModel
data_sets.DATA_SETS += (RingData,)   # what the line in each registry does
models.MODELS += (QuadraticModel,)
from undertow.cli import main
main(["run", sys.argv[1] + "/rings.toml", "--runs", sys.argv[1] + "/runs", "--engine", "here"])
"""


def test_a_new_data_set_and_a_new_model_are_run_from_toml(tmp_path: Path) -> None:
    (tmp_path / "ring.py").write_text(NEW_DATA)
    (tmp_path / "quadratic.py").write_text(NEW_MODEL)
    (tmp_path / "rings.toml").write_text(
        '[data]\nname = "ring"\nn = 40\n[model]\nname = "quadratic"\n[training]\nepochs = 2\n'
        '[probe]\nmeasures = ["loss", "accuracy"]\nsplit = "test"\nlimit = 20\n[grid]\nclasses = [2, 4]\n'
    )
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rings.own.own: 2 of 2 trials finished." in done.stdout
    # Whoever reads the store needs neither of them.
    frame = undertow.Store(tmp_path / "runs").frame()
    assert set(frame["classes"]) == {2, 4}
    assert set(frame["measure"]) == {"loss", "accuracy"}
