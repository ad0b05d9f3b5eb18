"""The largest margins: beside scikit-learn, beside a second solver, and proved by duality."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from undertow.core.errors import InputError
from undertow.data.separable import separable
from undertow.data.separable_classes import separable_classes
from undertow.theory.max_margin import margin_rows, max_margin
from undertow.theory.spectral_margin import central_path
from undertow.theory.weight_norms import WEIGHT_NORMS, WeightNorm, as_weight_norm, dual_norm, weight_norm


def rows_of(seed: int, classes: int, d: int = 6) -> torch.Tensor:
    several = separable_classes(n=20, d=d, classes=max(classes, 3), seed=seed)
    data = separable(n=20, d=d, seed=seed) if classes == 2 else several
    return margin_rows(data.x, data.y, classes=classes)


@pytest.mark.parametrize("norm", WEIGHT_NORMS)
@pytest.mark.parametrize("classes", [2, 4])
def test_the_optimum_is_proved_from_both_sides(norm: WeightNorm, classes: int) -> None:
    shape = [(1 if classes == 2 else classes, 6)]
    for seed in range(3):
        rows = rows_of(seed, classes)
        found = max_margin(rows, norm=norm, shapes=shape)
        assert 0 < found.value <= found.upper * (1 + 1e-9)
        assert found.upper <= found.value * (1 + 1e-5)
        assert weight_norm([found.direction.view(shape[0])], norm) == pytest.approx(1)
        assert float((rows @ found.direction).min()) == pytest.approx(found.value)
        assert float(found.multipliers.sum()) == pytest.approx(1)
        assert float(found.multipliers.min()) >= 0


def test_l2_is_scikit_learns_hard_margin() -> None:
    for seed in range(5):
        data = separable(n=30, d=5, seed=seed)
        machine = LinearSVC(C=1e5, loss="hinge", fit_intercept=False, max_iter=10**6, tol=1e-8)
        w = machine.fit(data.x.double().numpy(), data.y.numpy()).coef_[0]
        rows = margin_rows(data.x, data.y)
        theirs = float((rows @ torch.from_numpy(w)).min()) / float(np.linalg.norm(w))
        ours = max_margin(rows, norm=2)
        assert theirs == pytest.approx(ours.value, rel=1e-4)
        assert theirs <= ours.upper * (1 + 1e-9)


def test_a_second_solver_finds_the_same_in_every_norm() -> None:
    """SLSQP on max t, A w ≥ t, in the unit ball: of corners for L1, of singular values for the spectral norm."""
    rows = rows_of(7, 2, d=3)
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
    balls = {
        "1": lambda w: 1 - signs @ w,
        "2": lambda w: np.array([1 - w @ w]),
        "inf": lambda w: np.concatenate([1 - w, 1 + w]),
    }
    for norm, ball in balls.items():
        solved = minimize(
            lambda z: -z[-1],
            np.zeros(4),
            constraints=[
                {"type": "ineq", "fun": lambda z: rows.numpy() @ z[:-1] - z[-1]},
                {"type": "ineq", "fun": lambda z, ball=ball: ball(z[:-1])},
            ],
            options={"maxiter": 500, "ftol": 1e-12},
        )
        assert -solved.fun == pytest.approx(max_margin(rows, norm=norm).value, rel=1e-6)
    matrix = rows_of(3, 3, d=3)
    solved = minimize(
        lambda z: -z[-1],
        np.full(10, 0.01),
        constraints=[
            {"type": "ineq", "fun": lambda z: matrix.numpy() @ z[:-1] - z[-1]},
            {"type": "ineq", "fun": lambda z: 1 - np.linalg.svd(z[:-1].reshape(3, 3))[1]},
        ],
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    found = max_margin(matrix, norm="spectral", shapes=[(3, 3)])
    assert -solved.fun <= found.upper * (1 + 1e-6)
    assert -solved.fun == pytest.approx(found.value, rel=1e-2)


def test_one_row_of_weights_has_its_length_as_spectral_norm() -> None:
    rows = rows_of(0, 2)
    best = max_margin(rows, norm=2).value
    for shape in [(1, 6), (6, 1), (6,)]:
        assert max_margin(rows, norm="spectral", shapes=[shape]).value == pytest.approx(best, rel=1e-9)
    w, _ = central_path(rows.numpy() / float(rows.abs().max()), [(1, 6)])  # which is not taken for one row
    assert float((rows.numpy() @ w).min()) / float(np.linalg.norm(w)) == pytest.approx(best, rel=1e-6)


def test_a_layerwise_maximum_is_proved_and_found_by_a_second_solver() -> None:
    """Two layers of four and two weights, each in a ball of its own: SLSQP on max t, A w ≥ t."""
    rows, shapes = rows_of(3, 2), [(2, 2), (2, 1)]
    found = max_margin(rows, norm="layerwise", shapes=shapes)
    assert found.value <= found.upper <= found.value * (1 + 1e-5)
    solved = minimize(
        lambda z: -z[-1],
        np.full(7, 0.01),
        constraints=[
            {"type": "ineq", "fun": lambda z: rows.numpy() @ z[:-1] - z[-1]},
            {"type": "ineq", "fun": lambda z: np.array([1 - z[:4] @ z[:4], 1 - z[4:6] @ z[4:6]])},
        ],
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    assert -solved.fun == pytest.approx(found.value, rel=1e-5)
    assert found.value > max_margin(rows, norm=2).value  # of one ball alone
    one = max_margin(rows, norm="layerwise", shapes=[(2, 3)]).value
    assert one == pytest.approx(max_margin(rows, norm=2).value, rel=1e-9)


@pytest.mark.parametrize("given", [None, True, 3, "nuclear", float("nan"), [2]])
def test_what_is_no_norm_is_refused_in_a_sentence(given: Any) -> None:
    with pytest.raises(InputError, match="is no norm of weights"):
        as_weight_norm(given)


@pytest.mark.parametrize("norm", WEIGHT_NORMS)
def test_units_and_order_change_nothing(norm: WeightNorm) -> None:
    rows = rows_of(1, 4)
    shape = [(4, 6)]
    plain = max_margin(rows, norm=norm, shapes=shape).value
    for unit in (1e9, 1e-9):
        assert max_margin(rows * unit, norm=norm, shapes=shape).value == pytest.approx(plain * unit, rel=1e-6)
    assert max_margin(rows.flip(0), norm=norm, shapes=shape).value == pytest.approx(plain, rel=1e-6)
    twice = torch.cat([rows, rows])  # ties
    assert max_margin(twice, norm=norm, shapes=shape).value == pytest.approx(plain, rel=1e-6)


@pytest.mark.parametrize("norm", WEIGHT_NORMS)
def test_what_cannot_be_separated_is_refused(norm: WeightNorm) -> None:
    with pytest.raises(InputError, match="not separable"):
        max_margin(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), norm=norm)


def test_bad_input_is_a_sentence() -> None:
    with pytest.raises(InputError, match="finite matrix"):
        max_margin(torch.full((2, 2), float("nan")))
    with pytest.raises(InputError, match="every row is zero"):
        max_margin(torch.zeros(2, 2))
    with pytest.raises(InputError, match="do not have 4 weights"):
        max_margin(torch.ones(1, 4), norm="spectral", shapes=[(3, 1)])
    with pytest.raises(InputError, match="did you mean 'spectral'"):
        as_weight_norm("spectrall")


@pytest.mark.parametrize("norm", WEIGHT_NORMS)
def test_the_dual_norm_is_dual(norm: WeightNorm) -> None:
    draw = torch.Generator().manual_seed(0)
    u = [torch.randn(3, 4, generator=draw).double(), torch.randn(5, generator=draw).double()]
    for _ in range(200):
        w = [torch.randn(each.shape, generator=draw).double() for each in u]
        product = sum(float((a * b).sum()) for a, b in zip(w, u, strict=True))
        assert product <= weight_norm(w, norm) * dual_norm(u, norm) * (1 + 1e-12)
    left, _, right = torch.linalg.svd(u[0], full_matrices=False)
    steepest = {
        "1": [torch.zeros(3, 4).double(), (u[1].abs() == u[1].abs().max()) * u[1].sign()],
        "2": u,
        "inf": [each.sign() for each in u],
        "spectral": [left @ right, u[1] / u[1].norm()],
    }[norm]
    if norm == "1" and float(u[0].abs().max()) > float(u[1].abs().max()):
        steepest = [(u[0].abs() == u[0].abs().max()) * u[0].sign(), torch.zeros(5).double()]
    product = sum(float((a * b).sum()) for a, b in zip(steepest, u, strict=True))
    assert product == pytest.approx(weight_norm(steepest, norm) * dual_norm(u, norm))
