"""Adversarial training: every step is taken on the worst samples that a few steps of ascent find nearby."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from undertow.core.losses import Loss, loss_gradient
from undertow.core.sections import Count, Positive, Section
from undertow.training.ensemble import Ensemble

__all__ = ["AdversarialTraining", "worst_nearby"]


class AdversarialTraining(Section):
    """Before each step x becomes x + δ, ‖δ‖ ≤ ``eps``, by ``steps`` of ascent on the loss (Madry et al. 2018).

    Args:
        eps: The radius, in the units that the network sees.
        norm: "2" or "inf".
        steps: Steps of ascent from x itself; one of length ``eps`` is the fast gradient method, several are
            2.5 eps/steps long each, as in the paper.
        box: The smallest and the largest valid input; without it inputs are free.
    """

    eps: Positive
    norm: Literal["2", "inf"] = "2"
    steps: Count = 5
    box: tuple[()] | tuple[Annotated[float, Field(strict=True)], Annotated[float, Field(strict=True)]] = ()

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.box and self.box[0] >= self.box[1]:
            raise ValueError(f"box = {list(self.box)} has to be a smaller number and a larger one")
        return self

    @property
    def length(self) -> float:
        """Of one step of ascent."""
        return self.eps if self.steps == 1 else 2.5 * self.eps / self.steps


def worst_nearby(
    how: AdversarialTraining,
    ensemble: Ensemble,
    x: Tensor,
    y: Tensor,
    loss: Loss,
    *,
    own: bool,
    toward: bool = False,
) -> Tensor:
    """Samples (M, B, …) near x, (B, …) or the members' own (M, B, …), with a larger loss for each network.

    Networks are seen in eval mode, as an attacker would; where the loss has no slope a sample stays where it is. With
    ``toward`` the loss falls instead: y are then the labels that an attacker wants to see.
    """
    weights = {name: weight.detach() for name, weight in ensemble.weights.items()}
    centre = x if own else x.expand(ensemble.size, *x.shape)
    here = centre
    for _ in range(how.steps):
        leaf = here.detach().requires_grad_()
        with torch.enable_grad():
            logits = ensemble.outputs(weights, leaf, own=True)
        (slope,) = torch.autograd.grad(logits, leaf, loss_gradient(logits.detach(), y, loss))
        moved = here + (-how.length if toward else how.length) * _steepest(slope, how.norm)
        here = centre + _within(moved - centre, how.eps, how.norm)
        if how.box:
            here = here.clamp(*how.box)
    return here


def _steepest(slope: Tensor, norm: str) -> Tensor:
    if norm == "inf":
        return slope.sign()
    # The loss of a sample that is fitted well has a slope whose square underflows.
    scaled = slope / _per_sample(slope, math.inf)
    return scaled / _per_sample(scaled, 2)


def _within(delta: Tensor, eps: float, norm: str) -> Tensor:
    if norm == "inf":
        return delta.clamp(-eps, eps)
    return delta * (eps / _per_sample(delta, 2)).clamp(max=1.0)


def _per_sample(values: Tensor, order: float) -> Tensor:
    """Norms in a shape that divides ``values`` (M, B, …); 1 where they are 0."""
    norms = torch.linalg.vector_norm(values.flatten(2), order, dim=2)
    positive: Tensor = norms.where(norms > 0, 1.0)
    return positive.view(*norms.shape, *[1] * (values.dim() - 2))
