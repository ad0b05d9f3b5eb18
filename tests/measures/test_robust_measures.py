"""Robustness in a probe: against closed forms, the energy's own measure, and in raw units."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from undertow.adversary import Classifier, robust_accuracy
from undertow.core.errors import ConfigError, InputError
from undertow.core.losses import Loss
from undertow.measures import measure
from undertow.measures.energy import energy
from undertow.measures.first_order_risk import RiskBound
from undertow.measures.robust_accuracy import RobustAccuracy
from undertow.probe.taking import take


def network(*, outputs: int, hidden: bool = True) -> nn.Sequential:
    torch.manual_seed(outputs)
    layers = [nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, outputs)] if hidden else [nn.Linear(6, outputs)]
    return nn.Sequential(*layers)


def points(*, classes: int, n: int = 24) -> tuple[Tensor, Tensor]:
    return torch.randn(n, 6, generator=torch.Generator().manual_seed(3)), torch.arange(n) % classes


def read(kind: RiskBound, net: nn.Module, x: Tensor, y: Tensor) -> dict[str, float]:
    return {key: value for key, value, _ in kind(net, x, y)}


@pytest.mark.parametrize(
    ("outputs", "own", "training"),
    [
        (1, "cross-entropy", "bce"),
        (10, "cross-entropy", "cross-entropy"),
        (2, "cross-entropy", "cross-entropy"),
    ],
)
def test_the_energy_is_that_of_the_loss(outputs: int, own: Any, training: Loss) -> None:
    net, (x, y) = network(outputs=outputs), points(classes=max(outputs, 2))
    found = read(RiskBound(radii=(0.1,), loss=own), net, x, y)
    expected = energy(net, x, y, loss=training, dtype=torch.float64)
    assert found["energy"] == pytest.approx(expected.value, rel=1e-9)
    doubled = read(RiskBound(radii=(0.1,), loss=own, unit=2.0), net, x, y)
    assert doubled["energy"] == pytest.approx(2 * expected.value, rel=1e-9)


def test_a_linear_logit_in_closed_form_at_every_radius() -> None:
    """sup over the ball of log(1 + e^−q) is log(1 + e^(r‖w‖ − q))."""
    net, (x, y) = network(outputs=1, hidden=False), points(classes=2)
    radii = (0.001, 0.03, 0.5, 4.0)
    found = read(RiskBound(radii=radii), net, x, y)
    copy = network(outputs=1, hidden=False).double()
    weight = copy[0].weight
    assert isinstance(weight, Tensor)
    margins = copy(x.double()).detach()[:, 0] * (2 * y - 1)
    for r in radii:
        worst = nn.functional.softplus(r * weight.detach().norm() - margins).mean().item()
        rise, expected = found[f"adversarial@{r!r}"] - found["risk"], worst - found["risk"]
        assert rise == pytest.approx(expected, rel=3e-6)
        assert found[f"bound@{r!r}"] == pytest.approx(found["risk"] + r * found["energy"], rel=1e-12)
        assert found[f"gap@{r!r}"] == pytest.approx(found[f"bound@{r!r}"] - found[f"adversarial@{r!r}"])
    assert found["gap@0.001"] > 0 > found["gap@4.0"]
    held = [r for r in radii if found[f"gap@{r!r}"] >= 0]
    assert found["holds_up_to"] == max(held)


def test_radii_are_in_raw_units() -> None:
    """A network that sees 2x − 1 is attacked at r where one that sees x is attacked at 2r."""
    net, (x, y) = network(outputs=3), points(classes=3)
    raw = read(RiskBound(radii=(0.1, 0.4), unit=2.0), net, x, y)
    seen = read(RiskBound(radii=(0.2, 0.8)), net, x, y)
    for r in (0.1, 0.4):
        assert raw[f"adversarial@{r!r}"] == pytest.approx(seen[f"adversarial@{2 * r!r}"], rel=1e-4)
        assert raw[f"bound@{r!r}"] == pytest.approx(seen[f"bound@{2 * r!r}"], rel=1e-9)


def test_measuring_leaves_the_network_in_its_precision_and_is_deterministic() -> None:
    net, (x, y) = network(outputs=1), points(classes=2)
    kinds = [RiskBound(radii=(0.1,))]
    first, again = (take(net, x, y, measures=kinds) for _ in range(2))
    assert first == again
    assert {p.dtype for p in net.parameters()} == {torch.float32}
    assert all(p.grad is None for p in net.parameters())


def test_small_logits_are_not_taken_for_probabilities() -> None:
    net, (x, y) = nn.Sequential(nn.Linear(6, 1), nn.Sigmoid()), points(classes=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(RiskBound(radii=(0.1,))(net, x, y))


def test_robust_accuracy_of_a_line_and_in_a_box() -> None:
    net, y = nn.Linear(1, 1, bias=False), torch.ones(4, dtype=torch.int64)
    nn.init.ones_(net.weight)
    x = torch.tensor([[-0.1], [0.2], [0.6], [1.0]])
    free = {key: value for key, value, _ in RobustAccuracy(eps=(0.05, 0.5), attack="pgd")(net, x, y)}
    assert free == {"0.05": 0.75, "0.5": 0.5}
    halved = RobustAccuracy(eps=(0.25,), attack="pgd", unit=2.0)
    assert [value for _, value, _ in halved(net, x, y)] == [0.5]
    boxed = RobustAccuracy(eps=(0.5,), attack="pgd", box=(0.15, 1.0))
    assert [value for _, value, _ in boxed(net, x[1:], y[1:])] == [1.0]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"radii": [0.5, 0.1]}, "must increase"),
        ({"radii": []}, "risk-bound.radii: give one radius at least"),
        ({"radii": "0.1"}, "risk-bound.radii = '0.1' must be a list"),
        ({"radii": [0.0]}, "risk-bound.radii.0 = 0.0: should be greater than 0"),
        ({"radii": [math.inf]}, "risk-bound.radii.0 = inf: should be a finite number"),
        ({"unit": -1.0}, "risk-bound.unit = -1.0: should be greater than 0"),
        (
            {"loss": "crossentropy"},
            "risk-bound.loss = 'crossentropy' is not known; did you mean 'cross-entropy'",
        ),
        ({"dtype": "float16"}, "risk-bound.dtype = 'float16' is not known; did you mean 'float"),
        ({"radius": [0.1]}, "did you mean 'radii'"),
    ],
)
def test_bad_options_are_told(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        measure("risk-bound", **options)


def test_labels_are_needed() -> None:
    with pytest.raises(InputError, match="risk-bound needs labels"):
        list(RiskBound()(network(outputs=2), points(classes=2)[0], None))
    with pytest.raises(ConfigError, match="smallest and the largest"):
        RobustAccuracy(box=(1.0, 0.0))


def raw_images(n: int = 16) -> tuple[Tensor, Tensor, Tensor]:
    raw = torch.rand(n, 6, generator=torch.Generator().manual_seed(5))
    norms = raw.norm(dim=1)
    return raw, norms, raw / norms[:, None]


@pytest.mark.filterwarnings("ignore:the network seems to return probabilities")
@pytest.mark.parametrize("hidden", [True, False])
def test_unit_norm_inputs_are_attacked_as_the_raw_ones_they_were(hidden: bool) -> None:
    """Against the closed form of a linear logit without offset, and against the plain attack on x ↦ net(x/‖x‖)."""
    raw, norms, seen = raw_images()
    net, y = network(outputs=1, hidden=hidden), torch.arange(16) % 2
    kind = RobustAccuracy(eps=(0.05, 0.2), attack="apgd-ce+fab-t", normalise="unit-norm")
    if not hidden:
        assert isinstance(net[0], nn.Linear)
        nn.init.zeros_(net[0].bias)
    found = {key: value for key, value, _ in kind.about({"raw_norm": norms})(net, seen, y)}
    for eps in (0.05, 0.2):
        wrapped = Classifier(lambda v: net(v / v.norm(dim=1, keepdim=True)))
        plain = robust_accuracy(wrapped, raw, y, eps=eps, attack=["apgd-ce", "fab-t"])
        assert found[repr(eps)] == plain.value
        if not hidden:
            weight = next(net.parameters()).detach()[0]
            margins = (raw @ weight) * (2 * y - 1) / weight.norm()
            assert found[repr(eps)] == (margins > eps).double().mean().item()
    boxed = RobustAccuracy(eps=(0.2,), attack="apgd-ce", normalise="unit-norm", box=(0.0, 1.0))
    inside = next(iter(boxed.about({"raw_norm": norms})(net, seen, y)))[1]
    assert inside >= found["0.2"]


def test_raw_norms_are_needed_where_they_are_undone() -> None:
    kind = RobustAccuracy(normalise="unit-norm")
    with pytest.raises(InputError, match="do not know theirs"):
        kind.about({})
    with pytest.raises(InputError, match=r"RobustAccuracy\.about"):
        list(kind(network(outputs=1), *points(classes=2)))
    assert RobustAccuracy().about({}) == RobustAccuracy()
    with pytest.raises(ConfigError, match="did you mean 'unit-norm'"):
        measure("robust-accuracy", normalise="unitnorm")


def test_networks_attacked_together_are_those_attacked_alone() -> None:
    nets = [network(outputs=3), network(outputs=3)]
    torch.manual_seed(9)
    nn.init.normal_(nets[1][0].weight)  # type: ignore[arg-type]
    x, y = points(classes=3)
    kind = RobustAccuracy(eps=(0.1, 0.4), attack="apgd-ce")
    together = kind.batched(nets, x, y)
    assert together == [list(kind(net, x, y)) for net in nets]
    assert together[0] != together[1]
