"""Certified radii by linear bounds that travel backward through the layers (CROWN, Zhang et al. 2018).

Over a ball around x every activation max(h, s·h) with l ≤ h ≤ u lies between two lines; replacing it by
them, from the scores back to the input, bounds each score difference from below by A·x' + c on the ball,
whose minimum is A·x + c − ε‖A‖_dual.

Everything is in float64, and rounding is taken off. Where |z| ≤ m on the ball, rows·(W z + b) is wrong by at
most γ·|rows|·(|W| m + |b|), in whatever order it is summed (Higham 2002, §3.1), γ a little above (number of
terms)·2⁻⁵³: so the bounds are proofs about the network as written, in exact arithmetic. The rows begin as
e_y − e_t, and what all classes have in common never enters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from undertow.adversary.certificates.bracket import largest_radius
from undertow.adversary.certificates.stages import Affine, Kink, Stage
from undertow.adversary.geometry import dual_lengths, furthest

__all__ = ["certified_radii", "gap_bounds", "weakest_directions"]

_CHUNK = 2**22  # float64 entries of one array of backward rows: 32 MiB
_RTOL = 1e-9  # to which a certified radius is searched for


def gap_bounds(stages: list[Stage], x: Tensor, y: Tensor, eps: Tensor, norm: float) -> Tensor:
    """Lower bounds (B, k) of s_y − s_t over the ball of radius ε_i around x_i; +inf at t = y.

    >>> linear = Affine(torch.nn.Identity(), torch.tensor([[0.0, 0.0], [3.0, 4.0]]).double())
    >>> x, y, eps = torch.tensor([[1.0, 1.0]]), torch.tensor([1]), torch.tensor([1.0])
    >>> gap_bounds([linear], x, y, eps, 2.0)  # 3 + 4 − 5, and a little below it for rounding
    tensor([[2.0000,    inf]], dtype=torch.float64)
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
        found.append(-furthest(rows[torch.arange(len(rows), device=rows.device), lower.argmin(1)], norm))
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
        lower, rows = _backward(limits.stages, limits, limits.ball(part, radius), rows)
        yield lower.scatter(1, labels.unsqueeze(1), math.inf), rows


def certified_radii(stages: list[Stage], x: Tensor, y: Tensor, norm: float) -> Tensor:
    """Radii (B,) at which every score difference is proved positive; 0 for errors, inf where no ball is too large.

    The search begins where the differences would vanish if the network were linear,
    min_t (s_y − s_t)/‖∇(s_y − s_t)‖_dual: for a chain without activations that is the answer, up to rounding.
    """
    x = x.double()
    limits = _Limits(stages, x[:1], norm)
    parts = list(_linear_gaps(limits, x, y, x.new_zeros(len(x))))
    gaps = torch.cat([lower for lower, _ in parts])
    slopes = torch.cat([dual_lengths(rows, norm) for _, rows in parts])
    guess = torch.where(slopes > 0, gaps / slopes, math.inf).amin(1)
    # Without a slope at x nothing changes up to the nearest kink; behind it something may.
    guess = torch.where(guess.isfinite(), guess, 2 * limits.nearest_kinks(x))
    level = gaps.amin(1)

    def gap(radius: Tensor, index: Tensor) -> Tensor:
        return _gaps(limits, x[index], y[index], radius).amin(1)

    found = largest_radius(
        gap,
        level=torch.where(guess.isfinite(), level, 0.0),
        guess=guess,
        rtol=1e-14 if limits.first is None else _RTOL,
    )
    return torch.where(guess.isinf() & (level > 0), math.inf, found)  # a network that is constant


class _Ball:
    """What is known on balls around x: limits of what enters each activation, and sizes of what leaves each stage."""

    def __init__(self, x: Tensor, eps: Tensor) -> None:
        self.x, self.eps = x, eps
        self.size = x.abs() + eps.reshape(-1, *[1] * (x.ndim - 1))  # in every norm |δ_i| ≤ ‖δ‖
        self.limits: dict[int, tuple[Tensor, Tensor]] = {}
        self.sizes: list[Tensor] = []


class _Limits:
    """Shapes of every stage's input, and what is known of every stage on a ball."""

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
        # twice what sums of so many terms, a few operations on each and a sum over the stages can do
        terms = max(shape.numel() for shape in self.shapes) + len(stages) + 32
        self.rounding = terms * torch.finfo(torch.float64).eps

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
            norms.append(dual_lengths(rows.flatten(1), self.norm))
        return torch.cat(norms).reshape(self.shapes[self.first])

    def nearest_kinks(self, x: Tensor) -> Tensor:
        """The distance (B,) from x to the nearest place where a neuron of the first layer switches; inf without any."""
        if self.first is None or self.reach is None or not bool((self.reach > 0).any()):
            return x.new_full((len(x),), math.inf)
        value = x
        with torch.no_grad():
            for stage in self.stages[: self.first]:
                assert isinstance(stage, Affine)
                value = stage.apply(value)
        moving = (self.reach > 0) & (value != 0)
        distance = torch.where(moving, value.abs() / torch.where(self.reach > 0, self.reach, 1.0), math.inf)
        nearest = distance.flatten(1).amin(1)
        scale = x.flatten(1).abs().amax(1)
        # All neurons are at their kinks: any length will do, and is doubled or halved from there.
        return torch.where(nearest.isfinite(), nearest, torch.where(scale > 0, scale, 1.0))

    def ball(self, x: Tensor, eps: Tensor) -> _Ball:
        """Limits and sizes over the balls of radius ε_i around x_i, stage after stage."""
        ball, value = _Ball(x, eps), x
        size = ball.size
        for index, stage in enumerate(self.stages):
            if isinstance(stage, Affine):
                with torch.no_grad():
                    size = stage.sizes(size)
                    if self.first is not None and index < self.first:
                        value = stage.apply(value)
            else:
                ball.limits[index] = lower, upper = (
                    self._first(value, size, eps) if index == self.first else self._deeper(index, ball)
                )
                size = torch.maximum(lower.abs(), upper.abs())
            ball.sizes.append(size)
        return ball

    def _first(self, value: Tensor, size: Tensor, eps: Tensor) -> tuple[Tensor, Tensor]:
        """Limits of the first activation: h ± ε‖w‖_dual."""
        assert self.reach is not None
        spread = eps.reshape(-1, *[1] * self.reach.ndim) * self.reach
        spread = spread + self.rounding * (spread + size)
        return value - spread, value + spread

    def _deeper(self, index: int, ball: _Ball) -> tuple[Tensor, Tensor]:
        """Limits of a later activation: the backward pass with every neuron as a row, then its negative."""
        shape, x = self.shapes[index], ball.x
        neurons, parts = shape.numel(), []
        everyone = torch.arange(neurons, device=x.device)
        widest = max(part.numel() for part in self.shapes[: index + 1])
        for some in torch.split(everyone, max(1, _CHUNK // (widest * len(x)))):
            rows = torch.zeros(2, len(some), neurons, dtype=torch.float64, device=x.device)
            rows[0, everyone[: len(some)], some] = 1.0
            rows[1, everyone[: len(some)], some] = -1.0
            both = rows.reshape(1, 2 * len(some), *shape).expand(len(x), *[-1] * (1 + len(shape)))
            bound, _ = _backward(self.stages[:index], self, ball, both)
            parts.append(bound.reshape(len(x), 2, len(some)))
        sides = torch.cat(parts, 2)
        return sides[:, 0].reshape(-1, *shape), -sides[:, 1].reshape(-1, *shape)


def _backward(stages: list[Stage], limits: _Limits, ball: _Ball, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Lower bounds (B, K) of rows · output over the ball, rows (B, K, *out), and of what linear function: (B, K, d)."""
    batch, count = rows.shape[:2]
    constant, sizes = rows.new_zeros(batch, count), rows.new_zeros(batch, count)
    for index in range(len(stages) - 1, -1, -1):
        stage = stages[index]
        sizes = sizes + _sizes(rows, ball.sizes[index])
        if isinstance(stage, Affine):
            back, shift = stage.transposed(rows.flatten(0, 1), limits.shapes[index])
            rows = back.reshape(batch, count, *limits.shapes[index])
            constant = constant + shift.reshape(batch, count)
        else:
            rows, shift = _through_kink(rows, *ball.limits[index], stage.slope)
            constant = constant + shift
    sizes = sizes + _sizes(rows, ball.size)
    rows = rows.flatten(2)
    centre = torch.einsum("bkd,bd->bk", rows, ball.x.flatten(1))
    spread = ball.eps.unsqueeze(1) * dual_lengths(rows, limits.norm)
    return centre + constant - spread - limits.rounding * (sizes + spread), rows


def _sizes(rows: Tensor, size: Tensor) -> Tensor:
    """|rows| · size, (B, K): what the terms of rows · z can add up to where |z| ≤ size."""
    return torch.einsum("bkn,bn->bk", rows.flatten(2).abs(), size.flatten(1))


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
