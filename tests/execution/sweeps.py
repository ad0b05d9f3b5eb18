"""Small studies for the tests of runs."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from undertow.config.grid import StudyConfig
from undertow.config.trial import validate
from undertow.store.store import Store


def tiny_study(**changes: Any) -> StudyConfig:
    """Four groups of three trials that take a fraction of a second."""
    document: dict[str, Any] = {
        "name": "tiny",
        "data": {"name": "kou-mixture", "n": 6, "d": 12, "sigma_p": 0.3},
        "model": {
            "name": "two-layer",
            "width": 8,
            "init": {"name": "gaussian", "std": 0.1},
            "head": "mean",
            "bias": "both",
        },
        "training": {"optimizer": "sgd", "batch_size": 2, "learning_rate": 0.05, "epochs": 12},
        "probe": {"measures": ["stable-rank", "loss", "accuracy"], "every": "log"},
        "grid": {"seed": [0, 1, 2, 3], "std": [0.01, 0.1, 1.0]},
    }
    return validate(StudyConfig, {**document, **changes})


def fingerprint(
    store: Store, *, names: tuple[str, ...] = ("records", "weights", "status", "config")
) -> dict[str, str]:
    """A digest of what must not depend on interruptions, for every finished trial."""
    found = {}
    for trial in store.finished():
        files = store.trial(trial).files
        whole = b"".join(data for name, data in sorted(files.items()) if name.split(".")[0] in names)
        found[trial] = hashlib.sha256(whole).hexdigest()
    return found


def gpus_seen(store: Store) -> set[str | None]:
    """What the processes that computed the store's trials could see of GPUs, as their provenance says."""
    return {store.trial(trial).provenance["hardware"].get("visible_gpus") for trial in store.finished()}


def flip(path: Path, position: int, *, bit: int = 0) -> None:
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)
