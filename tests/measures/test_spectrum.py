"""Singular values against a full SVD in float64, with bounds that cover the difference."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from undertow.core.adapting import Adapted
from undertow.core.errors import ConfigError
from undertow.measures import measure
from undertow.measures.spectrum import Spectrum, singular_values


@pytest.mark.parametrize("shape", [(5, 40), (40, 5), (1, 7), (30, 30)])
@pytest.mark.parametrize("decay", [0.0, 1.5])
def test_values_agree_with_an_svd_within_their_bounds(shape: tuple[int, int], decay: float) -> None:
    generator = torch.Generator().manual_seed(shape[0])
    u, s, v = torch.linalg.svd(
        torch.randn(shape, generator=generator, dtype=torch.float64), full_matrices=False
    )
    s = s * torch.exp(-decay * torch.arange(len(s)))  # down to 1e-19 of the largest
    matrix = 1e-4 * u @ torch.diag(s) @ v
    oracle = torch.linalg.svdvals(matrix)[:32]
    values, errors = singular_values(matrix, count=32)
    assert len(values) == min(*shape, 32)
    # The bound is about rounding of the Gram matrix; a full SVD rounds too, far less.
    assert bool(((values - oracle).abs() <= errors + 1e-15 * oracle[0]).all())
    assert float(errors[0]) < 1e-12 * float(values[0])
    assert bool((values[:-1] >= values[1:]).all())


def test_zero_has_no_direction_and_tiny_numbers_do_not_underflow() -> None:
    assert singular_values(torch.zeros(3, 4), count=2)[0].tolist() == [0.0, 0.0]
    tiny = torch.diag(torch.tensor([3e-200, 4e-200], dtype=torch.float64))
    assert singular_values(tiny, count=2)[0].tolist() == pytest.approx([4e-200, 3e-200], rel=1e-12)


def test_every_weight_is_read_and_biases_are_not() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 3))
    keys = [key for key, _, _ in Spectrum(count=2)(net, torch.zeros(1, 1, 4, 4), None)]
    assert keys == ["0.weight:0", "0.weight:1", "2.weight:0", "2.weight:1"]


def test_configuration_files_find_it_and_mistakes_are_named() -> None:
    assert measure("spectrum", count=4) == Spectrum(count=4)
    for count in (0, 33, True, 2.5):
        with pytest.raises(ConfigError, match=f"spectrum.count = {count}: should be"):
            measure("spectrum", count=count)


def test_names_are_those_of_the_network_whatever_is_around_it() -> None:
    layer = nn.Linear(3, 2)
    keys = {key for key, _, _ in Spectrum()(layer, torch.zeros(1, 3), None)}
    assert keys == {"weight:0", "weight:1"}
    for around in (Adapted(layer, output=lambda out: out), nn.DataParallel(layer)):
        assert {key for key, _, _ in Spectrum()(around, torch.zeros(1, 3), None)} == keys
