"""On and off the data manifold: a perturbation split into its part along the data and the rest."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from undertow.core.errors import InputError

__all__ = ["Plane", "off_share", "principal_plane", "tangents"]


@dataclass(frozen=True, eq=False)
class Plane:
    """The affine plane c + span(B): centre c (D,), orthonormal rows B (k, D)."""

    centre: Tensor
    basis: Tensor

    def project(self, x: Tensor) -> Tensor:
        """The nearest point of the plane to every row of x.

        >>> floor = Plane(torch.zeros(2), torch.tensor([[1.0, 0.0]]))
        >>> floor.project(torch.tensor([[3.0, 4.0]]))
        tensor([[3., 0.]])
        """
        return self.centre + (x - self.centre) @ self.basis.T @ self.basis

    @property
    def chance(self) -> float:
        """The share of a random direction's energy that is off the plane: 1 − k/D."""
        k, D = self.basis.shape
        return 1 - k / D


def principal_plane(x: Tensor, *, dimension: int) -> Plane:
    """The plane of the given dimension nearest to the rows of x: their mean and first principal directions.

    >>> line = torch.tensor([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
    >>> principal_plane(line, dimension=1).basis.abs()
    tensor([[1., 0.]])
    """
    rows = x.flatten(1).double()
    if not 1 <= dimension <= min(rows.shape):
        raise InputError(
            f"{tuple(rows.shape)} samples and features have no plane of dimension {dimension}: give 1 to "
            f"{min(rows.shape)}."
        )
    centre = rows.mean(0)
    _, vectors = torch.linalg.eigh((rows - centre).T @ (rows - centre))
    return Plane(centre.to(x), vectors.flip(1)[:, :dimension].T.to(x).contiguous())


def tangents(x: Tensor, data: Tensor, *, dimension: int, neighbours: int) -> Tensor:
    """Local PCA: at every row of x the first principal directions of its nearest points in ``data``, (N, k, D).

    The directions are of the neighbours around their own mean, which need not be x: a picture of the tangent
    space of the data where it is dense enough, and no more than that where it is not.

    >>> circle = torch.stack([torch.linspace(0, 6.28, 400).cos(), torch.linspace(0, 6.28, 400).sin()], 1)
    >>> at = tangents(torch.tensor([[1.0, 0.0]]), circle, dimension=1, neighbours=9)
    >>> [round(abs(v), 1) for v in at.flatten().tolist()]
    [0.0, 1.0]
    """
    if not 1 <= dimension < neighbours <= len(data):
        raise InputError(
            f"local PCA wants dimension {dimension} < neighbours {neighbours} ≤ {len(data)} samples: it needs more "
            "neighbours than directions."
        )
    points, rows = x.flatten(1).double(), data.flatten(1).double()
    found = []
    for part in torch.split(points, 256):
        near = rows[torch.cdist(part, rows).topk(neighbours, largest=False).indices]
        around = near - near.mean(1, keepdim=True)
        # Right singular vectors, from the left ones: (B, neighbours, D) has few rows, and a small Gram matrix.
        _, left = torch.linalg.eigh(around @ around.mT)
        along = left.flip(2)[:, :, :dimension].mT @ around
        found.append(torch.linalg.qr(along.mT).Q.mT)
    return torch.cat(found).to(x)


def off_share(delta: Tensor, basis: Tensor) -> Tensor:
    """‖δ − BᵀBδ‖²/‖δ‖² of every row: the share of its energy that leaves span(B), B (k, D) or (N, k, D).

    >>> off_share(torch.tensor([[3.0, 4.0]]), torch.tensor([[1.0, 0.0]])).item()     # 16/25
    0.64
    """
    rows = delta.flatten(1).double()
    B = basis.double().expand(len(rows), *basis.shape[-2:])
    along = torch.einsum("nkd,nd->nk", B, rows).square().sum(1)
    whole = rows.square().sum(1)
    if not bool((whole > 0).all()):
        raise InputError(
            "a perturbation is zero and has no direction: leave out points that are errors already."
        )
    return (1 - along / whole).clamp(0.0, 1.0)
