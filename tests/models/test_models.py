"""Networks: their function, their initial distribution, their names."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from undertow.core.errors import ConfigError
from undertow.models import Gaussian, He, Scaled, activation, mlp, two_layer
from undertow.models.two_layer import Head


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_two_layer_is_its_formula() -> None:
    net = two_layer(
        inputs=6,
        width=5,
        outputs=3,
        init=Gaussian(1.0, bias=1.0),
        bias="both",
        head="gaussian",
        generator=seeded(),
    )
    x = torch.randn(4, 2, 3, generator=seeded(1))
    hidden, output = net.get_submodule("hidden"), net.get_submodule("output")
    assert isinstance(hidden, nn.Linear)
    assert isinstance(output, nn.Linear)
    expected = torch.relu(x.flatten(1) @ hidden.weight.T + hidden.bias) @ output.weight.T + output.bias
    torch.testing.assert_close(net(x), expected)
    assert [name for name, _ in net.named_children()] == ["flatten", "hidden", "activation", "output"]
    assert float(hidden.bias.detach().abs().min()) > 0
    assert output.bias.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("init", "std"),
    [(Scaled(q=0.25), 400**-0.75), (Gaussian(0.3), 0.3), (Gaussian.of_variance(1e-4), 1e-2), (He(), 0.1)],
)
def test_weights_have_the_standard_deviation_asked_for(init: Scaled | Gaussian | He, std: float) -> None:
    net = two_layer(inputs=200, width=400, init=init, head="gaussian", outputs=200, generator=seeded())
    for name in ("hidden.weight", "output.weight"):  # the Gaussian head has the variance of W
        weight = net.get_parameter(name).detach()
        assert float(weight.std()) == pytest.approx(std, rel=0.02)  # 80 000 draws: 0.25 % standard error
        assert abs(float(weight.mean())) < 4 * std / weight.numel() ** 0.5


def test_fixed_heads() -> None:
    def head(kind: Head, outputs: int = 1) -> torch.Tensor:
        net = two_layer(inputs=2, width=6, outputs=outputs, init=Scaled(0), head=kind, generator=seeded())
        return net.get_parameter("output.weight").detach()

    torch.testing.assert_close(head("signs").abs(), torch.full((1, 6), 6**-0.5))
    assert len(set(head("signs", outputs=8).flatten().tolist())) == 2
    torch.testing.assert_close(head("balanced-signs"), torch.tensor([[1.0, 1, 1, -1, -1, -1]]) / 3)
    torch.testing.assert_close(head("mean", outputs=2), torch.full((2, 6), 1 / 6))
    torch.testing.assert_close(
        head("class-means", outputs=2), torch.tensor([[1.0, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]]) / 3
    )


def test_the_seed_decides_and_nothing_else_moves() -> None:
    before = torch.random.get_rng_state()
    nets = [mlp(inputs=3, widths=[4], outputs=2, generator=seeded(seed)) for seed in (0, 0, 1)]
    assert torch.equal(before, torch.random.get_rng_state())
    first, same, other = (net.get_parameter("hidden1.weight") for net in nets)
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_both_precisions_round_the_same_draw() -> None:
    single, double = (
        two_layer(inputs=3, width=4, init=Scaled(0.1), dtype=dtype, generator=seeded())
        for dtype in (torch.float32, torch.float64)
    )
    assert torch.equal(single.get_parameter("hidden.weight"), double.get_parameter("hidden.weight").float())


@pytest.mark.parametrize("power", [1, 2, 3.5])
def test_prelu_is_homogeneous_of_degree_two_and_copies_with_its_layer(power: float) -> None:
    net = two_layer(
        inputs=3,
        width=8,
        activation=f"prelu-p{power}",
        init=Gaussian(1.0),
        dtype=torch.float64,
        generator=seeded(),
    )
    x = torch.randn(5, 3, generator=seeded(1), dtype=torch.float64)
    W, v = net.get_parameter("hidden.weight"), net.get_parameter("output.weight")
    expected = (torch.relu(x @ W.T) ** power / W.norm(dim=1) ** (power - 1)) @ v.T
    torch.testing.assert_close(net(x), expected)
    doubled = copy.deepcopy(net)
    for parameter in doubled.parameters():
        parameter.data *= 2
    torch.testing.assert_close(doubled(x), 4 * net(x))
    assert [name for name, _ in net.named_parameters()] == ["hidden.weight", "output.weight"]


def test_failures_name_the_way_out() -> None:
    with pytest.raises(ConfigError, match="did you mean 'relu'"):
        activation("rellu", layer=nn.Linear(1, 1))
    with pytest.raises(ConfigError, match="no activation 'prelu-p0'"):
        activation("prelu-p0", layer=nn.Linear(1, 1))
    with pytest.raises(ConfigError, match="did you mean 'signs'"):
        two_layer(inputs=1, width=1, init=He(), head="sign", generator=seeded())  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="even width"):
        two_layer(inputs=1, width=3, init=He(), head="balanced-signs", generator=seeded())
    with pytest.raises(ConfigError, match="use a width of 6"):
        two_layer(inputs=1, width=7, outputs=3, init=He(), head="class-means", generator=seeded())
    with pytest.raises(ConfigError, match="width = 0"):
        two_layer(inputs=1, width=0, init=He(), generator=seeded())
    with pytest.raises(ConfigError, match="std = -1"):
        Gaussian(-1.0)
