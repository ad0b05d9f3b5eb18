"""Margins: by hand in Python's floats, under scaling, and where the loss is far below the smallest float."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import undertow as ut
from undertow.core.errors import InputError, ModelError
from undertow.core.losses import Loss
from undertow.core.status import Status
from undertow.measures.homogeneity import homogeneity
from undertow.measures.margins import Margins, margins, smoothed_gap
from undertow.models import cnn, vgg


def net_of(outputs: int, *, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    layers = [nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5, bias=False), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(5, outputs, bias=False)).double()


def points(count: int = 30, outputs: int = 3) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(count, 4, generator=draw, dtype=torch.float64)
    return x, torch.randint(max(2, outputs), (count,), generator=draw)


@pytest.mark.parametrize(
    ("loss", "outputs"), [("logistic", 1), ("exponential", 1), ("bce", 1), ("cross-entropy", 3)]
)
def test_every_number_is_what_its_formula_gives(loss: Loss, outputs: int) -> None:
    net, (x, y) = net_of(outputs), points(outputs=outputs)
    found = margins(net, x, y, loss=loss)
    q, losses = [], []
    for score, label in zip(net(x).tolist(), y.tolist(), strict=True):
        if outputs == 1:
            q.append(score[0] * (2 * label - 1))
            losses.append(math.exp(-q[-1]) if loss == "exponential" else math.log1p(math.exp(-q[-1])))
        else:
            rivals = [s for j, s in enumerate(score) if j != label]
            q.append(score[label] - max(rivals))
            losses.append(math.log(sum(math.exp(s - score[label]) for s in score)))
    rho = math.sqrt(sum(float(p.detach().square().sum()) for p in net.parameters()))
    norms = {name: float(p.detach().norm()) for name, p in net.named_parameters()}
    product = math.hypot(norms["0.weight"], norms["0.bias"]) * norms["2.weight"] * norms["4.weight"]
    total = sum(losses)
    inverse = -math.log(total) if loss == "exponential" else -math.log(math.expm1(total))
    assert found.value.tolist() == pytest.approx(q)
    assert found.smallest == pytest.approx(min(q))
    assert (found.order, found.homogeneous, found.status) == (3.0, True, Status.EXACT)
    assert found.norm == pytest.approx(rho)
    assert found.normalised == pytest.approx(min(q) / rho**3)
    assert found.by_layers == pytest.approx(min(q) / product)
    assert found.log_loss == pytest.approx(math.log(total))
    assert found.smoothed == pytest.approx(inverse / rho**3)


def test_smoothed_and_sharp_margin_are_as_near_as_the_invariant_says() -> None:
    """0 ≤ γ̄ − γ̃ ≤ log(n(C − 1))/ρ^L for the summed loss; of the logistic loss only where that is small."""
    net, (x, _) = net_of(3), points()
    y = net(x).argmax(1)
    for scale in (10.0, 30.0, 100.0):
        grown = net_of(3)
        with torch.no_grad():
            for weight in grown.parameters():
                weight.mul_(scale)
        found = margins(grown, x, y)
        gap = (found.normalised - found.smoothed) * found.norm**3
        assert -1e-9 * found.smallest <= gap <= math.log(len(x) * 2) + 1e-9 * found.smallest


@pytest.mark.parametrize("units", [1e9, 1e-9])
def test_scaling_a_homogeneous_network_leaves_the_normalised_margins(units: float) -> None:
    net, (x, _) = net_of(3), points()
    y = net(x).argmax(1)
    before = margins(net, x, y)
    with torch.no_grad():
        for weight in net.parameters():
            weight.mul_(units)
    after = margins(net, x, y)
    assert after.normalised == pytest.approx(before.normalised, rel=1e-9)
    assert after.by_layers == pytest.approx(before.by_layers, rel=1e-9)
    assert (after.order, after.support.tolist()) == (3.0, before.support.tolist())
    if units > 1:  # the loss is then 10^-(10^26): the smoothed margin is the sharp one
        assert after.smoothed == pytest.approx(before.normalised, rel=1e-9)


def test_a_loss_of_ten_to_the_minus_ten_thousand_is_a_number() -> None:
    net = nn.Linear(1, 1, bias=False).double()
    with torch.no_grad():
        net.weight.fill_(10_000 * math.log(10))
    found = margins(net, torch.tensor([[1.0], [-1.0]]), torch.tensor([1, -1]))
    assert found.log10_loss == pytest.approx(math.log10(2) - 10_000, rel=1e-12)
    assert found.smoothed == pytest.approx(1 - math.log(2) / (10_000 * math.log(10)), rel=1e-12)
    assert smoothed_gap(-1e6, "logistic") == 1e6
    # Where the network knows nothing, and where it is wrong beyond all floats.
    assert smoothed_gap(math.log(math.log(4)), "logistic") == pytest.approx(
        -math.log(3), rel=1e-12
    )  # e^𝓛 − 1 = 3
    assert smoothed_gap(800.0, "logistic") == -math.inf


def test_one_logit_and_two_classes_agree() -> None:
    net, (x, y) = net_of(1), points(outputs=1)
    two: Any = nn.Sequential(*net[:-1], nn.Linear(5, 2, bias=False)).double()
    with torch.no_grad():
        two[-1].weight.copy_(torch.cat([torch.zeros(1, 5), net[-1].weight]))
    one, both = margins(net, x, y), margins(two, x, y)
    assert torch.allclose(one.value, both.value)
    assert one.normalised == pytest.approx(both.normalised)  # the new row of zeros has no norm
    assert one.smoothed == pytest.approx(both.smoothed)
    for labels in (2 * y - 1, y.to(torch.uint8), y.bool(), y.float()):
        assert margins(net, x, labels).value.equal(one.value)


def test_order_of_samples_chunks_and_ties() -> None:
    net, (x, y) = net_of(3), points()
    whole, pieces = margins(net, x, y), margins(net, x, y, chunk=7)
    turned = margins(net, x.flip(0), y.flip(0))
    assert torch.allclose(whole.value, pieces.value, rtol=1e-12)
    assert torch.allclose(whole.value, turned.value.flip(0), rtol=1e-12)
    assert whole.smoothed == pytest.approx(turned.smoothed, rel=1e-12)
    tied = nn.Linear(2, 3, bias=False).double()
    with torch.no_grad():
        tied.weight.copy_(torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]))
    found = margins(tied, torch.tensor([[1.0, 5.0], [1.0, 7.0]]), torch.tensor([0, 1]))
    assert found.value.tolist() == [0.0, 0.0]
    assert found.normalised == 0.0
    assert found.support.tolist() == [0, 1]


def test_networks_that_are_not_homogeneous_are_told() -> None:
    x, y = points()
    torch.manual_seed(0)
    biased = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)).double()
    found = margins(biased, x, y)
    assert not found.homogeneous
    assert found.order == 2.0  # of the terms that lead
    assert "biases beyond the first layer: 2.bias" in found.sentence
    norm = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)).double().eval()
    assert "BatchNorm: 1" in margins(norm, x, y).sentence
    flat = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3), nn.Tanh()).double()
    assert "does not grow" in margins(flat, x, y).sentence
    assert math.isnan(margins(flat, x, y).normalised)
    assert "normalised" not in [key for key, _, _ in Margins()(flat, x, y)]


class Divided(nn.Module):
    """Wx/‖W‖^power, of order 1 − power in W."""

    def __init__(self, power: float) -> None:
        super().__init__()
        self.weight, self.power = nn.Parameter(torch.eye(4, dtype=torch.float64)[:3] + 0.1), power

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight.T / self.weight.norm() ** self.power


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0, 3.0])
def test_an_order_may_be_a_fraction_or_zero_or_negative(power: float) -> None:
    net, x = Divided(power), points()[0]
    y = net(x).argmax(1)
    found = margins(net, x, y)
    assert found.homogeneous
    assert found.order == pytest.approx(1 - power, abs=1e-12)
    assert found.normalised == pytest.approx(
        found.smallest / float(net.weight.detach().norm()) ** (1 - power)
    )
    assert math.isnan(found.by_layers)  # no whole number of layers has such an order
    kept = {key: value for key, value, _ in Margins()(net, x, y)}
    with torch.no_grad():
        net.weight.mul_(7.0)
    for key, value, _ in Margins()(net, x, y):
        assert key in ("smallest", "smoothed", "log10-loss", "norm") or value == pytest.approx(kept[key])
    assert ("make no larger margins" in found.sentence) == (power >= 1)
    kkt = ut.kkt(net, x, y)
    assert kkt.feasible
    assert bool(kkt.multipliers.isfinite().all())
    if power >= 1:
        assert "make no larger margins" in kkt.sentence
        # ⟨θ, ∇q⟩ = L q, so that nothing shortens θ.
        assert kkt.residual == pytest.approx(1.0)


def test_what_makes_a_network_not_homogeneous_is_named() -> None:
    x, y = points()
    smooth = nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 3, bias=False)).double()
    assert "(activations that bend: 1 (gelu))" in margins(smooth, x, y).sentence
    norm = nn.LayerNorm(6)
    normed = nn.Sequential(nn.Linear(4, 6), norm, nn.ReLU(), nn.Linear(6, 3, bias=False)).double()
    assert "(norms with an ε: 1)" in margins(normed, x, y).sentence
    norm.eps = 0.0  # its own bias is of the order of its weight
    with torch.no_grad():
        norm.bias.fill_(0.3)
    assert margins(normed, x, y).homogeneous


@pytest.mark.parametrize(("build", "order"), [("cnn", 4.0), ("vgg16", 14.0)])
def test_the_convolutional_networks_have_the_order_of_their_layers(build: str, order: float) -> None:
    generator = torch.Generator().manual_seed(0)
    net: nn.Module
    if build == "cnn":
        net = cnn(
            image=(1, 8, 8), stages=[(4,), (6,)], kernels=(5, 3), dense=(9,), outputs=3, generator=generator
        )
        x = torch.rand(5, 64)
    else:
        net, x = vgg(16, width=2, outputs=3, generator=generator), torch.rand(3, 3072)
    with torch.no_grad():
        next(p for n, p in net.named_parameters() if n == "conv1.bias").normal_(generator=generator)
    found = homogeneity(net, x)
    assert (found.order, found.homogeneous) == (order, True)


def test_a_part_of_the_parameters_has_its_own_norm_and_order() -> None:
    net, (x, y) = net_of(3), points()
    found = margins(net, x, y, parameters=["0"])
    assert found.order == 1.0
    assert found.norm == pytest.approx(math.hypot(*(float(p.detach().norm()) for p in net[0].parameters())))


def test_what_cannot_be_measured_is_told() -> None:
    net, (x, y) = net_of(3), points()
    with pytest.raises(InputError, match="one label for each"):
        margins(net, x, y[:-1])
    with pytest.raises(InputError, match=r"one label for each \(of one-hot rows y.argmax\(1\) does\)"):
        margins(net, x, nn.functional.one_hot(y, 3))
    with pytest.raises(InputError, match=r"one label for each \(y.flatten\(\) does\)"):
        margins(net, x, y[:, None])
    with pytest.raises(InputError, match="no parameter begins with hidden"):
        margins(net, x, y, parameters=["hidden"])
    for tolerance in (-1, math.nan):
        with pytest.raises(InputError, match="tolerance"):
            margins(net, x, y, tolerance=tolerance)
    for chunk in (-1, 0, 2.5):
        with pytest.raises(InputError, match=r"chunk = .* 1 or more"):
            margins(net, x, y, chunk=chunk)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="holds no scores"):
        margins(net, x, y, dtype=torch.int64)
    with pytest.raises(ModelError, match=r"cannot take x of shape \(30, 3\)"):
        margins(net, x[:, :3], y)
    with pytest.raises(InputError, match="x has entries that are not finite"):
        margins(net, x / 0, y)
    net.register_parameter("unused", nn.Parameter(torch.tensor(math.inf, dtype=torch.float64)))
    with pytest.raises(ModelError, match="unused has entries that are not finite"):
        margins(net, x, y)
    for size in (1e160, 1e-170):
        with torch.no_grad():
            net.unused.fill_(size)
        with pytest.raises(ModelError, match="no float64 holds"):
            margins(net, x, y)
    with torch.no_grad():
        net.unused.fill_(1.0)
        net[0].weight.fill_(1e20)
        net[2].weight.fill_(1e20)
    assert margins(net, x, y).order == 3
    with pytest.raises(ModelError, match="not finite in float32"):
        margins(net, x, y, dtype=torch.float32)


def test_nothing_is_left_behind_and_the_names_are_public() -> None:
    net, (x, y) = net_of(3).float().train(), points()
    before: dict[str, Any] = {name: p.clone() for name, p in net.state_dict().items()}
    found = ut.margins(net, x.float(), y)
    assert found.value.dtype == torch.float64
    assert net.training
    assert all(p.requires_grad and p.grad is None for p in net.parameters())
    assert all(torch.equal(p, before[name]) for name, p in net.state_dict().items())
    assert [key for key, _, _ in Margins()(net, x.float(), y)][:4] == [
        "smallest",
        "normalised",
        "by-layers",
        "smoothed",
    ]
