"""The largest margin of networks whose neurons look at one coordinate each: a rival that is solved for, not trained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import torch
from scipy.optimize import linprog
from torch import Tensor, nn

from undertow.core.errors import InputError
from undertow.core.sections import Count
from undertow.measures.margins import margins
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading, labels_for

__all__ = ["CoordinateMargin", "coordinate_network"]

_USED = 1e-9


def coordinate_network(x: Tensor, y: Tensor, *, thresholds: int = 21) -> nn.Sequential:
    """f(x) = Σ_j a_j relu(±x_i − b_j) + a_0 relu(b_0) with the largest q_min/‖θ‖² there is, b_j on a grid.

    A neuron a relu(⟨w, x⟩ + b) that is balanced, |a| = ‖(w, b)‖, adds 2|a|‖(w, b)‖ to ‖θ‖². So with neurons of
    ‖(w, b)‖ = 1 and coefficients c_j this is the linear program max t such that y f(x_n) ≥ t and Σ|c_j| ≤ 1, and
    q_min/‖θ‖² = t/2. Slab data (Shah et al. 2020) are separated by every coordinate, and better by all of them.

    >>> net = coordinate_network(torch.tensor([[-1.0], [0.0], [1.0]]), torch.tensor([0, 1, 0]), thresholds=3)
    >>> [round(float(value), 6) for value in net(torch.tensor([[-1.0], [0.0], [1.0]]).double())[:, 0]]
    [-0.2, 0.2, -0.2]
    """
    rows, signs = x.detach().double().cpu().numpy(), np.where(y.cpu().numpy() > 0, 1.0, -1.0)
    if len(np.unique(signs)) < 2:
        raise InputError("all points are of one class: there is no margin between two.")
    weights, biases = _neurons(rows, thresholds)
    values = np.maximum(rows @ weights.T + biases, 0.0) * signs[:, None]
    points, neurons = values.shape
    goal = np.zeros(2 * neurons + 1)
    goal[-1] = -1.0
    above = np.hstack([-values, values, np.ones((points, 1))])
    size = np.append(np.ones(2 * neurons), 0.0)
    solved = linprog(
        goal,
        A_ub=np.vstack([above, size]),
        b_ub=np.append(np.zeros(points), 1.0),
        bounds=[(0, None)] * (2 * neurons) + [(None, None)],
    )
    coefficients = solved.x[:neurons] - solved.x[neurons:-1]
    used = np.abs(coefficients) > _USED
    root = np.sqrt(np.abs(coefficients[used]))
    return _two_layer(weights[used] * root[:, None], biases[used] * root, np.sign(coefficients[used]) * root)


def _neurons(rows: np.ndarray, thresholds: int) -> tuple[np.ndarray, np.ndarray]:
    """relu(±x_i − b) for b on a grid over all coordinates, and relu(1): (J, d) and (J,), each of length 1 together."""
    d = rows.shape[1]
    grid = np.linspace(rows.min(), rows.max(), thresholds)
    axes = np.vstack([np.eye(d), -np.eye(d)])
    weights = np.repeat(axes, thresholds, axis=0)
    biases = np.tile(-grid, 2 * d)
    lengths = np.hypot(1.0, biases)
    return np.vstack([weights / lengths[:, None], np.zeros((1, d))]), np.append(biases / lengths, 1.0)


def _two_layer(hidden: np.ndarray, bias: np.ndarray, output: np.ndarray) -> nn.Sequential:
    first = nn.Linear(hidden.shape[1], len(hidden), dtype=torch.float64)
    last = nn.Linear(len(hidden), 1, bias=False, dtype=torch.float64)
    for parameter, value in ((first.weight, hidden), (first.bias, bias), (last.weight, output[None])):
        parameter.data = torch.from_numpy(value)
    return nn.Sequential(first, nn.ReLU(), last).requires_grad_(False).eval()


class CoordinateMargin(NamedMeasure):
    """The normalised margin of the best network with neurons of one coordinate each, on the probe's points.

    Whatever network is measured: it is the rival's number, ``normalised`` = q_min/ρ², and how many ``neurons`` it has.
    """

    name: ClassVar[str] = "coordinate-margin"
    thresholds: Count = 21

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        labels = labels_for(self, y)
        rival = coordinate_network(x, labels, thresholds=self.thresholds)
        yield "normalised", margins(rival, x.double().cpu(), labels.cpu()).normalised, None
        yield "neurons", float(rival.get_parameter("0.bias").numel()), None
