"""Real data, bit for bit."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from undertow.core.errors import DataError, InputError
from undertow.data import load


def test_digits_are_the_same_everywhere() -> None:
    train, test, everything = load("digits"), load("digits", split="test"), load("digits", split="all")
    assert (len(train), len(test), len(everything)) == (1438, 359, 1797)
    assert everything.x.equal(torch.cat([train.x, test.x]))
    assert sorted(everything.details["row"].tolist()) == list(range(1797))
    assert train.checksum == "2aedbaae2e38c7b7423fd34f99cd538c2dafc8b84ba63a74802d18797ad7eb94"
    assert test.checksum == "4e31096f424e95e62f29534f386e31c3f0628abeed3c8eba072b38f6cc1f039d"


def test_digits_are_scikit_learns() -> None:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    data = load("digits", split="all")
    rows = data.details["row"].numpy()
    assert np.array_equal(data.x[:, 0].numpy() * 16, bunch.images[rows])
    assert np.array_equal(data.y.numpy(), bunch.target[rows])


def test_mnist_is_the_published_one(data_folder: Path) -> None:
    train = load("mnist", folder=data_folder, download=False)
    assert train.x.shape == (60_000, 1, 28, 28)
    assert train.y.bincount().tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert (float(train.x.min()), float(train.x.max())) == (0.0, 1.0)
    assert train.x.double().mean() == pytest.approx(0.1307, abs=5e-5)
    assert train.x.double().std() == pytest.approx(0.3081, abs=5e-5)
    assert train.checksum == "5e824da605353a97cd97d2320ca57766f23efc8a4ac5623193afe57f9cba705c"


def test_mnist_pixels_and_order(data_folder: Path) -> None:
    test = load("mnist", split="test", folder=data_folder, download=False)
    raw = gzip.decompress((data_folder / "t10k-images-idx3-ubyte.gz").read_bytes())[16:]
    assert (test.x * 255).round().to(torch.uint8).numpy().tobytes() == raw
    labels = gzip.decompress((data_folder / "t10k-labels-idx1-ubyte.gz").read_bytes())[8:]
    assert bytes(test.y.tolist()) == labels
    assert test.checksum == "ea799c1cb29a92f0bdc66a2e48b9d62571f270c4d01b8c58b2bf18d46e3170f5"


def test_options_on_images(data_folder: Path) -> None:
    plain = load("mnist", split="test", folder=data_folder)
    small = load("mnist", split="test", folder=data_folder, limit=50, flatten=True, normalise="centred")
    assert small.x.equal(2 * plain.x[:50].flatten(1) - 1)
    assert small.y.equal(plain.y[:50])
    assert small.bounds == (-1.0, 1.0)
    assert load("mnist", split="test", folder=data_folder, limit=10**6).checksum == plain.checksum


def test_autism_is_the_table_of_the_report(data_folder: Path) -> None:
    train = load("autism", folder=data_folder, download=False)
    test = load("autism", folder=data_folder, split="test", download=False)
    everything = load("autism", folder=data_folder, split="all")
    assert (train.x.shape, test.x.shape) == ((83, 5), (21, 5))
    assert everything.y.bincount().tolist() == [57, 47]  # 57 healthy controls, 47 with autism
    first = int((everything.details["row"] == 0).nonzero())
    expected = torch.tensor([14.54121764, 9.972979786, 11.34928123, 7.033423002, 6.357552005])
    torch.testing.assert_close(everything.x[first], expected)
    assert not set(train.details["row"].tolist()) & set(test.details["row"].tolist())
    assert everything.bounds is None


def test_standardised_tables_use_the_training_rows_alone(data_folder: Path) -> None:
    train = load("autism", folder=data_folder)
    test = load("autism", folder=data_folder, split="test")
    scaled = load("autism", folder=data_folder, split="test", normalise="standardised", limit=4)
    mean, std = train.x.double().mean(0), train.x.double().std(0, unbiased=False)
    torch.testing.assert_close(scaled.x, ((test.x.double() - mean) / std).float()[:4])


def test_dlbcl_leaves_out_the_unknown(data_folder: Path) -> None:
    data = load("dlbcl", folder=data_folder, split="all", download=False)
    assert data.x.shape == (227, 7399)
    assert data.y.bincount().tolist() == [112, 115]
    time, event = data.details["time"], data.details["event"]
    assert ((time > 3) == (data.y == 1)).all()  # the label is: alive after three years
    assert (event[data.y == 0] == 1).all()


def test_any_table_can_be_split_differently(data_folder: Path) -> None:
    path = data_folder / "autism.csv"
    data = load(path, label="Autism", features=["Gene1", "Age"], test_fraction=0.5, split_seed=3)
    assert data.x.shape == (52, 2)
    assert data.name == "autism"
    assert load("autism.csv", folder=data_folder, label="Gender").classes == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": "minst"}, "did you mean 'mnist'"),
        ({"name": "digits", "split": "tset"}, "did you mean 'test'"),
        ({"name": "digits", "limit": 0}, "at least 1"),
        ({"name": "digits", "normalise": "unit norm"}, "did you mean 'unit-norm'"),
        ({"name": "digits", "label": "y"}, "not a table"),
    ],
)
def test_bad_options_get_a_hint(options: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        load(**options)  # type: ignore[arg-type]


def test_a_missing_file_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no file genes\.csv; looked at genes\.csv, .*cache"):
        load("genes.csv", folder=tmp_path, label="y")
    (tmp_path / "genes.txt").write_text("")
    with pytest.raises(InputError, match="tables are read from"):
        load(tmp_path / "genes.txt", label="y")
