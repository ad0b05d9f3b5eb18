"""The hard-margin support vector machine, and how far from it a linear network points (Soudry et al. 2018)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from undertow.core.errors import InputError, ModelError
from undertow.core.scoring import double_copy
from undertow.core.sections import Switch
from undertow.measures.kkt import kkt
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading, labels_for
from undertow.measures.weight_direction import directional_distance
from undertow.theory.max_margin import margin_rows, max_margin

__all__ = ["HardMargin", "SupportVectorMachine", "effective_weight", "hard_margin"]


@dataclass(frozen=True, eq=False)
class SupportVectorMachine:
    """w, its multipliers λ ≥ 0 with w = Σ λ_i y_i x_i, and the margin 1/‖w‖."""

    weight: Tensor
    multipliers: Tensor
    margin: float


def hard_margin(x: Tensor, y: Tensor) -> SupportVectorMachine:
    """argmin ‖w‖ such that y_i ⟨w, x_i⟩ ≥ 1, without an intercept, exact up to rounding.

    Of the largest margin γ, its unit direction and its shares (``max_margin``): w = direction/γ, λ = shares/γ². x is
    (N, d) and y the labels, 0/1 or ±1.

    >>> found = hard_margin(torch.tensor([[1.0, 0.0], [0.0, 2.0], [-5.0, -5.0]]), torch.tensor([1, 1, 0]))
    >>> [round(v, 6) for v in found.weight.tolist()], [round(v, 6) for v in found.multipliers.tolist()]
    ([1.0, 0.5], [1.0, 0.25, 0.0])
    """
    rows = margin_rows(x, y)
    try:
        best = max_margin(rows)
    except InputError:
        raise InputError(
            "no plane through the origin separates the points: there is no hard-margin classifier."
        ) from None
    return SupportVectorMachine(
        best.direction / best.value, best.multipliers / (best.value * best.upper), best.value
    )


def effective_weight(net: nn.Module, x: Tensor) -> Tensor:
    """w with f(x) = ⟨w, x⟩, from the values at the unit vectors; a ``ModelError`` where f is not that on the points.

    >>> net = nn.Linear(2, 1, bias=False)
    >>> bool(torch.equal(effective_weight(net, torch.ones(1, 2)).float(), net.weight[0].detach()))
    True
    """
    copied, points = double_copy(net), x.detach().double().flatten(1)
    with torch.no_grad():
        weight: Tensor = copied(torch.eye(points.shape[1]).to(points)).flatten()
        value = copied(points).flatten()
    if len(value) != len(points) or len(weight) != points.shape[1]:
        raise ModelError("a direction is compared with a support vector machine's where there is one logit.")
    size = float((points.norm(dim=1) * weight.norm()).max())
    if float((value - points @ weight).abs().max()) > 1e-6 * size:
        raise ModelError("the network is not linear in x, or has a bias: it has no one direction to compare.")
    return weight


class HardMargin(NamedMeasure):
    """A linear network beside the hard-margin support vector machine of the probe's points, those trained on.

    Readings: ``angle`` between both, in radians; ``share``, the network's margin relative to the largest one;
    with ``duals``, that of the network's KKT multipliers from the machine's, relative (one layer, all points
    classified). In the plane also where both point to, ``heading`` and ``svm-heading`` in radians.
    """

    name: ClassVar[str] = "hard-margin"
    duals: Switch = False

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        labels = labels_for(self, y)
        best, weight = hard_margin(x, labels), effective_weight(net, x).cpu()
        yield "angle", directional_distance({"w": weight}, {"w": best.weight}), None
        signs = torch.where(labels.cpu() > 0, 1.0, -1.0).double()
        margins = signs * (x.detach().double().cpu().flatten(1) @ weight)
        yield "share", float(margins.min() / weight.norm()) / best.margin, None
        if self.duals and float(margins.min()) > 0:
            found = kkt(net, x, labels).multipliers.cpu()
            yield "duals", float((found - best.multipliers).norm() / best.multipliers.norm()), None
        if len(weight) == 2:
            yield "heading", math.atan2(float(weight[1]), float(weight[0])), None
            yield "svm-heading", math.atan2(float(best.weight[1]), float(best.weight[0])), None
