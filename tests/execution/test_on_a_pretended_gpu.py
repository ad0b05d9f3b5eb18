"""Groups on a GPU that is pretended: what they read, and where they go on, are those of the CPU."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.execution.sweeps import tiny_study
from tests.pretended_gpu import pretended_gpu
from undertow.config.grid import Group
from undertow.execution.group import run_group
from undertow.store.store import Store

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="there is a GPU, which need not be pretended"
)

REST: dict[str, Any] = {
    "training": {
        "optimizer": "sgd", "batch_size": 2, "learning_rate": 2.0, "epochs": 2, "dtype": "float64",
        "rate": {"name": "loss-based", "ceiling": 20.0},
    },
    "probe": {
        "measures": ["stable-rank", "energy", "margin-falls", "direction"],
        "every": "epoch", "keep": "epoch",
    },
    "grid": {"seed": [0, 1]},
}  # fmt: skip


def group() -> Group:
    (only,) = tiny_study(
        data={"name": "kou-mixture", "n": 6, "d": 12, "sigma_p": 0.3, "seed": 3}, **REST
    ).groups
    return only


def after(looks: int) -> Callable[[], bool]:
    seen = itertools.count(1)
    return lambda: next(seen) >= looks


def numbers(store: Store) -> dict[tuple[str, int, str, str], Any]:
    return {
        (trial, record.step, record.measure, record.key): record.value
        for trial in store.finished()
        for record in store.trial(trial).records
    }


def test_records_checkpoints_and_kept_networks(tmp_path: Path) -> None:
    on_cpu, on_gpu = Store(tmp_path / "cpu"), Store(tmp_path / "gpu")
    run_group(on_cpu, group(), device="cpu")
    expected = numbers(on_cpu)
    # Begun on a CPU, gone on with on a GPU, which is interrupted too.
    assert run_group(on_gpu, group(), device="cpu", stop=after(2)).status == "interrupted"
    with pretended_gpu() as gpu:
        assert run_group(on_gpu, group(), device="cuda", stop=after(2)).status == "interrupted"
        assert run_group(on_gpu, group(), device="cuda").status == "finished"
        assert gpu.refused == []
        assert any(graph.replays for graph in gpu.graphs)
    found = numbers(on_gpu)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-6, abs=1e-9), name
    for trial in on_cpu.finished():
        assert on_gpu.trial(trial).files.keys() == on_cpu.trial(trial).files.keys()
