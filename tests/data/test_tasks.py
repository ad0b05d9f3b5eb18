from __future__ import annotations

import pytest
import torch

from undertow.core.errors import InputError
from undertow.data import TASKS, Dataset, halves, load, parity, relabel


def test_tasks_on_digits() -> None:
    digits = load("digits")
    odd, high = parity(digits), halves(digits)
    assert odd.classes == high.classes == 2
    assert all(int(b) == int(a) % 2 for a, b in zip(digits.y, odd.y, strict=True))
    assert all(int(b) == int(a > 4) for a, b in zip(digits.y, high.y, strict=True))
    assert odd.x.equal(digits.x)
    assert odd.details["label"].equal(digits.y)
    assert odd.take([5]).details["label"].tolist() == [int(digits.y[5])]
    assert odd.name == "digits/parity"
    assert len({digits.checksum, odd.checksum, high.checksum}) == 3


def test_by_name() -> None:
    digits = load("digits", limit=50)
    assert relabel(digits, None) is digits
    for name in TASKS:
        assert relabel(digits, name).classes == 2
    assert relabel(digits, "low-high").y.equal(relabel(digits, "first-last").y)
    with pytest.raises(InputError, match="did you mean 'parity'"):
        relabel(digits, "partiy")


def test_what_makes_no_sense_is_refused() -> None:
    three = Dataset.of(torch.zeros(3, 1), torch.arange(3), name="three")
    with pytest.raises(InputError, match="no two halves"):
        halves(three)
    with pytest.raises(InputError, match="already"):
        parity(parity(three))
