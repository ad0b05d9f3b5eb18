"""The examples run as they stand."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

_FOLDER = Path(__file__).parent.parent / "examples"
_NEEDS = {
    "lightning_callback": ("lightning",),
    "transformers_trainer": ("transformers", "accelerate"),
    "pretrained_pitch_tracker": ("torchcrepe", "librosa"),
    "tensorboard_records": ("tensorboard",),
}
_LONG = ("two_processes",)  # smaller: tests/probe/test_ranks.py
_PRINTS = {
    "plain_loop": "co_correlation",
    "followed_optimizer": "200,0,stable-rank,2.weight",
    "lightning_callback": "3 seam-profile energy",
    "transformers_trainer": "8 energy",
    "two_processes": "rank 0: steps measured [0, 2, 4, 6]\nrank 1: together [(0, 'energy'), (0, 'accuracy'",
    "pretrained_pitch_tracker": "conv4_BN",
    "tensorboard_records": "tensorboard --logdir",
}


def test_every_example_is_run() -> None:
    assert {path.stem for path in _FOLDER.glob("*.py")} == set(_PRINTS)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.full if name in _LONG else ()) for name in _PRINTS],
)
def test_an_example_runs_and_prints_what_it_says(name: str, tmp_path: Path) -> None:
    for package in _NEEDS.get(name, ()):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(_FOLDER / f"{name}.py")],
        capture_output=True, text=True, timeout=240, env=environment, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    for line in _PRINTS[name].split("\n"):
        assert line in done.stdout
