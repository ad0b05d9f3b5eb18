"""Measures of the parameters take networks that return dictionaries, tuples and dataclasses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import undertow as ut


class Wordy(nn.Sequential):
    """Its scores are in a dictionary, beside others that are larger."""

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        scores = super().forward(x)
        return {"logits": scores, "doubled": 2 * scores, "loss": scores.sum()}


def _layers() -> list[nn.Module]:
    torch.manual_seed(0)
    return [nn.Linear(3, 5, bias=False), nn.ReLU(), nn.Linear(5, 3, bias=False)]


def _sharpness(net: nn.Module, x: Tensor, y: Tensor, **options: Any) -> float:
    return ut.sharpness(net, x, y, loss="cross-entropy", **options).value


@pytest.mark.parametrize(
    "measure",
    [
        lambda *given, **options: ut.margins(*given, **options).smallest,
        lambda *given, **options: ut.kkt(*given, **options).misalignment,
        _sharpness,
    ],
    ids=["margins", "kkt", "sharpness"],
)
def test_one_of_several_outputs_is_measured_as_if_it_were_alone(measure: Callable[..., float]) -> None:
    plain, wordy = nn.Sequential(*_layers()).eval(), Wordy(*_layers()).eval()
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(1))
    y = plain(x).argmax(1)
    assert measure(wordy, x, y) == pytest.approx(measure(plain, x, y), rel=1e-9)
    other = measure(wordy, x, y, output=lambda found: found["logits"])
    assert other == pytest.approx(measure(plain, x, y), rel=1e-9)
    if measure is not _sharpness:  # whose loss may be as sharp by chance
        assert measure(wordy, x, y, output="doubled") != pytest.approx(other, rel=1e-3)
    assert not wordy._forward_hooks
    with pytest.raises(ut.UndertowError, match="did you mean 'logits'"):
        measure(wordy, x, y, output="logit")
