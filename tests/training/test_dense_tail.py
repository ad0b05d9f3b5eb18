"""Fully connected layers behind convolutions, taken out of what autograd records: the same logits and gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from undertow.models import cnn
from undertow.training import mapped
from undertow.training.mapped import _before_dense
from undertow.training.stacked import _by_pieces
from undertow.training.stacking import stack_networks


def network(seed: int) -> nn.Module:
    draw = torch.Generator().manual_seed(seed)
    sizes = {"image": (1, 6, 6), "stages": [(3,), (4,)], "kernels": (5, 3), "dense": (7,), "outputs": 3}
    return cnn(**sizes, bias="all", generator=draw).double()  # type: ignore[arg-type]


def found(members: int, frozen: tuple[str, ...], *, own: bool) -> dict[str, Tensor]:
    """Logits and gradients, with other numbers in the places before."""
    draw = torch.Generator().manual_seed(5)
    stack = stack_networks(
        [network(seed) for seed in range(members)],
        frozen=frozen,
        dtype=torch.float64,
        device=torch.device("cpu"),
    )
    x = torch.rand(*((members,) if own else ()), 5, 36, generator=draw, dtype=torch.float64)
    logits, kept = stack.forward(x, own=own)
    onto = {name: torch.ones_like(stack.weights[name]) for name in stack.trained}
    stack.backward(kept, torch.randn(logits.shape, generator=draw, dtype=torch.float64), onto=onto)
    return {"logits": logits, **onto}


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize(
    "frozen",
    [
        (),
        ("dense1.weight", "output.bias"),
        ("conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias"),
        ("dense1.weight", "dense1.bias", "output.weight", "output.bias"),
    ],
)
def test_logits_and_gradients_are_those_of_autograd(
    members: int, frozen: tuple[str, ...], own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = found(members, frozen, own=own)
    assert len(_before_dense(network(0))[1]) == 2
    monkeypatch.setattr(mapped, "_before_dense", lambda net: (net, []))
    theirs = found(members, frozen, own=own)
    assert set(ours) == set(theirs)
    assert not any(name in ours for name in frozen)
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=1e-12, atol=1e-12)


def test_what_has_no_such_layers_is_left_whole() -> None:
    shared = nn.Linear(4, 4)
    convolution = nn.Conv2d(1, 1, 1)
    hooked = nn.Sequential(convolution, nn.Flatten(), nn.Linear(4, 4))
    hooked.register_forward_hook(lambda *_: None)
    for net in (
        nn.Sequential(convolution, nn.Flatten()),
        nn.Sequential(convolution, nn.Flatten(), nn.Linear(4, 4), nn.BatchNorm1d(4)),
        nn.Sequential(nn.Flatten(), shared, nn.Unflatten(1, (1, 2, 2)), convolution, nn.Flatten(), shared),
        hooked,
    ):
        assert _before_dense(net) == (net, [])


def test_a_product_by_pieces_is_the_product() -> None:
    draw = torch.Generator().manual_seed(0)
    weight = torch.randn(10, 1024, generator=draw, dtype=torch.float64)
    h = torch.randn(7, 1024, generator=draw, dtype=torch.float64)
    torch.testing.assert_close(_by_pieces(weight, h.T), weight @ h.T, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(_by_pieces(weight, h.T.contiguous()), weight @ h.T, rtol=1e-12, atol=1e-12)
