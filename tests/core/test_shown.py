"""What results look like at a prompt."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import undertow as ut
from undertow.core.shown import Shown
from undertow.core.status import Status


@dataclass(frozen=True, eq=False)
class Found(Shown):
    value: Any
    kept: Tensor | None = field(default=None, repr=False)


def shown(value: Any) -> str:
    """What follows the name of the field; nothing where the field is left out."""
    return repr(Found(value)).removeprefix("Found").strip().removeprefix("value").strip()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1.0 / 3.0, "0.3333"),
        (float("nan"), "nan"),
        (3, "3"),
        (True, "True"),
        (None, ""),
        ("", ""),
        ((), ""),
        ({}, ""),
        ("a sentence", "a sentence"),
        (Status.EXACT, "exact"),
        ((0.5, None, "two"), "0.5, none, two"),
        (tuple(range(9)), "0, 1, 2, 3, … (9 entries)"),
        (("exact",) * 6 + ("open",), "exact × 6, open × 1"),
        ({"a": 1.5}, "a: 1.5"),
        (torch.tensor(2.5), "2.5"),
        (torch.tensor([1.0, 2.0]), "1, 2"),
        (torch.zeros(0, 3), "no numbers"),
        (torch.tensor([True, False, True]), "true for 2 of 3"),
        (torch.tensor(True), "True"),
        (torch.full((2, 3), 7), "2 × 3 numbers all 7"),
        (torch.full((5,), 123456), "5 numbers all 123456"),
        (torch.tensor([123456]), "123456"),
        (torch.tensor([1.0, 1.0, 1.0, 1.0, 1.00001]), "5 numbers all about 1"),
        (torch.ones(5, dtype=torch.bfloat16), "5 numbers all 1"),
        (torch.arange(6.0).reshape(2, 3), "2 × 3 numbers from 0 to 5, mean 2.5"),
        (torch.tensor([0.0, 1.0, 2.0, 3.0, float("inf")]), "5 numbers from 0 to inf"),
        (torch.tensor([float("nan"), 1.0, 2.0, 3.0, 4.0]), "5 numbers from 1 to 4, mean 2.5, 1 NaN"),
        (torch.full((5,), float("nan")), "5 numbers, all NaN"),
        (torch.zeros(2, dtype=torch.complex64), "2 numbers"),
        (torch.eye(3).to_sparse(), "3 × 3 numbers"),
    ],
)
def test_a_field_is_told_in_one_line(value: Any, words: str) -> None:
    assert shown(value) == words


def test_other_results_are_named_and_hidden_fields_hidden() -> None:
    assert shown((Found(1.0), Found(2.0))) == "Found, Found"
    assert shown(Found(1.0)) == "Found"
    assert "kept" not in repr(Found(1.0, kept=torch.ones(3)))


def test_words_of_a_class_are_those_of_what_inherits_from_it() -> None:
    @dataclass(frozen=True)
    class Short(Shown):
        value: float

        def __repr__(self) -> str:
            return f"about {self.value:.0f}"

    @dataclass(frozen=True, repr=False)
    class Longer(Short):
        more: float = 0.0

    @dataclass(frozen=True)
    class Longest(Short):
        most: float = 0.0

    assert [repr(Longer(2.25)), repr(Longest(2.25))] == ["about 2", "about 2"]


def test_no_public_result_is_a_wall_of_numbers() -> None:
    net = nn.Sequential(nn.Linear(30, 20), nn.ReLU(), nn.Linear(20, 20), nn.ReLU(), nn.Linear(20, 3))
    x, y = torch.randn(12, 30), torch.randint(3, (12,))
    results = [
        ut.jacobian_norms(net, x),
        ut.energy(net, x),
        ut.collaboration(net, x, seam="1"),
        ut.collaboration(net, x, seams=["1", "3"]),
        ut.seam_profile(net, x),
        ut.margins(net, x, y),
        ut.kkt(net, x, y),
        ut.sharpness(net, x, y, loss="cross-entropy"),
        ut.hessian_trace(net, x, y, loss="cross-entropy"),
        ut.robustness(net, x[:2], y[:2], attack="fast"),
        ut.robust_accuracy(net, x, y, eps=[0.1, 0.2], attack="fast"),
        ut.certified_accuracy(net, x, y, eps=[0.1, 0.2]),
        ut.lipschitz(net, x, radius=0.1),
        ut.near_orthogonality(x),
    ]
    for result in results:
        lines = repr(result).splitlines()
        assert lines[0].startswith(type(result).__name__)
        assert 3 <= len(lines) <= 25
        assert max(map(len, lines)) <= 400, lines


def test_a_chain_shows_its_factors_and_a_profile_its_seams() -> None:
    net = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    x = torch.randn(8, 5)
    chain = ut.collaboration(net, x, seams=["1", "3"])
    assert [line.split()[0] for line in repr(chain).splitlines()[1:]] == [name for name, _ in chain.factors]
    profile = ut.seam_profile(net, x)
    assert [line.split()[0] for line in repr(profile).splitlines()[2:]] == list(profile.seams)
