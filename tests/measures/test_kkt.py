"""KKT residuals: a support vector machine as oracle, least squares on gradients taken one by one, enumerated slopes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import nnls
from sklearn.svm import SVC
from torch import Tensor, nn

import undertow as ut
from undertow.core.errors import InputError, ModelError
from undertow.core.losses import Loss
from undertow.core.status import Status
from undertow.data.separable import separable
from undertow.measures import kkt_multipliers, kkt_rows
from undertow.measures.kkt import KktResiduals, kkt
from undertow.measures.margins import margins
from undertow.measures.weight_direction import DirectionOfWeights, directional_distance
from undertow.models import Gaussian, cnn, mlp, two_layer
from undertow.training import Recipe, Trainer
from undertow.training.directions import SteadyDescent


@pytest.fixture(params=["rows", "factors"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients as rows, as small networks have them, and layer by layer, as large ones do."""
    if request.param == "factors":
        monkeypatch.setattr(kkt_rows, "_MOST", 0)


def points(n: int = 20, d: int = 3) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(4)
    y = torch.arange(n) % 2
    return torch.randn(n, d, generator=draw, dtype=torch.float64) + 3.0 * (2 * y - 1)[:, None], y


def svm(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Weights and duals of the hard-margin machine through the origin, by scikit-learn on points and their mirrors.

    With every (x, y) also (−x, −y) is there, so that the intercept is zero and each dual is shared by both.
    """
    rows, signs = torch.cat([x, -x]).numpy(), torch.cat([2 * y - 1, 1 - 2 * y]).numpy()
    solved = SVC(C=1e9, kernel="linear", tol=1e-10).fit(rows, signs)
    duals = np.zeros(len(rows))
    duals[solved.support_] = np.abs(solved.dual_coef_[0])
    both = torch.from_numpy(duals[: len(x)] + duals[len(x) :])
    return (both * (2 * y - 1)) @ x, both


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("d", [2, 30])
def test_multipliers_are_the_duals_of_the_support_vector_machine(d: int) -> None:
    data = separable(n=40, d=d, seed=3)
    x, y = data.x.double(), data.y
    weight, duals = svm(x, y)
    net = nn.Linear(d, 1, bias=False).double()
    with torch.no_grad():
        net.weight.copy_(weight[None] * 1e3)  # of any length
    found = ut.kkt(net, x, y)
    assert found.feasible
    assert found.residual == pytest.approx(0.0, abs=1e-6)
    assert found.slackness == pytest.approx(0.0, abs=1e-6)
    assert torch.allclose(found.multipliers, duals, rtol=1e-3, atol=1e-4 * float(duals.max()))
    with torch.no_grad():
        net.weight += 0.3 * net.weight.norm() * torch.eye(1, d, dtype=torch.float64)
    moved = kkt(net, x, y)
    assert moved.residual + moved.slackness > 0.05


def constraints(net: nn.Module, x: Tensor, y: Tensor, *, nearest: bool) -> tuple[Tensor, Tensor]:
    """The gradient of every pair's margin (rows), and the margins, one at a time."""
    rows, gaps = [], []
    for sample, label in zip(x, y.tolist(), strict=True):
        scores = net(sample[None])[0]
        if len(scores) == 1:
            pairs = [scores[0] * (2 * label - 1)]
        else:
            pairs = [scores[label] - scores[j] for j in range(len(scores)) if j != label]
            pairs = [min(pairs, key=float)] if nearest else pairs
        for q in pairs:
            gradient = torch.autograd.grad(q, list(net.parameters()), retain_graph=True)
            rows.append(torch.cat([g.flatten() for g in gradient]))
            gaps.append(q.detach())
    return torch.stack(rows), torch.stack(gaps)


def oracle(rows: Tensor, gaps: Tensor, theta: Tensor) -> tuple[float, float]:
    """The smallest root of residual² + slack², by scipy on the whole matrix, and the residual there."""
    size = theta.norm()
    columns = torch.cat([rows.T, ((gaps - gaps.min()) / size)[None]])
    goal = torch.cat([theta / size, torch.zeros(1, dtype=theta.dtype)])
    solved, total = nnls(columns.numpy(), goal.numpy(), maxiter=10_000)
    return float(total), float((theta / size - torch.from_numpy(solved) @ rows).norm())


def flat(net: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in net.parameters()])


def small_network(outputs: int, *, deep: bool) -> nn.Sequential:
    torch.manual_seed(1)
    middle = [nn.Linear(7, 6, bias=False), nn.LeakyReLU()] if deep else []
    last = nn.Linear(6 if deep else 7, outputs, bias=False)
    return nn.Sequential(nn.Linear(4, 7), nn.ReLU(inplace=True), *middle, last).double()


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("limit", [5000, 5])
@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("outputs", [1, 3])
def test_residual_is_that_of_gradients_one_by_one(outputs: int, deep: bool, limit: int) -> None:
    net = small_network(outputs, deep=deep)
    x = torch.randn(25, 4, dtype=torch.float64)
    scores = net(x)
    y = (scores[:, 0] > 0).long() if outputs == 1 else scores.argmax(1)
    found = kkt(net, x, y, limit=limit)
    total, residual = oracle(*constraints(net, x, y, nearest=False), flat(net))
    assert found.status is Status.CONVERGED
    assert found.residual == pytest.approx(residual, rel=1e-2, abs=1e-3)
    assert found.error <= 1e-3 * total + 1e-6
    assert found.multipliers.shape == ((25,) if outputs == 1 else (25, 3))
    if outputs > 1:
        assert not found.multipliers[torch.arange(25), y].any()
    if limit == 5000:
        assert found.residual == pytest.approx(residual, abs=1e-9)


@pytest.mark.parametrize("kinks", [0.0, 0.05])
def test_constraints_without_weight_are_let_go_and_come_in_again(
    kinks: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many classes hardly any rival carries weight: a Gram matrix of all that were ever tried fits no memory."""
    for name, value in (("_MANY", 40), ("_NEW", 30)):
        monkeypatch.setattr(kkt_multipliers, name, value)
    torch.manual_seed(2)
    net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 40, bias=False)).double()
    x = torch.randn(30, 6, dtype=torch.float64)
    y = net(x).argmax(1)
    options: dict[str, Any] = {"limit": 30, "max_rounds": 300, "kinks": kinks}
    found = kkt(net, x, y, **options)
    assert found.status is Status.CONVERGED
    monkeypatch.setattr(kkt_multipliers, "_MANY", math.inf)
    kept = kkt(net, x, y, **options)
    assert found.constraints < 0.7 * kept.constraints
    assert int((found.multipliers > 0).sum()) <= found.constraints
    whole = kkt(
        net, x, y, kinks=kinks
    )  # by rows, with the best slopes at kinks; near them a unit's input is not zero
    for one in (found, kept):
        assert one.residual == pytest.approx(whole.residual, abs=one.error + 1e-9)
    if not kinks:
        total, residual = oracle(*constraints(net, x, y, nearest=False), flat(net))
        assert found.error <= 1e-3 * total + 1e-6
        assert found.residual == pytest.approx(residual, rel=1e-2, abs=1e-3)


@pytest.mark.usefixtures("both_ways")
def test_convolutions_and_norms_have_the_gram_matrix_of_their_gradients() -> None:
    draw = torch.Generator().manual_seed(0)
    net = cnn(image=(1, 6, 6), stages=[(3,), (4,)], kernels=(5, 3), dense=(7,), outputs=3, generator=draw)
    x = torch.rand(20, 36, generator=draw, dtype=torch.float64)
    net.double()
    y = net(x).argmax(1)
    _, residual = oracle(*constraints(net, x, y, nearest=False), flat(net))
    assert kkt(net, x, y).residual == pytest.approx(residual, abs=1e-8)
    torch.manual_seed(0)
    other = nn.Sequential(nn.Linear(36, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3)).double().eval()
    y = other(x).argmax(1)
    _, residual = oracle(*constraints(other, x, y, nearest=False), flat(other))
    assert kkt(other, x, y).residual == pytest.approx(residual, abs=1e-8)


@pytest.mark.parametrize(("loss", "outputs"), [("logistic", 1), ("bce", 1), ("cross-entropy", 3)])
def test_the_dense_way_takes_the_nearest_rival(loss: Loss, outputs: int) -> None:
    x, y = points(12, 4)
    y = y if outputs == 1 else torch.arange(12) % 3
    net: Any = two_layer(
        inputs=4,
        width=6,
        outputs=outputs,
        init=Gaussian(1.0),
        bias="hidden",
        generator=torch.Generator().manual_seed(0),
    )
    net.double()
    net.output.weight.requires_grad_(False)
    theta = torch.cat([net.hidden.weight.detach().flatten(), net.hidden.bias.detach()])
    found = kkt(net, x, y, loss=loss, parameters=["hidden"], method="dense")
    hidden = nn.Sequential(net.hidden)
    rows, gaps = [], []
    for sample, label in zip(x, y.tolist(), strict=True):
        scores = net(sample[None])[0]
        others = [s for j, s in enumerate(scores) if j != label]
        q = scores[0] * (2 * label - 1) if outputs == 1 else scores[label] - torch.stack(others).max()
        gradient = torch.autograd.grad(q, list(hidden.parameters()))
        rows.append(torch.cat([g.flatten() for g in gradient]))
        gaps.append(q.detach())
    _, residual = oracle(torch.stack(rows), torch.stack(gaps), theta)
    assert found.residual == pytest.approx(residual, abs=1e-9)
    assert torch.allclose(found.margins, torch.stack(gaps))
    assert found.status is Status.EXACT
    assert math.isinf(found.error)


@pytest.mark.usefixtures("both_ways")
def test_slopes_at_kinks_are_those_of_enumeration() -> None:
    """Three units at their kink on each of two points: all 2³ gradients of each, and their cone."""
    torch.manual_seed(3)
    net: Any = nn.Sequential(nn.Linear(5, 6, bias=False), nn.ReLU(), nn.Linear(6, 1, bias=False)).double()
    x = torch.randn(2, 5, dtype=torch.float64)
    with torch.no_grad():
        net[2].weight.abs_()
        basis = torch.linalg.qr(x.T).Q
        net[0].weight[:3] -= net[0].weight[:3] @ basis @ basis.T  # units 0, 1, 2 see neither point
    y = torch.ones(2, dtype=torch.long)
    assert float(net(x).detach().min()) > 0
    theta, rows, gaps = flat(net), [], []
    for sample in x:
        hidden = sample @ net[0].weight.T
        for slopes in itertools.product((0.0, 1.0), repeat=3):
            slope = torch.cat([torch.tensor(slopes, dtype=torch.float64), (hidden[3:] > 0).double()]).detach()
            first = (net[2].weight[0] * slope)[:, None] * sample
            rows.append(torch.cat([first.flatten(), (hidden * slope)]).detach())
            gaps.append((net[2].weight[0] * hidden * slope).sum().detach())
    _, best = oracle(torch.stack(rows), torch.stack(gaps), theta)
    free, fixed = kkt(net, x, y), kkt(net, x, y, kinks=0.0)
    assert free.kinks == 2
    assert free.residual == pytest.approx(best, abs=1e-6)
    assert free.residual <= fixed.residual + 1e-9
    assert fixed.kinks == 0
    assert free.status is Status.CONVERGED
    late = kkt(net, x, y, limit=1)  # the second point comes in later, with its kinks
    assert late.residual == pytest.approx(best, abs=1e-6)
    assert late.kinks == 2


@pytest.mark.usefixtures("both_ways")
def test_a_slope_between_both_sides_makes_a_kkt_point() -> None:
    """f = relu(⟨a, x⟩) + relu(⟨b, x⟩), a = (0, 1), b = (1, 0), on x₁ = (1, −½) and x₂ = (0, 1), where b has its kink.

    Both margins are 1, a = x₂, and b = x₁ + ½ x₂: a KKT point with λ = (1, 1), by the slope ½.
    """
    net: Any = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU(), nn.Linear(2, 1, bias=False)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
        net[2].weight.fill_(1.0)
    x, y = torch.tensor([[1.0, -0.5], [0.0, 1.0]]).double(), torch.tensor([1, 1])
    free = kkt(net, x, y, parameters=["0"])
    assert free.kinks == 1
    assert free.residual == pytest.approx(0.0, abs=1e-7)
    assert free.multipliers.tolist() == pytest.approx([1.0, 1.0], abs=1e-6)
    assert kkt(net, x, y, parameters=["0"], kinks=0.0).residual > 0.3


def test_nothing_changes_when_a_homogeneous_network_is_scaled() -> None:
    x, y = points()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 5, bias=False), nn.ReLU(), nn.Linear(5, 1, bias=False)).double()
    y = (net(x)[:, 0] > 0).long()
    before = kkt(net, x, y)
    for scale in (3.0, 1e9, 1e-9):
        grown = nn.Sequential(nn.Linear(3, 5, bias=False), nn.ReLU(), nn.Linear(5, 1, bias=False)).double()
        with torch.no_grad():
            for weight, own in zip(grown.parameters(), net.parameters(), strict=True):
                weight.copy_(own * scale)
        after = kkt(grown, x, y)
        assert after.residual == pytest.approx(before.residual, abs=1e-8)
        assert after.slackness == pytest.approx(before.slackness, abs=1e-8)
        assert torch.allclose(after.multipliers, before.multipliers, rtol=1e-4, atol=1e-6)
        assert 0 <= after.misalignment <= 2  # however small the loss is, its gradient has a direction


def test_order_of_samples_and_equal_points() -> None:
    net = small_network(3, deep=False)
    x = torch.randn(15, 4, dtype=torch.float64)
    y = net(x).argmax(1)
    found, turned = kkt(net, x, y), kkt(net, x.flip(0), y.flip(0))
    assert found.residual == pytest.approx(turned.residual, abs=1e-9)
    twice = kkt(net, torch.cat([x, x]), torch.cat([y, y]))
    assert twice.residual == pytest.approx(found.residual, abs=1e-8)


def test_one_logit_and_two_classes_have_the_same_multipliers() -> None:
    """s₀ = −f/√2, s₁ = f/√2 in one linear layer: weights ∓w/√2 have the norm of w."""
    x, y = points()
    one, two = nn.Linear(3, 1, bias=False).double(), nn.Linear(3, 2, bias=False).double()
    weight, _ = svm(x, y)
    with torch.no_grad():
        one.weight.copy_(weight[None])
        two.weight.copy_(torch.stack([-weight, weight]) / math.sqrt(2))
    single, double = kkt(one, x, y), kkt(two, x, y)
    assert single.residual == pytest.approx(double.residual, abs=1e-9)
    shares = double.multipliers.sum(1)
    assert torch.allclose(shares / shares.sum(), single.multipliers / single.multipliers.sum(), atol=1e-6)


def test_misalignment_is_with_the_descent_of_the_loss() -> None:
    """One point, one linear logit: gradient descent goes along y x, whatever the weights are."""
    x, y, net = torch.tensor([[3.0, 4.0]]), torch.tensor([0]), nn.Linear(2, 1, bias=False)
    for weight, expected in (([-6.0, -8.0], 0.0), ([3.0, 4.0], 2.0), ([-1.0, 0.0], 1 - 3 / 5)):
        with torch.no_grad():
            net.weight.copy_(torch.tensor([weight]))
        assert kkt(net, x, y).misalignment == pytest.approx(expected, abs=1e-9)


def test_directions_converge_by_their_angle() -> None:
    one = {"w": torch.tensor([1.0, 0.0]).double(), "b": torch.zeros(1).double()}
    near = {"w": torch.tensor([1e9, 1.0]).double(), "b": torch.zeros(1).double()}
    assert directional_distance(one, near) == pytest.approx(1e-9, rel=1e-6)
    assert directional_distance(one, {name: -p for name, p in one.items()}) == pytest.approx(math.pi)
    with pytest.raises(InputError, match="the same network"):
        directional_distance(one, {"w": torch.zeros(3)})
    net = nn.Linear(2, 1, bias=False).double()
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[1.0, 0.0]]))
    x, y = points(4, 2)
    tracker = DirectionOfWeights().begin(net, x, y, learning_rate=0.1)
    for weight, angles in (
        ([[0.0, 3.0]], (math.pi / 2, math.pi / 2)),
        ([[-2.0, 0.0]], (math.pi, math.pi / 2)),
    ):
        with torch.no_grad():
            net.weight.copy_(torch.tensor(weight))
        fresh = DirectionOfWeights().begin(net, x, y, learning_rate=0.1)
        fresh.restore(tracker.state())
        for each in (tracker, fresh):
            values = {key: value for key, value, _ in each.read(net, x, y)}
            assert (values["since-start"], values["since-last"]) == pytest.approx(angles)


def test_what_cannot_be_tested_is_told() -> None:
    x, y = points()
    net = nn.Linear(3, 1).double()
    with pytest.raises(InputError, match="weight, bias"):
        kkt(net, x, y, parameters=["hidden"])
    with pytest.raises(InputError, match="kinks = nan"):
        kkt(net, x, y, kinks=math.nan)
    with pytest.raises(ModelError, match="cannot take x of shape"):
        kkt(net, x[:, :1], y)
    with pytest.raises(InputError, match="did you mean 'gram'"):
        kkt(net, x, y, method="gramm")  # type: ignore[arg-type]
    assert "misclassified" in kkt(net, x, 1 - (net(x)[:, 0] > 0).long()).sentence
    with torch.no_grad():
        net.weight.zero_()
        net.bias.zero_()
    with pytest.raises(ModelError, match="no direction"):
        kkt(net, x, y)


def test_new_options_of_the_section_are_written_only_where_they_are_chosen() -> None:
    assert KktResiduals().model_dump(exclude_none=True) == {"loss": "logistic", "parameters": ()}
    assert KktResiduals(method="gram").model_dump()["method"] == "gram"
    x, y = points()
    torch.manual_seed(0)
    net = nn.Linear(3, 1, bias=False).double()
    for method in ("dense", "gram"):
        readings = list(KktResiduals(method=method)(net, x, y))
        assert [key for key, _, _ in readings] == [
            "residual",
            "slackness",
            "misalignment",
            "margin",
            "supporting",
        ]
        assert (readings[0][2] is None) == (method == "dense")


@pytest.mark.parametrize(
    ("goal", "d", "within"),
    [
        (-100.0, 2, 1e-2),
        pytest.param(-1000.0, 2, 1e-3, marks=pytest.mark.full),
        pytest.param(-1000.0, 50, 1e-2, marks=pytest.mark.full),
    ],
)
def test_gradient_descent_goes_to_the_machine_and_its_duals(goal: float, d: int, within: float) -> None:
    """Soudry et al. 2018: the angle to the machine falls like 1/log t, and the multipliers become its duals."""
    data = separable(n=40, d=d, seed=3)
    x, y = data.x.double(), data.y
    weight, duals = svm(x, y)
    net = mlp(
        inputs=d,
        widths=[],
        outputs=1,
        init=Gaussian(0.01),
        dtype=torch.float64,
        generator=torch.Generator().manual_seed(0),
    )
    settings: dict[str, Any] = {
        "optimizer": "gd",
        "learning_rate": 0.3,
        "objective": "log-loss",
        "dtype": "float64",
    }
    recipe = Recipe(**settings, epochs=10**6, loss="logistic", stop_below=goal)
    trainer = Trainer([net], x, 2 * y - 1, [recipe])
    smoothed, scaled_angles = [], []
    while not trainer.done:
        trainer.advance(800)
        now = trainer.network(0)
        smoothed.append(margins(now, x, y).smoothed)
        angle = directional_distance({"output.weight": weight[None]}, dict(now.named_parameters()))
        scaled_angles.append(angle * trainer.log_time()[0])
    found = kkt(now, x, y)
    assert float((found.multipliers - duals).abs().max()) < within * float(duals.max())
    assert smoothed == sorted(smoothed)
    assert scaled_angles[-1] == pytest.approx(scaled_angles[-2], rel=0.05)


def lost_of_smoothed(layers: int, **steps: float) -> float:
    """The total decrease of γ̃ from 𝓛 < log 2 on to 10^-60, relative to where it ends."""
    x, y = points(n=12, d=6)
    net = mlp(
        inputs=6,
        widths=[16] * (layers - 1),
        outputs=1,
        init=Gaussian(0.05 if layers == 2 else 0.5),
        dtype=torch.float64,
        generator=torch.Generator().manual_seed(1),
    )
    settings: dict[str, Any] = {"objective": "log-loss", "dtype": "float64", "loss": "logistic"}
    optimizer = SteadyDescent(longest=steps["longest"])
    recipe = Recipe(
        optimizer=optimizer, learning_rate=steps["fall"], epochs=3000, stop_below=-60.0, **settings
    )
    trainer = Trainer([net], x, 2 * y - 1, [recipe])
    smoothed = []
    while not trainer.done:
        trainer.advance(int(steps["every"]))
        now = margins(trainer.network(0), x, y)
        if now.log_loss < math.log(math.log(2)):
            smoothed.append(now.smoothed)
    assert len(smoothed) > 3
    return sum(max(a - b, 0.0) for a, b in itertools.pairwise(smoothed)) / smoothed[-1]


@pytest.mark.parametrize("layers", [2, 3])
def test_the_smoothed_margin_of_a_network_never_decreases_after_t0(layers: int) -> None:
    """Lyu & Li 2020, Theorem 4.1, for steps that follow the flow."""
    assert lost_of_smoothed(layers, longest=0.01, fall=0.5, every=10) <= 1e-12


def test_with_long_steps_it_does() -> None:
    assert lost_of_smoothed(2, longest=1.0, fall=300.0, every=1) > 1e-6
