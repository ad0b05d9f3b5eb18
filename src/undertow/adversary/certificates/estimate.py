"""A first-order estimate of the radius: what the margin and its gradients suggest, and nothing proves."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from undertow.adversary.attacks.objectives import gradient
from undertow.adversary.attacks.search import Search, random_direction
from undertow.adversary.geometry import dual_lengths, lengths
from undertow.adversary.scorer import margins_of

__all__ = ["estimated_radii"]


def estimated_radii(search: Search, *, points: int = 32) -> tuple[Tensor, Tensor]:
    """q(x) / max ‖∇q‖_dual over points drawn in a ball, and that steepest slope: (M, N) each.

    R(x) ≥ q(x)/β where β bounds the gradient of the margin in the whole ball; the largest of finitely many
    gradients may be smaller, so the estimate may be too large. The ball is that of the radius q(x)/‖∇q(x)‖, at
    which a linear margin would vanish. 0 for errors, inf where no gradient was found.

    >>> from undertow.adversary.classifier import Classifier
    >>> from undertow.adversary.attacks.search import begin
    >>> x, y = torch.tensor([[1.0, 1.0]]), torch.tensor([1])
    >>> with Classifier(lambda x: x @ torch.tensor([[3.0], [4.0]])).scoring(x, y) as scorer:
    ...     estimated_radii(begin(scorer, x, y, norm=2.0, seed=0))[0]
    tensor([[1.4000]], dtype=torch.float64)
    """
    margin = search.margin.clamp(min=0).double()

    def slopes(at: Tensor) -> Tensor:
        """(M, R, N, d) → (M, N), the steepest of each sample's R points."""
        labels = search.y.repeat(at.shape[1])
        _, _, slope = gradient(search.scorer, at.flatten(1, 2), lambda scores: margins_of(scores, labels))
        return dual_lengths(slope.double(), search.norm).reshape(at.shape[:3]).amax(1)

    clean = search.x.expand(search.example.shape)
    steepest = slopes(clean.unsqueeze(1))
    scale = lengths(search.x, search.norm).expand_as(margin)
    radius = torch.where(steepest > 0, margin / torch.where(steepest > 0, steepest, 1.0), scale)
    ball = radius.to(clean)[:, None, :, None]
    together = max(1, search.chunk // max(1, len(search.y)))  # few samples: one pass
    for some in torch.split(torch.arange(1, points), together):
        noise = [
            random_direction(search, "estimate", point) * (point / (points - 1)) for point in some.tolist()
        ]
        steepest = torch.maximum(steepest, slopes(clean.unsqueeze(1) + ball * torch.stack(noise)))
    found = torch.where(steepest > 0, margin / torch.where(steepest > 0, steepest, 1.0), math.inf)
    return torch.where(search.margin > 0, found, 0.0), steepest
