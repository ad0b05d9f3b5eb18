from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import linprog, minimize

from undertow.adversary.attacks.apgd import checkpoints
from undertow.adversary.exact.branching import least_distance
from undertow.adversary.geometry import lengths, nearest_on_hyperplane, project


@pytest.mark.parametrize("norm", [2.0, math.inf])
def test_nearest_point_on_a_hyperplane_in_a_box_against_a_general_solver(norm: float) -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(10):
        x = torch.rand(1, 6, generator=generator, dtype=torch.float64)
        w = torch.randn(1, 6, generator=generator, dtype=torch.float64)
        b = -(w * x).sum(-1) + 0.6 * w.abs().sum(-1) * 0.5
        delta = nearest_on_hyperplane(x, w, b, norm, (0.0, 1.0))
        point = (x + delta)[0]
        if float((w[0] * point).sum() + b) > 1e-9:  # the box admits no solution: the closest corner
            corner = torch.where(w[0] > 0, 0.0, 1.0).double()
            assert torch.allclose(point, corner)
            continue
        assert 0 <= float(point.min()) <= float(point.max()) <= 1
        slow = _slow(x[0].numpy(), w[0].numpy(), float(b), norm)
        assert float(lengths(delta, norm)) == pytest.approx(slow, rel=1e-5)


def _slow(x: np.ndarray, w: np.ndarray, b: float, norm: float) -> float:  # type: ignore[type-arg]
    """min t with ‖δ‖ ≤ t by SLSQP in (δ, t)."""
    if norm == 2:
        aim = lambda v: float(v[:-1] @ v[:-1])  # noqa: E731
        extra = []
    else:
        aim = lambda v: float(v[-1])  # noqa: E731
        extra = [{"type": "ineq", "fun": lambda v: np.concatenate([v[-1] - v[:-1], v[-1] + v[:-1]])}]
    plane = {"type": "ineq", "fun": lambda v: -(w @ (x + v[:-1]) + b)}
    bounds = [(-value, 1 - value) for value in x] + [(0, None)]
    result = minimize(
        aim,
        np.append(-0.1 * w, 1.0),
        constraints=[plane, *extra],
        bounds=bounds,
        options={"ftol": 1e-15, "maxiter": 500},
    )
    return math.sqrt(result.fun) if norm == 2 else float(result.fun)


def test_projection_stays_in_ball_and_box() -> None:
    x, moved = torch.rand(50, 8), 3 * torch.randn(50, 8)
    radius = torch.linspace(0.1, 2, 50)
    for norm in (2.0, math.inf):
        kept = project(moved, x, radius, norm, (0.0, 1.0))
        assert bool((lengths(kept - x, norm) <= radius * (1 + 1e-5)).all())
        assert float(kept.min()) >= 0
        assert float(kept.max()) <= 1


def test_least_distance_satisfies_its_constraints_or_says_there_are_none() -> None:
    source = np.random.default_rng(0)
    rows, sides = source.normal(size=(4, 6)), -source.random(4)
    delta = least_distance(rows, sides)
    assert delta is not None
    assert (rows @ delta <= sides + 1e-9).all()
    slow = minimize(
        lambda d: d @ d, np.ones(6), constraints=[{"type": "ineq", "fun": lambda d: sides - rows @ d}]
    )
    assert delta @ delta == pytest.approx(slow.fun, rel=1e-5)
    assert least_distance(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([-1.0, -1.0])) is None


def test_checkpoints_follow_the_published_schedule() -> None:
    assert sorted(checkpoints(100)) == [22, 41, 57, 70, 80, 87, 93, 99]


@pytest.mark.parametrize("box", [None, (-1.0, 1.0)])
def test_the_nearest_point_of_a_hyperplane_in_l1_is_that_of_a_linear_program(
    box: tuple[float, float] | None,
) -> None:
    generator = torch.Generator().manual_seed(0)
    x = 2 * torch.rand(20, 4, generator=generator, dtype=torch.float64) - 1
    normal = torch.randn(20, 4, generator=generator, dtype=torch.float64)
    offset = 0.2 * torch.rand(20, generator=generator, dtype=torch.float64) - (normal * x).sum(-1)
    delta = nearest_on_hyperplane(x, normal, offset, 1.0, box)
    assert torch.allclose((normal * (x + delta)).sum(-1) + offset, torch.zeros(20).double())
    for point, w, side, found in zip(x.numpy(), normal.numpy(), offset.tolist(), delta, strict=True):
        room = [(None, None)] * 4 if box is None else [(box[0] - v, box[1] - v) for v in point]
        eye = np.eye(4)
        result = linprog(
            np.append(np.zeros(4), np.ones(4)),
            A_ub=np.vstack([np.append(w, np.zeros(4)), np.hstack([eye, -eye]), np.hstack([-eye, -eye])]),
            b_ub=np.append(-(w @ point + side), np.zeros(8)),
            bounds=[*room, *[(0, None)] * 4],
        )
        assert float(found.abs().sum()) == pytest.approx(result.fun)


def test_projections_onto_the_l1_ball_are_the_nearest_points() -> None:
    generator = torch.Generator().manual_seed(0)
    moved = 2 * torch.randn(50, 5, generator=generator, dtype=torch.float64)
    radius = torch.rand(50, generator=generator, dtype=torch.float64) * 6
    found = project(moved, torch.zeros(50, 5).double(), radius, 1.0, None)
    size = found.abs().sum(-1)
    inside = moved.abs().sum(-1) <= radius
    assert torch.equal(found[inside], moved[inside])
    assert torch.allclose(size[~inside], radius[~inside])
    # The nearest point of a convex set makes an obtuse angle with all others: here with the corners.
    corners = torch.cat([torch.eye(5), -torch.eye(5)]).double() * radius[:, None, None]
    cosines = ((moved - found)[:, None] * (corners - found[:, None])).sum(-1)
    assert bool((cosines <= 1e-9).all())
