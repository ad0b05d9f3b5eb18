"""The margins of a two-layer network with ReLU or leaky ReLU, as numbers an exact solver can work with."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from undertow.adversary.certificates.carried_rows import affine_rows
from undertow.adversary.certificates.network_graph import NetworkGraph
from undertow.adversary.certificates.operations import AffineMap, CurveOf, InputValue, Operation

__all__ = ["ExactDistance", "Gap", "TwoLayer", "dual_norms", "two_layer_of"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ExactDistance:
    """A radius between ``lower`` and ``upper``; ``status`` is "exact", "time-limit" or "none-found".

    ``delta`` is a perturbation of that size, where one was found.
    """

    lower: float
    upper: float
    status: str
    delta: Array | None = None


@dataclass(frozen=True, eq=False)
class TwoLayer:
    """s(x) − s_0(x) = V max(h, slope·h) + c with h = W x + b.

    What all classes have in common is left out before anything is added up: a bias of 10¹² on every score changes no
    decision, and would cost twelve digits. ``hidden`` computes h layer by layer, in float64.
    """

    weight: Array
    hidden: Callable[[Array], Array]
    head: Array
    shift: Array
    slope: float

    def gap(self, x: Array, label: int, target: int) -> Gap:
        """s_label − s_target, up to a positive factor, as a function of the perturbation of x.

        max(h, s·h) is positively homogeneous, so each neuron can be given a weight of length 1.
        """
        length = np.linalg.norm(self.weight, axis=1)
        length = np.where(length > 0, length, 1.0)
        head = (self.head[label] - self.head[target]) * length
        hidden = self.hidden(x) / length
        terms = head * np.maximum(hidden, self.slope * hidden)
        level = math.fsum([*terms, self.shift[label], -self.shift[target]])
        normal = np.zeros(self.weight.shape[1])
        return Gap(level, normal, hidden, self.weight / length[:, None], head, self.slope)


@dataclass(frozen=True, eq=False)
class Gap:
    """g(δ) = level + normal·δ + Σ_j head_j (act(h_j + w_j·δ) − act(h_j)), act(h) = max(h, slope·h)."""

    level: float
    normal: Array
    hidden: Array
    weight: Array
    head: Array
    slope: float

    def __call__(self, delta: Array) -> float:
        moved = self.act(self.hidden + self.weight @ delta) - self.act(self.hidden)
        return float(self.level + self.normal @ delta + self.head @ moved)

    def act(self, h: Array) -> Array:
        return np.maximum(h, self.slope * h)

    def limits(self, radius: float, norm: float) -> tuple[Array, Array]:
        """Lower and upper limits of every h_j in the ball."""
        spread = radius * dual_norms(self.weight, norm)
        return self.hidden - spread, self.hidden + spread

    def within(self, radius: float, norm: float) -> Gap:
        """The same function on the ball of this radius, in its units: of δ/radius, and divided by the level.

        Neurons that cannot switch in the ball are part of ``normal``; of the others |h_j| ≤ ‖w_j‖_dual. Solvers have
        absolute tolerances: in these numbers, all of which are about 1, they mean the same in every unit of the input
        and of the logits.
        """
        lower, upper = self.limits(radius, norm)
        open_ended = (lower < 0) & (upper > 0) & (self.head != 0) & (self.slope != 1)
        slopes = np.where(self.hidden > 0, 1.0, self.slope)
        normal = self.normal + (self.head * slopes)[~open_ended] @ self.weight[~open_ended]
        factor = radius / self.level
        return Gap(
            level=1.0,
            normal=normal * factor,
            hidden=self.hidden[open_ended] / radius,
            weight=self.weight[open_ended],
            head=self.head[open_ended] * factor,
            slope=self.slope,
        )


def dual_norms(rows: Array, norm: float) -> Array:
    """The largest change that a perturbation of norm 1 can make to each row·δ."""
    if norm == 2:
        return np.asarray(np.linalg.norm(rows, axis=-1))
    return np.asarray(np.abs(rows).sum(-1) if norm == math.inf else np.abs(rows).max(-1))


def two_layer_of(graph: NetworkGraph, sample: Tensor) -> TwoLayer | None:
    """The two-layer form of a graph with at most one activation, on inputs like ``sample`` (1, …).

    None for deeper graphs, for activations other than max(h, s·h) with 0 ≤ s < 1, and where the input also goes past
    the activation. A graph without activation is a two-layer network of slope 1.
    """
    bends = [
        index
        for index, operation in enumerate(graph.operations)
        if not isinstance(operation, InputValue | AffineMap)
    ]
    eye = torch.eye(graph.classes, dtype=torch.float64, device=sample.device)
    rows = (eye - eye[:1]).reshape(graph.classes, *graph.operations[graph.output].shape)
    if not bends:
        weight, bias = affine_rows(graph, rows, graph.output, 0)
        matrix, offset = weight.flatten(1).cpu().numpy(), bias.cpu().numpy()
        nothing = np.zeros(len(offset))
        return TwoLayer(matrix, lambda x: matrix @ x + offset, np.eye(len(offset)), nothing, slope=1.0)
    slope = _kink_slope(graph.operations[bends[0]])
    if len(bends) > 1 or slope is None or graph.reaches(0, graph.output, without=bends[0]):
        return None
    source = graph.operations[bends[0]].inputs[0]

    def hidden(x: Array) -> Array:
        value = torch.as_tensor(x, dtype=torch.float64, device=sample.device).reshape(sample.shape)
        return np.asarray(graph.values(value)[source].flatten().cpu().numpy())

    shape = graph.operations[source].shape
    size = math.prod(shape)
    each = torch.eye(size, dtype=torch.float64, device=sample.device).reshape(size, *shape)
    weight, _ = affine_rows(graph, each, source, 0)
    head, shift = affine_rows(graph, rows, graph.output, bends[0])
    return TwoLayer(
        weight.flatten(1).cpu().numpy(),
        hidden,
        head.flatten(1).cpu().numpy(),
        shift.cpu().numpy(),
        slope=slope,
    )


def _kink_slope(operation: Operation) -> float | None:
    if not isinstance(operation, CurveOf) or not operation.curve.homogeneous:
        return None
    assert operation.curve.ends is not None
    left, right = operation.curve.ends[0]
    slope = float(left.flatten()[0])
    same = bool((left == slope).all()) and bool((right == 1).all())
    return slope if same and 0 <= slope < 1 else None
