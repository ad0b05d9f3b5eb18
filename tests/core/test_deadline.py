"""A deadline may pass at any operation of torch: what measures change in passing is put back nevertheless."""

from __future__ import annotations

import importlib

import pytest
import torch
from torch import Tensor, nn

import undertow as ut
from undertow.core.deadline import Deadline, TimeUp

place = importlib.import_module("undertow.core.deadline")


class Counting(nn.Module):
    """Moves a buffer at every pass."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.register_buffer("passes", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.get_buffer("passes").add_(1)
        return torch.tanh(self.layer(x))


def test_time_that_is_up_at_any_operation_leaves_gradients_on_and_buffers_as_they_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, last = 0, 10**9

    def clock() -> float:
        nonlocal asked
        asked += 1
        return 100.0 if asked > last else 0.0

    monkeypatch.setattr(place.time, "perf_counter", clock)
    net, x = Counting().eval(), torch.randn(4, 3)
    with Deadline(50.0):
        ut.jacobian_norms(net, x)
    whole, ended = asked, 0
    for last in range(1, whole):
        asked = 0
        try:
            with Deadline(50.0):
                ut.jacobian_norms(net, x)
        except TimeUp:
            ended += 1
        assert torch.is_grad_enabled(), last
        assert float(net.get_buffer("passes")) == 0, last
    assert ended > whole // 2


def test_no_time_passes_while_gradients_are_switched(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(place.time, "perf_counter", lambda: now)
    with Deadline(50.0) as limit:
        with torch.no_grad():
            now = 100.0
        assert torch.is_grad_enabled()
        with pytest.raises(TimeUp):
            torch.ones(1) + 1
    assert limit.passed
