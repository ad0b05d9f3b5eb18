"""Measures of the margin study against dense oracles in float64."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.svm import LinearSVC
from torch import nn

from undertow.core.errors import InputError, ModelError
from undertow.data.separable import separable
from undertow.data.slabs import slabs
from undertow.measures.coordinate_margin import CoordinateMargin, coordinate_network
from undertow.measures.hard_margin import HardMargin, hard_margin
from undertow.measures.l2_path import l2_path
from undertow.measures.layer_slopes import gap_slopes
from undertow.measures.margin_basin import MarginBasin
from undertow.measures.point_radii import PointRadii, half_distances, product_radii
from undertow.models import cnn


@pytest.mark.parametrize(("n", "d"), [(12, 2), (30, 20), (60, 5)])
@pytest.mark.parametrize("unit", [1.0, 1e-9, 1e9])
def test_the_hard_margin_is_that_of_scikit_learn(n: int, d: int, unit: float) -> None:
    data = separable(n=n, d=d, seed=1)
    found = hard_margin(data.x.double() * unit, data.y)
    machine = LinearSVC(fit_intercept=False, loss="hinge", C=1e6, tol=1e-10, max_iter=10**6)
    theirs = machine.fit(data.x.double().numpy(), data.y.numpy()).coef_[0] / unit
    assert np.allclose(found.weight.numpy(), theirs, rtol=0, atol=1e-6 * np.linalg.norm(theirs))
    margins = (2 * data.y - 1).double() * (data.x.double() * unit @ found.weight)
    assert float(margins.min()) == pytest.approx(1.0, abs=1e-9)
    assert float((found.multipliers * (margins - 1)).abs().max()) <= 1e-9 * float(found.multipliers.max())


def test_points_that_no_plane_separates_are_refused() -> None:
    x = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    with pytest.raises(InputError, match="separates"):
        hard_margin(x, torch.tensor([1, 1]))
    for labels in (torch.tensor([0, 2]), torch.tensor([-1, 0])):
        with pytest.raises(InputError, match="0 and 1, or −1 and 1"):
            hard_margin(x, labels)
        with pytest.raises(InputError, match="0 and 1, or −1 and 1"):
            l2_path(x, labels, [-1.0])
    with pytest.raises(InputError, match="a label for each"):
        hard_margin(x, torch.tensor([1]))
    with pytest.raises(InputError, match="x has entries that are not finite"):
        l2_path(x * torch.nan, torch.tensor([0, 1]), [-1.0])
    with pytest.raises(InputError, match="finite numbers"):
        l2_path(x, torch.tensor([0, 1]), [torch.nan])


def test_the_l2_path_is_the_minimum_and_goes_to_the_machine() -> None:
    data = separable(n=20, d=4, seed=2)
    rows = ((2 * data.y - 1)[:, None] * data.x).double().numpy()
    ours = l2_path(data.x, data.y, [-2.0, -40.0, -200.0])

    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        q = rows @ w
        slope = -1 / (1 + np.exp(q))
        value = np.logaddexp(0, -q).mean() + 0.005 * w @ w
        return value, rows.T @ slope / len(rows) + 0.01 * w

    dense = minimize(objective, np.zeros(4), jac=True, method="BFGS", options={"gtol": 1e-11}).x
    assert np.allclose(ours[0].numpy(), dense, rtol=1e-6)
    best = hard_margin(data.x, data.y).weight
    angles = [float(torch.acos(w @ best / w.norm() / best.norm())) for w in ours]
    assert angles[2] < angles[1] / 3 < angles[0]


def test_a_network_that_is_not_linear_has_no_direction() -> None:
    net = nn.Sequential(nn.Linear(3, 4, bias=False), nn.ReLU(), nn.Linear(4, 1, bias=False))
    data = separable(n=6, d=3)
    with pytest.raises(ModelError, match="not linear"):
        list(HardMargin()(net, data.x, data.y))


def test_the_machine_itself_has_angle_zero_and_its_own_duals() -> None:
    data, net = separable(n=20, d=5, seed=3), nn.Linear(5, 1, bias=False).double()
    net.weight.data[0] = 1e3 * hard_margin(data.x, data.y).weight
    found = {key: value for key, value, _ in HardMargin(duals=True)(net, data.x, data.y)}
    assert max(found["angle"], found["duals"]) < 1e-6
    assert found["share"] == pytest.approx(1.0)


def test_slopes_of_a_chain_are_products_of_dense_spectral_norms() -> None:
    net: Any = (
        cnn(
            image=(1, 4, 4),
            stages=[(2,)],
            kernels=(3,),
            dense=(5,),
            outputs=3,
            generator=torch.Generator().manual_seed(0),
        )
        .double()
        .requires_grad_(False)
    )
    convolution = torch.func.jacrev(lambda v: net.conv1(v.reshape(1, 1, 4, 4)).flatten())(
        torch.zeros(16).double()
    )
    product = torch.linalg.matrix_norm(convolution, 2) * torch.linalg.matrix_norm(net.dense1.weight, 2)
    rows = net.output.weight
    found = gap_slopes(net)
    for one in range(3):
        for other in range(3):
            dense = float(product * (rows[one] - rows[other]).norm())
            assert (
                dense * (1 - 1e-9) <= float(found[one, other]) <= 1.5 * dense
            )  # images of any size have more


def test_a_layer_of_unknown_steepness_is_refused() -> None:
    with pytest.raises(ModelError, match="not known"):
        gap_slopes(nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1)).eval())


def _narrow() -> tuple[Any, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(4)
    net = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 1, bias=False)).double()
    for weight in net.parameters():
        weight.data.copy_(torch.randn(weight.shape, generator=generator, dtype=torch.float64))
    x = torch.randn(6, 6, generator=generator, dtype=torch.float64)
    return net.requires_grad_(False), x, (net(x).flatten() > 0).long()


def test_radii_are_in_order_and_do_not_change_with_the_scale_of_the_weights() -> None:
    net, x, y = _narrow()
    found = _read(PointRadii(exact=True, ball=True), net, x, y)
    for i in range(len(x)):
        assert found[f"product:{i}"] <= found[f"exact:{i}"] * (1 + 1e-9)
        assert 0 < found[f"ball:{i}"] <= found[f"exact:{i}"] * (1 + 1e-9)
        assert (
            found[f"certified:{i}"] <= found[f"exact:{i}"] * (1 + 1e-9) <= found[f"attacked:{i}"] * (1 + 1e-6)
        )
    alone = _read(PointRadii(exact=True, attack=False), net, x, y)
    net[2].weight.data.mul_(1e6)  # training that only rescales: a far smaller loss, the same radii
    scaled = _read(PointRadii(exact=True, attack=False), net, x, y)
    for i in range(len(x)):
        assert alone[f"exact:{i}"] == pytest.approx(found[f"exact:{i}"], rel=1e-6)
        assert scaled[f"exact:{i}"] == pytest.approx(alone[f"exact:{i}"], rel=1e-6)
        assert scaled[f"margin:{i}"] == pytest.approx(1e6 * alone[f"margin:{i}"], rel=1e-9)


def _read(measure: PointRadii, net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> dict[str, float]:
    tracker = measure.begin(net, x, y, learning_rate=0.0)
    return {key: value for key, value, _ in tracker.read(net, x, y)}


def test_half_distances_and_product_radii_of_errors() -> None:
    x, y = torch.tensor([[0.0], [3.0]]), torch.tensor([0, 1])
    assert half_distances(x, y, x, y).tolist() == [1.5, 1.5]
    line = nn.Linear(1, 1).requires_grad_(False)
    tracker = PointRadii().begin(line, x, 2.0 * y - 1, learning_rate=0.0)  # as the logistic loss has labels
    found = {key: value for key, value, _ in tracker.read(line, x, y)}
    assert (found["half:0"], found["half:1"]) == (1.5, 1.5)
    net = nn.Linear(1, 2, bias=False)
    net.weight.data.copy_(torch.tensor([[1.0], [-1.0]]))
    assert product_radii(net, torch.ones(1, 1), torch.tensor([1])).tolist() == [0.0]


def test_a_margin_problem_with_one_maximum_takes_every_perturbation_back() -> None:
    data, net = separable(n=20, d=3, seed=5), nn.Linear(3, 1, bias=False).double()
    net.weight.data[0] = 50 * hard_margin(data.x, data.y).weight
    found = {key: value for key, value, _ in MarginBasin(size=0.3, steps=400)(net, data.x, data.y)}
    assert found["perturbed"] < found["undisturbed"]
    assert found["back"] == pytest.approx(1.0, abs=0.1)
    assert math.isclose(found["undisturbed"], hard_margin(data.x, data.y).margin, rel_tol=0.02)


def test_no_other_network_of_single_coordinates_has_a_larger_margin() -> None:
    data = slabs(n=60, d=4, pieces=3, margin=0.1, seed=2)
    net = coordinate_network(data.x, data.y, thresholds=9)
    found = {key: value for key, value, _ in CoordinateMargin(thresholds=9)(net, data.x, data.y)}
    q = (net(data.x.double())[:, 0] * (2 * data.y - 1)).min()
    theta = torch.cat([each.flatten() for each in net.parameters()])
    assert found["normalised"] == pytest.approx(float(q / theta.norm() ** 2))
    assert found["normalised"] > 0.1 / 4  # a linear classifier by the first coordinate: α x has norm² 4α
    assert net.get_parameter("0.weight").count_nonzero(1).max() <= 1
    draw, grid = torch.Generator().manual_seed(0), torch.linspace(float(data.x.min()), float(data.x.max()), 9)
    for _ in range(200):  # around it, with other coefficients on neurons of the grid
        other = copy.deepcopy(net)
        output = other.get_parameter("2.weight")
        output.data *= 1 + 0.3 * torch.randn(output.shape[1], generator=draw, dtype=torch.float64)
        extra = nn.Linear(4, 1, dtype=torch.float64)
        extra.weight.data = torch.eye(4).double()[torch.randint(4, (1,), generator=draw)] * 0.1
        extra.bias.data = -0.1 * grid[torch.randint(9, (1,), generator=draw)].double()
        outputs = (other(data.x.double()) + 0.1 * torch.relu(extra(data.x.double()))).detach()[:, 0]
        weights = [*other.parameters(), *extra.parameters(), torch.tensor([0.1])]
        size = sum(float(each.detach().double().square().sum()) for each in weights)
        assert float((outputs * (2 * data.y - 1)).min()) / size <= found["normalised"] + 1e-9
