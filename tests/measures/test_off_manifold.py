"""Splitting perturbations by a plane, against projections written out."""

from __future__ import annotations

import pytest
import torch

from undertow.core.errors import InputError
from undertow.measures.off_manifold import Plane, off_share, principal_plane, tangents


def gaussian(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_share_is_that_of_a_projection_matrix() -> None:
    basis = torch.linalg.qr(gaussian(10, 4)).Q.T
    delta = gaussian(6, 10, seed=1)
    outside = delta @ (torch.eye(10).double() - basis.T @ basis)
    oracle = outside.square().sum(1) / delta.square().sum(1)
    assert torch.allclose(off_share(delta, basis), oracle)
    assert torch.allclose(off_share(delta, basis.expand(6, 4, 10)), oracle)
    assert torch.allclose(off_share(7 * delta, basis), oracle)


def test_random_directions_have_the_share_of_chance() -> None:
    plane = Plane(torch.zeros(40).double(), torch.linalg.qr(gaussian(40, 10)).Q.T)
    assert float(off_share(gaussian(4000, 40), plane.basis).mean()) == pytest.approx(plane.chance, abs=0.005)


def test_the_principal_plane_is_that_of_the_singular_vectors() -> None:
    x = gaussian(50, 8) * torch.arange(8, 0, -1) + 3.0
    plane = principal_plane(x, dimension=3)
    vectors = torch.linalg.svd(x - x.mean(0)).Vh[:3]
    assert torch.allclose(plane.basis.T @ plane.basis, vectors.T @ vectors, atol=1e-9)
    projected = plane.project(x)
    assert torch.allclose(plane.project(projected), projected)
    assert float((x - projected).square().sum()) == pytest.approx(
        float(torch.linalg.svdvals(x - x.mean(0))[3:].square().sum())
    )
    with pytest.raises(InputError, match="dimension 9"):
        principal_plane(x, dimension=9)


def test_tangents_of_a_sphere_are_across_its_radius() -> None:
    sphere = torch.nn.functional.normalize(gaussian(3000, 3), dim=1)
    at = sphere[:20]
    found = tangents(at, sphere, dimension=2, neighbours=20)
    assert float(torch.einsum("nkd,nd->nk", found, at).abs().max()) < 0.15
    assert float(off_share(at, found).min()) > 0.95
    with pytest.raises(InputError, match="more"):
        tangents(at, sphere, dimension=4, neighbours=4)
    with pytest.raises(InputError, match="zero"):
        off_share(torch.zeros(1, 3), torch.eye(3)[:1])


def test_tangents_are_the_first_singular_vectors_of_the_neighbours() -> None:
    data, at = gaussian(60, 9) * torch.arange(9, 0, -1), gaussian(4, 9, seed=1)
    found = tangents(at, data, dimension=3, neighbours=12)
    for point, basis in zip(at, found, strict=True):
        near = data[(data - point).norm(dim=1).argsort()[:12]]
        vectors = torch.linalg.svd(near - near.mean(0)).Vh[:3]
        assert torch.allclose(basis.T @ basis, vectors.T @ vectors, atol=1e-9)
        assert torch.allclose(basis @ basis.T, torch.eye(3).double(), atol=1e-12)
