"""Certified radii by linear bounds that travel backward through the layers (CROWN, Zhang et al. 2018).

Over a ball around x every activation max(h, s·h) with l ≤ h ≤ u lies between two lines; replacing it by
them, from the scores back to the input, bounds each score difference from below by A·x' + c on the ball,
whose minimum is A·x + c − ε‖A‖_dual. Everything is in float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from undertow.adversary.geometry import steepest
from undertow.adversary.layers import Affine, Kink, Stage

__all__ = ["certified_radii", "gap_bounds", "weakest_directions"]

_CHUNK = 2**22  # float64 entries of one array of backward rows: 32 MiB


def gap_bounds(stages: list[Stage], x: Tensor, y: Tensor, eps: Tensor, norm: float) -> Tensor:
    """Lower bounds (B, k) of s_y − s_t over the ball of radius ε_i around x_i; +inf at t = y.

    >>> linear = Affine(torch.nn.Identity(), torch.tensor([[0.0, 0.0], [3.0, 4.0]]).double())
    >>> x, y, eps = torch.tensor([[1.0, 1.0]]), torch.tensor([1]), torch.tensor([1.0])
    >>> gap_bounds([linear], x, y, eps, 2.0)  # 3 + 4 − 5
    tensor([[2., inf]], dtype=torch.float64)
    """
    return _gaps(_Limits(stages, x[:1].double(), norm), x.double(), y, eps.double())


def weakest_directions(stages: list[Stage], x: Tensor, y: Tensor, eps: Tensor, norm: float) -> Tensor:
    """Directions of unit norm (B, d): x_i + ε_i·direction is where the smallest linear bound on the ball is smallest.

    The true score difference need not be small there. But unlike a gradient the bound knows of neurons that are off
    at x and can come on within the ball.

    >>> linear = Affine(torch.nn.Identity(), torch.tensor([[0.0, 0.0], [3.0, 4.0]]).double())
    >>> x, y, eps = torch.tensor([[1.0, 1.0]]), torch.tensor([1]), torch.tensor([1.0])
    >>> weakest_directions([linear], x, y, eps, 2.0)
    tensor([[-0.6000, -0.8000]], dtype=torch.float64)
    """
    limits = _Limits(stages, x[:1].double(), norm)
    found = []
    for lower, rows in _linear_gaps(limits, x.double(), y, eps.double()):
        found.append(-steepest(rows[torch.arange(len(rows), device=rows.device), lower.argmin(1)], norm))
    return torch.cat(found)


def _gaps(limits: _Limits, x: Tensor, y: Tensor, eps: Tensor) -> Tensor:
    return torch.cat([lower for lower, _ in _linear_gaps(limits, x, y, eps)])


def _linear_gaps(limits: _Limits, x: Tensor, y: Tensor, eps: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Part by part, the bounds of ``gap_bounds`` and the rows (b, k, d) of the linear functions behind them."""
    classes = limits.shapes[-1].numel()
    width = max(shape.numel() for shape in limits.shapes)
    for part, labels, radius in zip(
        *(torch.split(t, max(1, _CHUNK // (width * classes))) for t in (x, y, eps)), strict=True
    ):
        eye = torch.eye(classes, dtype=torch.float64, device=x.device)
        rows = eye[labels].unsqueeze(1) - eye
        lower, rows = _backward(limits.stages, limits, limits.activations(part, radius), rows, part, radius)
        yield lower.scatter(1, labels.unsqueeze(1), math.inf), rows


def certified_radii(
    stages: list[Stage], x: Tensor, y: Tensor, norm: float, *, ceiling: Tensor | None = None, steps: int = 14
) -> Tensor:
    """The largest radius (B,) found at which every score difference stays positive; 0 for errors.

    Bisection to 2^-``steps`` of the smallest radius known to fail. ``ceiling`` is such a radius, where one
    is known (the norm of an adversarial example); otherwise it is found by doubling. A chain without
    activations needs no search: its bounds are exact, min_t (s_y − s_t) / ‖w_y − w_t‖_dual.
    """
    x = x.double()
    nothing = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    limits = _Limits(stages, x[:1], norm)
    gaps = _gaps(limits, x, y, nothing)
    correct = (gaps > 0).all(1)
    if not any(isinstance(stage, Kink) for stage in stages):
        slopes = gaps - _gaps(limits, x, y, nothing + 1)
        radii = torch.where(gaps.isinf(), math.inf, gaps / slopes).amin(1)
        return torch.where(correct, radii, 0.0)

    def holds(radius: Tensor, index: Tensor) -> Tensor:
        return (_gaps(limits, x[index], y[index], radius[index]) > 0).all(1)

    low, high = nothing.clone(), nothing + math.inf
    if ceiling is not None:
        high = ceiling.double().clone()
    scale = x.abs().amax()
    # samples that are all zero have no scale: a trial radius of 0 holds however often it is doubled
    trial = torch.where(high.isfinite(), high / 2, 1e-3 * torch.where(scale > 0, scale, 1.0))
    searching = correct.nonzero().squeeze(1)
    for _ in range(60):  # until every sample has a finite upper end
        searching = searching[high[searching].isinf()]
        if len(searching) == 0:
            break
        safe = holds(trial, searching)
        low[searching[safe]] = trial[searching[safe]]
        high[searching[~safe]] = trial[searching[~safe]]
        trial = 4 * trial
    searching = (correct & high.isfinite()).nonzero().squeeze(1)
    for _ in range(steps if len(searching) else 0):
        middle = (low + high) / 2
        safe = holds(middle, searching)
        low[searching[safe]] = middle[searching[safe]]
        high[searching[~safe]] = middle[searching[~safe]]
    return torch.where(correct & high.isinf(), math.inf, low)


class _Limits:
    """Shapes of every stage's input, and lower and upper limits of every activation's input."""

    def __init__(self, stages: list[Stage], sample: Tensor, norm: float) -> None:
        self.stages, self.norm = stages, norm
        self.shapes: list[torch.Size] = []
        value = sample
        with torch.no_grad():
            for stage in stages:
                self.shapes.append(value.shape[1:])
                value = stage.apply(value) if isinstance(stage, Affine) else stage(value)
        self.shapes.append(value.shape[1:])
        self.first = next((i for i, stage in enumerate(stages) if isinstance(stage, Kink)), None)
        self.reach = None if self.first is None else self._reach(sample)

    def _reach(self, sample: Tensor) -> Tensor:
        """‖w_j‖_dual of the rows of the first affine part: the same for every sample, so computed once."""
        assert self.first is not None
        neurons = self.shapes[self.first].numel()
        norms, everyone = [], torch.arange(neurons, device=sample.device)
        for some in torch.split(everyone, max(1, _CHUNK // max(sample.numel(), neurons))):
            rows = torch.zeros(len(some), neurons, dtype=torch.float64, device=sample.device)
            rows[everyone[: len(some)], some] = 1.0
            rows = rows.reshape(len(some), *self.shapes[self.first])
            for index in range(self.first - 1, -1, -1):
                stage = self.stages[index]
                assert isinstance(stage, Affine)
                rows, _ = stage.transposed(rows, self.shapes[index])
            norms.append(_dual(rows.flatten(1), self.norm))
        return torch.cat(norms).reshape(self.shapes[self.first])

    def activations(self, x: Tensor, eps: Tensor) -> dict[int, tuple[Tensor, Tensor]]:
        """Stage index → (lower, upper) of its input over the ball, each (B, *shape)."""
        found: dict[int, tuple[Tensor, Tensor]] = {}
        value = x
        for index, stage in enumerate(self.stages):
            if isinstance(stage, Affine):
                with torch.no_grad():
                    value = stage.apply(value)
                continue
            if index == self.first:
                assert self.reach is not None
                spread = eps.reshape(-1, *[1] * self.reach.ndim) * self.reach
                found[index] = (value - spread, value + spread)
            else:
                found[index] = self._deeper(index, found, x, eps)
            value = stage(value)
        return found

    def _deeper(
        self, index: int, found: dict[int, tuple[Tensor, Tensor]], x: Tensor, eps: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Limits of a later activation: the backward pass with every neuron as a row, then its negative."""
        shape = self.shapes[index]
        neurons, parts = shape.numel(), []
        everyone = torch.arange(neurons, device=x.device)
        widest = max(part.numel() for part in self.shapes[: index + 1])
        for some in torch.split(everyone, max(1, _CHUNK // (widest * len(x)))):
            rows = torch.zeros(2, len(some), neurons, dtype=torch.float64, device=x.device)
            rows[0, everyone[: len(some)], some] = 1.0
            rows[1, everyone[: len(some)], some] = -1.0
            both = rows.reshape(1, 2 * len(some), *shape).expand(len(x), *[-1] * (1 + len(shape)))
            bound, _ = _backward(self.stages[:index], self, found, both, x, eps)
            parts.append(bound.reshape(len(x), 2, len(some)))
        sides = torch.cat(parts, 2)
        return sides[:, 0].reshape(-1, *shape), -sides[:, 1].reshape(-1, *shape)


def _backward(
    stages: list[Stage],
    limits: _Limits,
    found: dict[int, tuple[Tensor, Tensor]],
    rows: Tensor,
    x: Tensor,
    eps: Tensor,
) -> tuple[Tensor, Tensor]:
    """Lower bounds (B, K) of rows · output over the ball, rows (B, K, *out), and of what linear function: (B, K, d)."""
    batch, count = rows.shape[:2]
    constant = rows.new_zeros(batch, count)
    for index in range(len(stages) - 1, -1, -1):
        stage = stages[index]
        if isinstance(stage, Affine):
            back, shift = stage.transposed(rows.flatten(0, 1), limits.shapes[index])
            rows = back.reshape(batch, count, *limits.shapes[index])
            constant = constant + shift.reshape(batch, count)
        else:
            rows, shift = _through_kink(rows, *found[index], stage.slope)
            constant = constant + shift
    rows = rows.flatten(2)
    centre = torch.einsum("bkd,bd->bk", rows, x.flatten(1))
    return centre + constant - eps.unsqueeze(1) * _dual(rows, limits.norm), rows


def _through_kink(rows: Tensor, lower: Tensor, upper: Tensor, slope: float) -> tuple[Tensor, Tensor]:
    """rows · max(h, s·h) bounded below by a linear function of h, for lower ≤ h ≤ upper."""
    low, high = lower.clamp(max=0), upper.clamp(min=0)
    width = (high - low).clamp(min=1e-300)
    chord = torch.where(lower >= 0, 1.0, torch.where(upper <= 0, slope, (high - slope * low) / width))
    # any slope between s and 1 bounds from below; the steeper is closer when most of the interval is positive
    under = torch.where(lower >= 0, 1.0, torch.where((upper <= 0) | (upper < -lower), slope, 1.0))
    crossing = (lower < 0) & (upper > 0)
    intercept = torch.where(crossing, -lower * (chord - slope), 0.0)
    negative = rows.clamp(max=0)
    shift = (negative * intercept.unsqueeze(1)).flatten(2).sum(2)
    return rows.clamp(min=0) * under.unsqueeze(1) + negative * chord.unsqueeze(1), shift


def _dual(rows: Tensor, norm: float) -> Tensor:
    return rows.abs().sum(-1) if norm == math.inf else torch.linalg.vector_norm(rows, dim=-1)
