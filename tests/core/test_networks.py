"""What reads a network's layers instead of calling it must not believe a network that does more than it shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.adversary.cases import Sine
from undertow.adversary import Classifier
from undertow.adversary.certificates.linear_bounds import LinearBounds
from undertow.adversary.certificates.network_graph import graph_of
from undertow.adversary.exact.row_space import in_row_space
from undertow.adversary.stacked_networks import stacked
from undertow.core.activations import ACTIVATIONS
from undertow.core.errors import ModelError
from undertow.core.networks import DenseChain, LayerChain, NotAChain, read_dense, read_layers
from undertow.jacobian.batched_norms import batched_norms
from undertow.jacobian.cutting import split
from undertow.measures.feature_steps import two_layer_parts
from undertow.training.stacked import StackedMLP, dense_layers

X = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))


class _Negated(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        negative: Tensor = -super().forward(x)
        return negative


class _Doubled(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


def _parts(first: type[nn.Linear] = nn.Linear) -> list[nn.Module]:
    torch.manual_seed(0)
    return [first(3, 4), nn.ReLU(), nn.Linear(4, 2, bias=False)]


def _hooked() -> nn.Sequential:
    net = nn.Sequential(*_parts())
    net[0].register_forward_hook(lambda _module, _inputs, output: 2 * output)
    return net


def _patched(inner: bool) -> nn.Sequential:
    net = nn.Sequential(*_parts())
    place = net[2] if inner else net
    forward = place.forward
    place.forward = lambda x: -forward(x)  # type: ignore[method-assign]
    return net


MORE_THAN_IT_SHOWS: dict[str, Callable[[], nn.Module]] = {
    "a subclass of Sequential": lambda: _Negated(*_parts()),
    "a subclass of Linear": lambda: nn.Sequential(*_parts(_Doubled)),
    "a hook": _hooked,
    "a forward of its own": lambda: _patched(inner=False),
    "a layer's forward of its own": lambda: _patched(inner=True),
}


@pytest.mark.parametrize("make", MORE_THAN_IT_SHOWS.values(), ids=MORE_THAN_IT_SHOWS)
def test_a_network_that_does_more_than_it_shows_is_called_and_not_read(make: Callable[[], nn.Module]) -> None:
    net = make().eval()
    assert isinstance(read_dense(net), NotAChain)
    assert dense_layers(net) is None
    graph = graph_of(Classifier(net), net, X)  # recorded as it computes, not read off its layers
    assert graph is not None
    with Classifier(net).scoring(X) as scorer:
        scores = graph.values(X)[graph.output].flatten(1)
        torch.testing.assert_close(
            scores - scores[:, :1],
            (scorer.clean(X)[0] - scorer.clean(X)[0][:, :1]).double(),
            atol=1e-5,
            rtol=1e-5,
        )
    with pytest.raises(ModelError, match="features are read off"):
        two_layer_parts(net)
    together = stacked([net, net])(torch.stack([X, X]))
    torch.testing.assert_close(together, torch.stack([net(X), net(X)]))
    head, tail = split(net, "1", x=X)
    torch.testing.assert_close(head(tail(X)), net(X))


@pytest.mark.parametrize(
    "name", ["a subclass of Sequential", "a subclass of Linear", "a hook", "a forward of its own"]
)
def test_the_row_space_is_not_read_off_such_a_network(name: str) -> None:
    with pytest.raises(ModelError, match="row space"):
        in_row_space(MORE_THAN_IT_SHOWS[name]().eval(), X)


def test_nested_sequences_are_read_everywhere() -> None:
    parts = _parts()
    nested, flat = nn.Sequential(nn.Sequential(*parts[:2]), parts[2]).eval(), nn.Sequential(*parts).eval()
    chain = read_layers(nested)
    assert isinstance(chain, LayerChain)
    assert [layer.module for layer in chain.layers] == parts
    assert [layer.name for layer in chain.layers] == ["0.0", "0.1", "1"]
    torch.testing.assert_close(stacked([nested])(X[None])[0], flat(X))
    small, points = in_row_space(nested, X)
    torch.testing.assert_close(small(points).float(), flat(X))
    assert torch.equal(two_layer_parts(nested).weight, two_layer_parts(flat).weight)
    assert [layer.weight for layer in dense_layers(nested) or []] == ["0.0.weight", "1.weight"]


LAYERS: dict[str, nn.Module] = {
    "Conv1d": nn.Conv1d(2, 2, 3, padding=1),
    "Conv2d": nn.Conv2d(2, 2, 3, padding=1),
    "Conv3d": nn.Conv3d(2, 2, 3, padding=1),
    "AvgPool1d": nn.AvgPool1d(3, 1, 1),
    "AvgPool2d": nn.AvgPool2d(3, 1, 1),
    "AvgPool3d": nn.AvgPool3d(3, 1, 1),
    "AdaptiveAvgPool1d": nn.AdaptiveAvgPool1d(4),
    "AdaptiveAvgPool2d": nn.AdaptiveAvgPool2d(4),
    "AdaptiveAvgPool3d": nn.AdaptiveAvgPool3d(4),
    "BatchNorm1d": nn.BatchNorm1d(2),
    "BatchNorm2d": nn.BatchNorm2d(2),
    "BatchNorm3d": nn.BatchNorm3d(2),
}


@pytest.mark.parametrize("name", LAYERS)
def test_certificates_read_every_affine_layer_that_the_reader_knows(name: str) -> None:
    """The graph computes what the network computes, and |W| m + |b| is at least as large."""
    torch.manual_seed(0)
    axes = int(name[-2])
    layer = LAYERS[name]
    if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
        assert layer.running_mean is not None
        layer.running_mean.uniform_(-1, 1)
    net = nn.Sequential(
        layer, nn.LeakyReLU(0.2), nn.Dropout(), nn.Flatten(), nn.Linear(2 * 4**axes, 3)
    ).eval()
    x = torch.randn(6, 2, *[4] * axes)
    graph = graph_of(Classifier(net), net, x)
    assert graph is not None
    values = graph.values(x)
    ball = LinearBounds(graph, 2.0).ball(x, torch.zeros(len(x)))
    for index, each in enumerate(values):
        assert bool((each.abs() <= ball.sizes[index] + 1e-9).all())
    value = values[graph.output].flatten(1)
    # what all scores have in common is left out
    expected = net(x).double() - list(net.parameters())[-1][0].double()
    torch.testing.assert_close(value, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("module", [Sine(), nn.BatchNorm2d(2, track_running_stats=False)])
def test_certificates_refuse_what_they_have_no_bounds_of(module: nn.Module) -> None:
    net = nn.Sequential(module, nn.Flatten()).eval()
    assert graph_of(Classifier(net), net, torch.randn(2, 2, 4, 4)) is None


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_is_read_by_norms_attacks_and_training_alike(name: str) -> None:
    """Norms beside dense Jacobians, batched scores and gradients written by hand beside autograd."""
    torch.manual_seed(0)
    nets = [
        nn.Sequential(nn.Flatten(), nn.Linear(6, 5), ACTIVATIONS[name](), nn.Linear(5, 3)).double().eval()
        for _ in range(2)
    ]
    x = 3 * torch.randn(4, 2, 3, dtype=torch.float64)
    assert isinstance(read_dense(nets[0], inputs=x), DenseChain)
    for net, norms in zip(nets, batched_norms(nets, x), strict=True):
        dense = [torch.autograd.functional.jacobian(net, each[None]).reshape(3, 6) for each in x]
        torch.testing.assert_close(
            norms.value, torch.stack([torch.linalg.matrix_norm(each, 2) for each in dense])
        )
    torch.testing.assert_close(stacked(nets)(torch.stack([x, x])), torch.stack([net(x) for net in nets]))
    layers = dense_layers(nets[0])
    assert layers is not None
    ensemble = StackedMLP(nets, layers, frozen=[], dtype=torch.float64, device=torch.device("cpu"))
    outputs, kept = ensemble.forward(x, own=False)
    pull = torch.randn_like(outputs)
    onto = {key: torch.zeros_like(weight) for key, weight in ensemble.weights.items()}
    ensemble.backward(kept, pull.clone(), onto=onto)
    for member, net in enumerate(nets):
        torch.testing.assert_close(outputs[member], net(x))
        gradients = torch.autograd.grad(net(x), list(net.parameters()), pull[member])
        for (key, _), gradient in zip(net.named_parameters(), gradients, strict=True):
            torch.testing.assert_close(onto[key][member], gradient)


def test_the_reader_says_why_not() -> None:
    def reason(net: object, **options: Any) -> str:
        found = read_dense(net, **options)
        assert isinstance(found, NotAChain)
        return found.reason

    assert reason(lambda x: x) == "a function has no layers to read"
    assert reason(nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))).startswith("'1' (LayerNorm) is neither")
    assert reason(nn.Sequential(nn.ReLU(), nn.Linear(2, 2))).startswith("'0' (ReLU)")
    assert reason(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Tanh())).startswith("'2' (Tanh)")
    assert reason(nn.Identity()) == "there is no linear layer"
    assert "reach the first linear layer" in reason(nn.Linear(2, 2), inputs=torch.ones(1, 3, 2))
    assert "Dropout" in reason(nn.Sequential(nn.Linear(2, 2), nn.Dropout()), training=True)
    assert "hook" in reason(_hooked())


def test_weights_that_two_layers_share_are_not_stacked() -> None:
    once = nn.Linear(3, 3)
    assert dense_layers(nn.Sequential(once, nn.ReLU(), once)) is None
    tied = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    tied[2].weight = tied[0].weight
    assert dense_layers(tied) is None


def test_dropout_at_work_is_not_stacked_for_training() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.Dropout(), nn.Linear(3, 1))
    assert dense_layers(net) is None
    assert isinstance(read_dense(net), DenseChain)
