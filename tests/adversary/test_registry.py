"""A new attack is one file and one line: it is found by name, its cost is told before, and it runs like the others."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path

import pytest

import undertow.adversary.attacks as folder
from tests.adversary.cases import decisions, mlp, points
from undertow.adversary import attack_cost, robust_accuracy
from undertow.adversary.attacks.attack_progress import AttackProgress
from undertow.adversary.attacks.entry import AttackEntry
from undertow.adversary.attacks.registry import ATTACKS
from undertow.core.errors import ConfigError

NEW_FILE = '''
"""One random point on the sphere around each sample, as often as one likes."""

from functools import partial

import torch

from undertow.adversary.attacks.batch import Found, beaten
from undertow.adversary.attacks.entry import AttackEntry
from undertow.adversary.attacks.search import random_start


def look(scorer, batch):
    with torch.no_grad():
        return Found(batch.start, beaten(scorer(batch.start), batch.y))


def run(tries, search, eps, todo, pairs):
    for index in range(tries):
        start = random_start(search, eps, "noise", index)
        search.run("noise", look, eps=eps, todo=todo & (search.distance > eps), start=start)
    return [f"noise was drawn {tries} times"]


NOISE = AttackEntry("noise", partial(run, 7), lambda classes: (7, 0))
'''


@pytest.fixture
def noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AttackEntry:
    (tmp_path / "noise.py").write_text(NEW_FILE)
    monkeypatch.syspath_prepend(tmp_path)
    entry = importlib.import_module("noise").NOISE
    monkeypatch.setitem(ATTACKS, entry.name, entry)  # the line
    monkeypatch.delitem(sys.modules, "noise")
    assert isinstance(entry, AttackEntry)
    return entry


def test_a_new_attack_is_one_file_and_one_line(noise: AttackEntry) -> None:
    net, x = mlp(3, inputs=5, width=12, outputs=4), points(3, 24, 5)
    y = decisions(net, x)
    told: list[AttackProgress] = []
    forecast = attack_cost(net, x, y, eps=[0.3, 1e-9], attack="noise")
    assert (forecast.forward, forecast.backward) == (2 * 7 * 24, 0)
    small = robust_accuracy(net, x, y, eps=1e-9, attack="noise", certify=False, progress=told.append)
    assert small.value == 1.0
    assert told[0].attack == noise.name
    assert told[0].total - told[0].done == 7 * 24  # known before it runs, and no less than it takes
    assert small.passes.forward + small.passes.backward == told[0].total
    large = robust_accuracy(net, x, y, eps=0.5, attack=["noise", "fast"], progress=False)
    assert 0 < large.broken_by["noise"][0] < 24
    assert "noise was drawn 7 times" in large.notes
    alone = robust_accuracy(net, x, y, eps=0.5, attack="fast", progress=False)
    assert large.value <= alone.value


def test_without_its_line_it_is_unknown() -> None:
    net, x = mlp(3, inputs=5, width=12, outputs=4), points(3, 4, 5)
    with pytest.raises(ConfigError, match="attack 'noise' is unknown"):
        robust_accuracy(net, x, decisions(net, x), eps=0.1, attack="noise")


def test_the_registry_holds_every_entry_of_the_folder_once() -> None:
    modules = [
        importlib.import_module(f"{folder.__name__}.{each.name}")
        for each in pkgutil.iter_modules(folder.__path__)
    ]
    entries = {
        id(value): value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, AttackEntry)
    }
    assert sorted(entry.name for entry in entries.values()) == sorted(ATTACKS)
    assert all(name == entry.name for name, entry in ATTACKS.items())
