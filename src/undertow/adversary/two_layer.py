"""The margins of a two-layer network with ReLU or leaky ReLU, as numbers an exact solver can work with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from undertow.adversary.layers import Affine, Kink, Stage

__all__ = ["Distance", "Gap", "TwoLayer", "two_layer_of"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Distance:
    """A radius between ``lower`` and ``upper``; ``status`` is "exact", "time-limit" or "none-found"."""

    lower: float
    upper: float
    status: str


@dataclass(frozen=True, eq=False)
class TwoLayer:
    """s(x) = V max(h, slope·h) + c with h = W x + b."""

    weight: Array
    bias: Array
    head: Array
    shift: Array
    slope: float

    def gap(self, x: Array, label: int, target: int) -> Gap:
        """s_label − s_target, up to a positive factor, as a function of the perturbation of x.

        max(h, s·h) is positively homogeneous, so each neuron is given a weight of length 1, and the largest
        entry of the head is 1 too: the solvers' absolute tolerances then mean the same for every network.
        """
        length = np.linalg.norm(self.weight, axis=1)
        length = np.where(length > 0, length, 1.0)
        head = (self.head[label] - self.head[target]) * length
        factor = max(float(np.abs(head).max()), 1e-300)
        shift = float(self.shift[label] - self.shift[target])
        weight = self.weight / length[:, None]
        hidden = (self.weight @ x + self.bias) / length
        return Gap(hidden=hidden, weight=weight, head=head / factor, shift=shift / factor, slope=self.slope)


@dataclass(frozen=True, eq=False)
class Gap:
    """g(δ) = shift + Σ_j head_j · max(h_j, slope·h_j), h = hidden + weight·δ."""

    hidden: Array
    weight: Array
    head: Array
    shift: float
    slope: float

    def __call__(self, delta: Array) -> float:
        h = self.hidden + self.weight @ delta
        return float(self.shift + self.head @ np.maximum(h, self.slope * h))

    def limits(self, radius: float, norm: float) -> tuple[Array, Array]:
        """Lower and upper limits of every h_j in the ball."""
        dual = np.abs(self.weight).sum(1) if norm == np.inf else np.linalg.norm(self.weight, axis=1)
        return self.hidden - radius * dual, self.hidden + radius * dual


def two_layer_of(stages: list[Stage], sample: Tensor) -> TwoLayer | None:
    """The two-layer form of a chain with at most one activation, on inputs like ``sample`` (1, …).

    None for deeper chains. A chain without activation is a two-layer network of slope 1.
    """
    kinks = [index for index, stage in enumerate(stages) if isinstance(stage, Kink)]
    if len(kinks) > 1:
        return None
    cut = kinks[0] if kinks else len(stages)
    inner = _matrix(stages[:cut], sample.double())
    hidden = torch.zeros(1, len(inner[1]), dtype=torch.float64, device=sample.device)
    for stage in stages[:cut]:
        assert isinstance(stage, Affine)
        sample = stage.apply(sample.double())
    outer = _matrix(stages[cut + 1 :], sample.double()) if kinks else _matrix([], hidden)
    kink = stages[cut] if kinks else None
    return TwoLayer(*inner, *outer, slope=kink.slope if isinstance(kink, Kink) else 1.0)


def _matrix(stages: list[Stage], sample: Tensor) -> tuple[Array, Array]:
    """The matrix and the bias, on flat features, of consecutive affine stages."""
    shapes, value = [], sample
    with torch.no_grad():
        for stage in stages:
            assert isinstance(stage, Affine)
            shapes.append(value.shape[1:])
            value = stage.apply(value)
    size = value[0].numel()
    rows = torch.eye(size, dtype=torch.float64, device=sample.device).reshape(size, *value.shape[1:])
    bias = torch.zeros(size, dtype=torch.float64, device=sample.device)
    for stage, shape in zip(reversed(stages), reversed(shapes), strict=True):
        assert isinstance(stage, Affine)
        rows, shift = stage.transposed(rows, shape)
        bias = bias + shift
    return rows.flatten(1).cpu().numpy(), bias.cpu().numpy()
