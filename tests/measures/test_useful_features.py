"""Useful features: closed forms on D_binary, and the worst perturbation searched for."""

from __future__ import annotations

import math

import pytest
import torch

from undertow.core.errors import InputError
from undertow.data.clusters import d_binary
from undertow.measures.useful_features import UsefulFeatures, usefulness
from undertow.models.grouped_centres import grouped_network


@pytest.mark.parametrize("k", [4, 10])
def test_closed_forms_of_centres_and_their_average(k: int) -> None:
    """E[y f]/√d: 1/k and 1/√k over all points, 1 and 1/√k given the own cluster; each loses ε exactly."""
    n, d, eps = 4000, 400, 0.75
    data = d_binary(n=n, d=d, k=k, seed=1)
    centres, signs = data.details["centres"], data.details["cluster_sign"]
    net = grouped_network(centres, signs, group=k // 2)
    found = {key: value for key, value, _ in UsefulFeatures(eps=eps).about(data.details)(net, data.x, data.y)}
    expected = {"centre:all": 1 / k, "average:all": k**-0.5, "centre:own": 1.0, "average:own": k**-0.5}
    error = 4 / (d * n / k) ** 0.5 + 4 / n**0.5 * k**-0.5  # of the noise, and of the share that a cluster has
    for key, value in expected.items():
        assert found[f"{key}:useful"] == pytest.approx(value, abs=error), key
        assert found[f"{key}:robust"] == pytest.approx(found[f"{key}:useful"] - eps, abs=1e-9)
    # its neurons are the averages of a class: √(2/k) given the class, half of that over all points
    assert found["neuron:own:useful"] == pytest.approx(math.sqrt(2 / k), abs=error)
    assert found["neuron:all:useful"] == pytest.approx(math.sqrt(2 / k) / 2, abs=2 * error)


def test_no_perturbation_found_by_search_is_worse() -> None:
    draw = torch.Generator().manual_seed(0)
    w, x = torch.randn(6, generator=draw), torch.randn(40, 6, generator=draw)
    sign = torch.where(torch.rand(40, generator=draw) < 0.5, -1, 1)
    useful, robust = usefulness(w, x, sign, eps=0.3)
    delta = torch.nn.functional.normalize(torch.randn(2000, 40, 6, generator=draw), dim=2) * 0.3
    values = sign * ((x + delta) @ (w / w.norm()))
    assert robust <= float(values.amin(0).mean()) + 1e-6
    assert float(values.amin(0).mean()) < robust + 0.1
    assert useful == pytest.approx(float((sign * (x @ (w / w.norm()))).mean()), abs=1e-6)


def test_it_asks_for_the_clusters() -> None:
    with pytest.raises(InputError, match="clusters"):
        list(UsefulFeatures()(torch.nn.Linear(2, 1), torch.ones(1, 2), torch.tensor([1])))
