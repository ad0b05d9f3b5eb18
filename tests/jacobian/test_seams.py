"""Cutting networks: parts compose to the whole, and what is no seam is refused by name."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import undertow as ut
from undertow.core.errors import SeamError

from ..model_cases import CASES, Case, Residual


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_head_after_tail_is_the_network(case: Case) -> None:
    net, x = case.make(5)
    expected = net(x.clone())
    for seam in ut.seams(net, x):
        head, tail = ut.split(net, seam, x=x)
        torch.testing.assert_close(head(tail(x.clone())), expected)
    places = ut.seams(net, x)
    if places:
        value = x.clone()
        for part in ut.chain(net, places, x=x):
            value = part(value)
        torch.testing.assert_close(value, expected)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_listed_seam_passes_the_gradient_check_and_no_other_does(case: Case) -> None:
    net, x = case.make(3)
    listed = set(ut.seams(net, x))
    accepted = set()
    for name in dict(net.named_modules()):
        if name:
            try:
                ut.split(net, name, x=x)
                accepted.add(name)
            except SeamError:
                pass
    assert listed <= accepted


def test_residual_network() -> None:
    net = Residual().eval()
    x = torch.randn(3, 2, 6, 6)
    assert ut.seams(net, x) == ["stem", "pool"]
    with pytest.raises(SeamError, match=r"'conv1' is bypassed.*skip connection"):
        ut.split(net, "conv1", x=x)
    with pytest.raises(SeamError, match="'relu' runs 2 times"):
        ut.split(net, "relu", x=x)
    with pytest.raises(SeamError, match="never runs 'join'"):
        ut.split(net, "join", x=x)
    with pytest.raises(SeamError, match="did you mean 'pool'"):
        ut.split(net, "pol", x=x)


def test_a_block_is_listed_once_under_its_shortest_name() -> None:
    net = nn.ModuleDict(
        {"body": nn.Sequential(nn.Sequential(nn.Linear(4, 5), nn.Tanh()), nn.ReLU()), "read": nn.Linear(5, 2)}
    )

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = net

        def forward(self, x: Tensor) -> Tensor:
            return self.parts["read"](self.parts["body"](x))  # type: ignore[no-any-return]

    assert ut.seams(Net()) == ["parts.body.0.0", "parts.body.0", "parts.body"]


def test_an_output_in_several_pieces_is_no_seam() -> None:
    class Halves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(4, 6)
            self.pick = nn.Identity()

        def forward(self, x: Tensor) -> Tensor:
            left, right = self.first(x).chunk(2, dim=1)
            return self.pick(left) * right  # type: ignore[no-any-return]

    assert ut.seams(Halves()) == ["first"]


def test_seams_of_a_network_in_train_mode_leaves_it_there() -> None:
    net = Residual().train()
    before = net.norm.running_mean.clone()  # type: ignore[union-attr,operator]
    assert ut.seams(net) == ["stem", "pool"]
    assert net.training
    assert torch.equal(net.norm.running_mean, before)  # type: ignore[arg-type]


def test_head_alone_learns_the_input_from_the_tail() -> None:
    net = Residual().eval()
    head, tail = ut.split(net, "pool")
    with pytest.raises(SeamError, match="call the tail once before"):
        head(torch.zeros(2, 6, 3, 3))
    x = torch.randn(3, 2, 6, 6)
    torch.testing.assert_close(head(tail(x)), net(x))
    assert head(torch.zeros(7, 6, 3, 3)).shape[0] == 7


def test_no_input_can_be_made_up() -> None:
    class Odd(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x[:, :, 3, 4, 5]

    with pytest.raises(SeamError, match=r"seams\(net, x\[:2\]\)"):
        ut.seams(Odd())


def test_seams_out_of_order_or_named_twice() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    with pytest.raises(SeamError, match="from input to output"):
        ut.chain(net, ["3", "1"])
    with pytest.raises(SeamError, match="named twice"):
        ut.chain(net, ["1", "1"])
    with pytest.raises(SeamError, match="at least one"):
        ut.chain(net, [])


class _Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.inner(x)) * x.detach().norm(dim=1, keepdim=True)  # type: ignore[no-any-return]


def test_a_bypass_without_a_gradient_is_refused() -> None:
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    with pytest.raises(SeamError, match="without a gradient"):
        ut.split(_Gated(), "inner", x=x)


def test_nested_seams_in_the_wrong_order_are_refused() -> None:
    net = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.Tanh()), nn.Sequential(nn.Tanh(), nn.Linear(4, 2)))
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    _, middle, _ = ut.chain(net, ["1.0", "0.0"], x=x)
    with pytest.raises(SeamError, match="from input to output"):
        middle(x)
    with pytest.raises(SeamError, match="from input to output"):
        ut.collaboration(net, x, seams=["1.0", "0.0"])


def test_seams_are_found_in_inference_mode() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    with torch.inference_mode():
        assert ut.seams(net, torch.randn(2, 4)) == ["0", "1"]
