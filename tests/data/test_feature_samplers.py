"""Clusters on axes, slabs, and vertices with arbitrary labels: what their docstrings promise, on many points."""

from __future__ import annotations

import pytest
import torch

from undertow.core.errors import InputError
from undertow.data.axis_clusters import axis_clusters
from undertow.data.lower_bound import lower_bound
from undertow.data.slabs import slabs


def test_axis_clusters_are_clusters_on_axes() -> None:
    data = axis_clusters(n=4000, d=12, k=5, positive=3, sigma=0.5, norm=2.0, ambient=20)
    cluster, centres = data.details["cluster"], data.details["centres"]
    assert data.x.shape == (4000, 20)
    assert torch.equal(centres, 2.0 * torch.eye(5, 20))
    assert torch.equal(data.y, (cluster < 3).long())
    assert bool((data.x[:, 12:] == 0).all())
    assert torch.allclose(data.x - centres[cluster], data.details["noise"], atol=1e-6)
    assert data.details["noise"][:, :12].std() == pytest.approx(0.5, rel=0.02)
    assert not torch.equal(data.x[:10], axis_clusters(n=10, d=12, k=5, sigma=0.5, ambient=20, seed=1).x)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"d": 3, "k": 4}, "raise d"),
        ({"d": 5, "k": 2, "ambient": 4}, "ambient"),
        ({"d": 5, "k": 2, "positive": 2}, "neg"),
    ],
)
def test_impossible_clusters_are_told(options: dict[str, int], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        axis_clusters(n=5, **options)


@pytest.mark.parametrize("pieces", [3, 5, 7])
def test_every_slab_coordinate_separates_with_its_margin_and_none_is_linear(pieces: int) -> None:
    margin = 0.05
    data = slabs(n=4000, d=4, pieces=pieces, margin=margin, seed=3)
    signs = 2.0 * data.y - 1
    assert (signs * data.x[:, 0]).min() >= margin
    assert data.x.abs().max() <= 1 + 1e-6
    for coordinate in data.x[:, 1:].T:
        # Between neighbours of different labels there is a gap of 2γ, and there are ``pieces`` runs of one label.
        order = coordinate.argsort()
        steps, changes = coordinate[order].diff(), data.y[order].diff() != 0
        assert int(changes.sum()) == pieces - 1
        assert steps[changes].min() >= 2 * margin - 1e-6
        assert abs(float((coordinate * signs).mean())) < 0.05


def test_slabs_refuse_what_a_linear_model_would_see() -> None:
    with pytest.raises(InputError, match="even"):
        slabs(n=5, pieces=4)
    with pytest.raises(InputError, match="margin"):
        slabs(n=5, pieces=5, margin=0.3)


def test_vertices_are_distinct_and_their_labels_no_linear_function() -> None:
    data = lower_bound(n=3000, corners=400, d=12, margin=0.05, seed=2)
    corners = data.details["corners"]
    assert len(torch.unique(corners[:, :-1], dim=0)) == 400
    assert torch.equal(data.x, corners[data.details["corner"]])
    assert set(torch.bincount(data.details["corner"], minlength=400).tolist()) == {7, 8}
    distance = torch.cdist(corners, corners) + 10 * torch.eye(400)
    assert distance.min() >= 2.0
    labels = corners[:, -1].sign()
    rows = torch.cat([corners[:, :-1], torch.ones(400, 1)], dim=1).double()
    fit = rows @ torch.linalg.lstsq(rows, labels.double()[:, None]).solution
    assert float((fit[:, 0].sign() == labels).double().mean()) < 0.75
    again = lower_bound(n=50, corners=400, d=12, margin=0.05, seed=9, corner_seed=2)
    assert torch.equal(again.details["corners"], corners)
    assert not torch.equal(again.details["corner"], data.details["corner"][:50])
    with pytest.raises(InputError, match="raise d"):
        lower_bound(n=5, corners=400, d=9, margin=0.05)
