"""Residuals of frequencies beside the fast Fourier transform, and noise that can be undone by hand."""

from __future__ import annotations

import copy

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from undertow.core.errors import InputError
from undertow.data.fourier_sum import FourierSumData, fourier_sum
from undertow.measures.frequency_residuals import FrequencyResiduals, coefficients, with_noise
from undertow.models import mlp


class Table(nn.Module):
    """The values given, at the points given."""

    def __init__(self, values: Tensor) -> None:
        super().__init__()
        self.values = nn.Parameter(values)

    def forward(self, x: Tensor) -> Tensor:  # noqa: ARG002
        return self.values[:, None]


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_residuals_are_those_of_the_fast_fourier_transform(unit: float) -> None:
    data = fourier_sum(n=32, frequencies=(1, 3, 7), growing=True, seed=2)
    x, y = data.x.double(), data.labels.double() * unit
    found = y + unit * torch.randn(32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    readings = {key: v for key, v, _ in FrequencyResiduals().about(data.details)(Table(found), x, y)}
    there, here = torch.fft.rfft(y), torch.fft.rfft(found)
    for k in (1, 3, 7):
        expected = float((there[k] - here[k]).abs() / there[k].abs())
        assert readings[f"residual:{k}"] == pytest.approx(expected, rel=1e-6)


def test_the_target_itself_has_no_residual_and_its_amplitudes() -> None:
    data = fourier_sum(n=40, frequencies=(2, 5, 9), growing=True)
    readings = list(
        FrequencyResiduals().about(data.details)(Table(data.labels.double()), data.x.double(), data.labels)
    )
    assert max(value for _, value, _ in readings) < 1e-6
    found = coefficients(data.labels, data.x[:, 0], data.details["frequencies"]).abs()
    assert torch.allclose(found, torch.tensor([0.1, 0.55, 1.0], dtype=torch.float64), atol=1e-5)


def test_noise_has_the_size_that_was_asked_for_and_leaves_the_network_alone() -> None:
    net = mlp(
        inputs=3,
        widths=[5],
        outputs=1,
        bias=True,
        dtype=torch.float64,
        generator=torch.Generator().manual_seed(0),
    )
    before = torch.cat([weight.detach().flatten().clone() for weight in net.parameters()])
    noisy = with_noise(net, 0.25, torch.Generator().manual_seed(1))
    after = torch.cat([weight.detach().flatten() for weight in noisy.parameters()])
    assert float((after - before).norm() / before.norm()) == pytest.approx(0.25)
    assert torch.equal(before, torch.cat([weight.detach().flatten() for weight in net.parameters()]))


def test_frequencies_that_the_points_do_not_tell_apart_are_refused() -> None:
    with pytest.raises(InputError, match="below 5"):
        fourier_sum(n=10, frequencies=(1, 5))
    with pytest.raises(InputError, match="choose the data fourier-sum"):
        FrequencyResiduals().about({})


def test_noise_on_labels_is_one_frequency_more_and_is_not_between_the_points() -> None:
    """By the fast Fourier transform: the sum is as it was, the noise is beside it, points between have none."""
    section = FourierSumData(name="fourier-sum", n=32, frequencies=(1, 3), seed=5)
    noisy = section.model_copy(update={"noise_frequency": 9, "noise_amplitude": 0.25})
    plain, trained = section.build(), noisy.build()
    rest = torch.fft.rfft(trained.labels.double() - plain.labels.double()).abs() / 16
    assert rest[9] == pytest.approx(0.25, abs=1e-6)
    assert float(rest.sum()) == pytest.approx(0.25, abs=1e-5)
    assert trained.details["frequencies"].tolist() == [1.0, 3.0, 9.0]
    between = noisy.points(trained, split="test", limit=None)
    expected = section.points(plain, split="test", limit=None)
    assert torch.equal(between.labels, expected.labels)
    assert not torch.equal(between.x, trained.x)


def test_noise_is_told_whole_and_of_a_frequency_of_its_own() -> None:
    with pytest.raises(InputError, match="take another"):
        fourier_sum(n=10, frequencies=(1, 3), noise=(3, 0.5))
    with pytest.raises(InputError, match="below 5"):
        fourier_sum(n=10, frequencies=(1,), noise=(5, 0.5))
    with pytest.raises(ValidationError, match="give both, or neither"):
        FourierSumData(name="fourier-sum", noise_frequency=4)
    assert "noise_frequency" not in FourierSumData(name="fourier-sum").model_dump()


def test_a_stretched_input_has_the_same_residuals_at_its_own_frequencies() -> None:
    """s(z − ½) turns every coefficient of target and network alike, and the frequency in it is k/s."""
    plain, wide = (fourier_sum(n=61, frequencies=(3, 12), stretch=stretch) for stretch in (None, 20.0))
    assert wide.details["frequencies"].tolist() == [0.15, 0.6]
    assert float(wide.x.min()) == -10.0
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(1, 30), nn.Tanh(), nn.Linear(30, 1)).double()
    inner = copy.deepcopy(net)
    with torch.no_grad():  # the same function of z
        weight, bias = inner[0].parameters()
        weight.div_(20)
        bias.add_(10 * weight[:, 0])
    found = [
        [
            value
            for _, value, _ in FrequencyResiduals().about(data.details)(each, data.x.double(), data.labels)
        ]
        for each, data in ((net, plain), (inner, wide))
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-5)
