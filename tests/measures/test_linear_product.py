"""The rank of a linear network from end to end."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from undertow.core.errors import ModelError
from undertow.measures.linear_product import LinearProduct
from undertow.models import mlp


def test_as_what_the_network_does_to_unit_vectors() -> None:
    generator = torch.Generator().manual_seed(0)
    net = mlp(
        inputs=6, widths=[5, 4], outputs=3, activation="linear", bias=True, generator=generator
    ).double()
    with torch.no_grad():
        image = net(torch.eye(6).double()) - net(torch.zeros(1, 6).double())
    values = torch.linalg.svdvals(image)
    share = values / values.sum()
    read = {key: value for key, value, _ in LinearProduct(count=3)(net, torch.ones(1, 6).double(), None)}
    assert read["rank"] == pytest.approx(float((-share * share.log()).sum().exp()))
    assert read["stable-rank"] == pytest.approx(float((values**2).sum() / values[0] ** 2))
    assert [read[f"sigma:{place}"] for place in range(3)] == pytest.approx(values.tolist())


def test_a_network_that_bends_is_refused() -> None:
    bent = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2))
    with pytest.raises(ModelError, match='activation = "linear"'):
        list(LinearProduct()(bent, torch.ones(1, 3), None))
    with pytest.raises(ModelError, match="chain of linear layers"):
        list(LinearProduct()(nn.Conv1d(1, 1, 1), torch.ones(1, 1, 3), None))
