"""What a probe remembers as a file beside a checkpoint of somebody else's trainer: safetensors, never a pickle."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

__all__ = ["mark_of", "read_state", "write_state"]

_TENSORS = ("start", "memory")


def write_state(path: Path, state: Mapping[str, Any]) -> None:
    """What ``probe.state_dict()`` gave, in one stroke."""
    tensors = {
        f"{part}/{name}": tensor.detach().cpu().contiguous().clone()
        for part in _TENSORS
        for name, tensor in state[part].items()
    }
    plain = {name: value for name, value in state.items() if name not in _TENSORS}
    temporary = path.with_name(f".{path.name}")
    temporary.write_bytes(safetensors.torch.save(tensors, {"probe": json.dumps(plain)}))
    os.replace(temporary, path)


def read_state(path: Path) -> dict[str, Any] | None:
    """It again; None where there is no such file, or no whole one."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            state: dict[str, Any] = json.loads(file.metadata()["probe"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, safetensors.SafetensorError, KeyError, TypeError, ValueError):
        return None
    for part in _TENSORS:
        state[part] = {
            name.removeprefix(f"{part}/"): tensor
            for name, tensor in tensors.items()
            if name.startswith(f"{part}/")
        }
    return state


def mark_of(measures: Sequence[Any], *points: Tensor | None) -> str:
    """A word for what is measured and where, by which one training's probes are told apart in its checkpoints.

    >>> [mark_of([], torch.ones(1)) == mark_of([], torch.ones(count)) for count in (1, 2)]
    [True, False]
    """
    single = [each[0] if isinstance(each, tuple) and each else each for each in measures]
    digest = hashlib.sha256(" ".join(str(getattr(each, "name", each)) for each in single).encode())
    for each in points:
        if each is not None:
            digest.update(each.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]
