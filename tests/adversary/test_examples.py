"""Adversarial examples kept with trials: real ones, as close as the exact distance, and the same after a resume."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from tests.execution.sweeps import tiny_study
from undertow.adversary import robustness
from undertow.adversary.examples import adversarial_examples, read_examples
from undertow.core.errors import StoreError
from undertow.core.tensor_files import pack
from undertow.data.dataset import Dataset
from undertow.execution.engines.here import Here
from undertow.execution.sweep import sweep
from undertow.store.store import Store

PATH = Path("examples.safetensors")


def networks(outputs: int, seeds: int = 2) -> list[nn.Module]:
    made: list[nn.Module] = []
    for seed in range(seeds):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            made.append(nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, outputs)))
    return made


@pytest.mark.parametrize("outputs", [1, 3])
def test_examples_are_misclassified_at_the_distance_they_say(outputs: int) -> None:
    nets = networks(outputs)
    x = torch.randn(8, 6, generator=torch.Generator().manual_seed(0))
    y = torch.arange(8) % max(outputs, 2)
    points = Dataset.of(x, y, name="points")
    for net, data in zip(nets, adversarial_examples(nets, points, count=5), strict=True):
        found = read_examples(data, PATH)
        assert torch.equal(found.x, x[:5])
        assert found.label.tolist() == y[:5].tolist()
        exact = robustness(net, x[:5], y[:5], exact=True).exact
        assert torch.allclose(found.distance.double(), exact, rtol=1e-3, atol=1e-6)
        moved = (found.adversarial - found.x).norm(dim=1)
        assert torch.allclose(moved, found.distance, atol=1e-6)
        assert not bool((found.predicted == found.label).any())


def test_the_valid_range_is_kept() -> None:
    nets = networks(3, seeds=1)
    x = torch.rand(6, 6, generator=torch.Generator().manual_seed(1))
    points = Dataset.of(x, torch.arange(6) % 3, name="points", bounds=(0.0, 1.0))
    (data,) = adversarial_examples(nets, points, count=6)
    found = read_examples(data, PATH)
    assert float(found.adversarial.min()) >= 0
    assert float(found.adversarial.max()) <= 1


def test_where_nothing_can_fool_the_network_the_distance_is_infinite() -> None:
    constant = nn.Linear(2, 2).requires_grad_(False)
    constant.weight.zero_()
    constant.bias.copy_(torch.tensor([1.0, 0.0]))
    points = Dataset.of(torch.ones(2, 2), torch.tensor([0, 1]), name="points")
    (data,) = adversarial_examples([constant], points, count=2)
    found = read_examples(data, PATH)
    assert found.distance.tolist() == [float("inf"), 0.0]
    assert found.predicted.tolist() == [0, 0]


def test_a_trial_keeps_as_many_as_it_was_told_to(tmp_path: Path) -> None:
    probe = {"measures": ["loss"], "every": "ends", "examples": 2}
    study = tiny_study(probe=probe, grid={"seed": [0], "std": [0.1, 1.0]})
    assert sweep(Store(tmp_path / "a"), study, engine=Here()).complete
    assert sweep(Store(tmp_path / "b"), study, engine=Here()).complete
    for point in study.points:
        kept, again = (Store(tmp_path / name).trial(point.trial.id) for name in ("a", "b"))
        assert kept.examples is not None
        assert len(kept.examples.x) == 2
        assert kept.files["examples.safetensors"] == again.files["examples.safetensors"]


def test_without_being_told_a_trial_keeps_none(tmp_path: Path) -> None:
    study = tiny_study(grid={"seed": [0]})
    assert sweep(Store(tmp_path), study, engine=Here()).complete
    assert Store(tmp_path).trial(study.points[0].trial.id).examples is None


def test_another_file_is_not_taken_for_examples() -> None:
    with pytest.raises(StoreError, match="instead of adversarial examples"):
        read_examples(pack({"weight": torch.zeros(1)}), PATH)
