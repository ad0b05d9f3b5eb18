"""What reads a network's layers instead of calling it must not believe a network that does more than it shows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from undertow.adversary import Classifier
from undertow.adversary.certificates.network_graph import graph_of
from undertow.adversary.exact.row_space import in_row_space
from undertow.adversary.stacked_networks import stacked
from undertow.core.errors import ModelError
from undertow.core.sequences import unrolled
from undertow.jacobian.cutting import split
from undertow.jacobian.layered import layers_of
from undertow.measures.feature_steps import two_layer_parts
from undertow.training.stacked import dense_layers

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
    assert layers_of(net) is None
    assert dense_layers(net) is None
    graph = graph_of(Classifier(net), net, X)  # recorded as it computes, not read off its layers
    assert graph is not None
    scores = graph.values(X)[graph.output].flatten(1)
    with Classifier(net).scoring(X) as scorer:
        torch.testing.assert_close(scores, scorer.clean(X)[0].double(), atol=1e-6, rtol=1e-5)
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
    assert unrolled(nested) == parts
    torch.testing.assert_close(stacked([nested])(X[None])[0], flat(X))
    small, points = in_row_space(nested, X)
    torch.testing.assert_close(small(points).float(), flat(X))
    assert torch.equal(two_layer_parts(nested).weight, two_layer_parts(flat).weight)
