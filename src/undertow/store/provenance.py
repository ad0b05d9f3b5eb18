"""Where a number comes from: code, packages, hardware."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

import torch

import undertow
from undertow.core.canonical import digest, dumps, file_digest

__all__ = ["code_version", "environment"]

_PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "safetensors", "pydantic")


@functools.cache
def code_version() -> dict[str, str]:
    """The package's version, and a digest of its source files: it also tells apart uncommitted changes."""
    root = Path(undertow.__file__).parent
    files = {str(path.relative_to(root)): file_digest(path) for path in sorted(root.rglob("*.py"))}
    return {"undertow": undertow.__version__, "source": digest(dumps(files))}


def environment() -> dict[str, Any]:
    """Package versions and hardware of this process."""
    return {"code": code_version(), "packages": _packages(), "hardware": _hardware()}


@functools.cache
def _packages() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "unknown"
    return versions


def _hardware() -> dict[str, Any]:
    found: dict[str, Any] = {
        "host": platform.node(),
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }
    if pinned := os.environ.get("CUDA_VISIBLE_DEVICES"):
        found["visible_gpus"] = pinned
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
        found["cuda"] = torch.version.cuda
    return found


@functools.cache
def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
