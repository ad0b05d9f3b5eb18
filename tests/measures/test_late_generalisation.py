"""Accuracy on pairs seen and not seen, margins and frequencies, beside what one computes by hand."""

from __future__ import annotations

import math

import pytest
import torch

from undertow.core.errors import InputError
from undertow.data.modular_addition import modular_addition
from undertow.measures.late_generalisation import LateGeneralisation, frequency_share
from undertow.models import mlp


def test_readings_are_those_of_a_loop_over_the_pairs() -> None:
    data = modular_addition(p=7, share=0.5, split="all", seed=3)
    net = mlp(
        inputs=14, widths=[9], outputs=7, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    found = {
        key: value for key, value, _ in LateGeneralisation().about(data.details)(net, data.x.double(), data.y)
    }
    right: dict[bool, list[bool]] = {True: [], False: []}
    margins, losses = [], []
    for x, y, seen in zip(data.x.double(), data.y.tolist(), data.details["seen"].tolist(), strict=True):
        scores = net(x[None])[0].detach()
        others = max(float(s) for k, s in enumerate(scores) if k != y)
        right[seen].append(float(scores[y]) > others)
        if seen:
            margins.append(float(scores[y]) - others)
            losses.append(float(torch.logsumexp(scores, 0) - scores[y]))
    assert found["seen"] == pytest.approx(sum(right[True]) / len(right[True]))
    assert found["unseen"] == pytest.approx(sum(right[False]) / len(right[False]))
    norms = math.prod(float(weight.detach().norm()) for weight in net.parameters())
    assert found["margin"] == pytest.approx(min(margins) / norms)
    assert found["log10_loss"] == pytest.approx(math.log10(sum(losses) / len(losses)))


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_noise_has_no_frequency_and_a_cosine_has_one(unit: float) -> None:
    draw = torch.Generator().manual_seed(0)
    noise = unit * torch.randn(200, 31, generator=draw)
    wave = (
        unit * torch.cos(2 * math.pi * 5 * torch.arange(31) / 31 + 0.3)[None] + unit
    )  # a constant does not count
    assert 2 / 30 < frequency_share(noise) < 0.35
    assert frequency_share(wave) == pytest.approx(1.0)


def test_the_two_splits_are_all_pairs_and_share_none() -> None:
    pairs = [modular_addition(p=6, share=0.3, split=split, seed=1).x for split in ("train", "test", "all")]
    assert torch.equal(torch.cat(pairs[:2]), pairs[2])
    assert len(torch.unique(pairs[2], dim=0)) == 36


def test_it_says_what_it_needs() -> None:
    seen = modular_addition(p=5, split="train")
    net = mlp(inputs=10, widths=[], outputs=5, generator=torch.Generator())
    with pytest.raises(InputError, match="split = 'all'"):
        list(LateGeneralisation().about(seen.details)(net, seen.x, seen.y))
    with pytest.raises(InputError, match="needs to know which points were seen: write split = 'all'"):
        LateGeneralisation().about({})
