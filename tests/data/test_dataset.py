from __future__ import annotations

import hashlib
import pickle

import pytest
import torch

from undertow.core.errors import InputError
from undertow.data import Dataset, content_checksum


def test_the_checksum_is_sha256_of_dtype_shape_and_bytes() -> None:
    x, y = torch.arange(6.0).reshape(2, 3), torch.tensor([1, 0])
    written_out = hashlib.sha256(
        b"float32[2, 3]" + x.numpy().astype("<f4").tobytes() + b"int64[2]" + y.numpy().astype("<i8").tobytes()
    )
    assert Dataset.of(x, y, name="a").checksum == written_out.hexdigest()


def test_the_checksum_sees_values_shape_and_labels_but_not_layout() -> None:
    x, y = torch.arange(6.0).reshape(2, 3), torch.tensor([1, 0])
    base = content_checksum(x, y)
    assert base == content_checksum(x.T.contiguous().T, y)
    others = [(x.reshape(2, 3, 1), y), (x + 1e-6, y), (x, 1 - y), (x.double(), y)]
    assert all(content_checksum(*other) != base for other in others)


def test_take_carries_the_details_that_belong_to_samples() -> None:
    data = Dataset.of(
        torch.eye(3),
        torch.tensor([0, 1, 2]),
        name="a",
        details={"row": torch.tensor([7, 8, 9]), "centres": torch.eye(3)},
        aligned=("row",),
    )
    part = data.take([2, 0])
    assert part.details["row"].tolist() == [9, 7]
    assert part.details["centres"].equal(torch.eye(3))  # as long as the data, and yet not per sample
    assert part.classes == 3
    assert part.checksum == Dataset.of(torch.eye(3)[[2, 0]], torch.tensor([2, 0]), name="b").checksum


def test_it_travels_to_other_processes_and_devices() -> None:
    data = Dataset.of(torch.eye(2), torch.tensor([0, 1]), name="a", details={"row": torch.tensor([0, 1])})
    copy = pickle.loads(pickle.dumps(data))
    assert copy.checksum == data.checksum
    assert copy.x.equal(data.x)
    assert data.to("cpu").checksum == data.checksum
    assert data.to("meta").details["row"].device.type == "meta"


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [
        (torch.zeros(2, 1), torch.tensor([0]), "one label per row"),
        (torch.zeros(0, 1), torch.tensor([], dtype=torch.int64), "at least one row"),
        (torch.zeros(2, 1), torch.tensor([0.0, 1.0]), "integer"),
        (torch.zeros(2, 1), torch.tensor([-1, 1]), "renumber"),
    ],
)
def test_bad_content_is_refused_with_a_sentence(x: torch.Tensor, y: torch.Tensor, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Dataset.of(x, y, name="a")


def test_labels_beyond_the_classes_are_refused() -> None:
    with pytest.raises(InputError, match="2 classes need labels 0 … 1"):
        Dataset.of(torch.zeros(1, 1), torch.tensor([2]), name="a", classes=2)
