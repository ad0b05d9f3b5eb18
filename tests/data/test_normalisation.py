from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from undertow.core.errors import InputError
from undertow.data import Dataset, normalise
from undertow.data.normalisation import standardise, unit_norm


def images(n: int = 50, seed: int = 0) -> Dataset:
    x = torch.rand(n, 1, 4, 4, generator=torch.Generator().manual_seed(seed))
    return Dataset.of(x, torch.arange(n) % 10, name="random", bounds=(0.0, 1.0))


def test_affine_ones_move_the_bounds_along() -> None:
    data = images()
    centred, mnist = normalise(data, "centred"), normalise(data, "mnist")
    torch.testing.assert_close(centred.x, 2 * data.x - 1)
    assert centred.bounds == (-1.0, 1.0)
    torch.testing.assert_close(mnist.x, ((data.x.double() - 0.1307) / 0.3081).float())
    assert mnist.bounds == pytest.approx((-0.1307 / 0.3081, 0.8693 / 0.3081))
    assert normalise(data, None) is data


@given(seed=st.integers(0, 1000), scale=st.sampled_from([1e-12, 1.0, 1e12]))
def test_unit_norm_rows_have_norm_one(seed: int, scale: float) -> None:
    x = scale * torch.randn(7, 3, 5, generator=torch.Generator().manual_seed(seed))
    scaled, bounds = unit_norm(x, (0.0, 1.0))
    assert bounds is None
    torch.testing.assert_close(
        scaled.double().flatten(1).norm(dim=1), torch.ones(7).double(), atol=3e-7, rtol=0
    )
    rows = x.double().flatten(1)
    torch.testing.assert_close(
        scaled.double().flatten(1), rows / rows.norm(dim=1, keepdim=True), atol=2e-7, rtol=0
    )


def test_unit_norm_goes_through_every_block_of_rows() -> None:
    x = torch.randn(3000, 2, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(unit_norm(x)[0], torch.nn.functional.normalize(x, dim=1))


def test_a_zero_sample_has_no_direction() -> None:
    with pytest.raises(InputError, match="Sample 1 is zero"):
        unit_norm(torch.tensor([[1.0], [0.0]]))


def test_standardised_is_fitted_on_train() -> None:
    train, test = images(seed=1), images(seed=2)
    x = normalise(test, "standardised", train=train).x
    mean = train.x.double().mean(0)
    std = train.x.double().std(0, unbiased=False)
    torch.testing.assert_close(x, ((test.x.double() - mean) / std).float())
    own = normalise(train, "standardised").x.double()
    torch.testing.assert_close(own.mean(0), torch.zeros(1, 4, 4).double(), atol=1e-6, rtol=0)
    torch.testing.assert_close(own.std(0, unbiased=False), torch.ones(1, 4, 4).double(), atol=1e-5, rtol=0)


def test_a_constant_feature_becomes_zero() -> None:
    x, _ = standardise(torch.full((4, 2), 3.0), fitted_on=torch.full((4, 2), 3.0))
    assert x.equal(torch.zeros(4, 2))


def test_an_unknown_name_gets_a_hint() -> None:
    with pytest.raises(InputError, match="did you mean 'centred'"):
        normalise(images(), "centered")
