"""Measuring leaves no trace on the model, also after an exception."""

from __future__ import annotations

import copy
import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm

import undertow as ut
from undertow.core.errors import UndertowError

from ..model_cases import CASES


def _snapshot(net: nn.Module) -> tuple[object, ...]:
    return (
        [module.training for module in net.modules()],
        {name: tensor.clone() for name, tensor in net.state_dict().items()},
        [parameter.grad for parameter in net.parameters()],
        [parameter.requires_grad for parameter in net.parameters()],
        [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in net.modules()],
        torch.get_rng_state(),
        torch.backends.mha.get_fastpath_enabled(),
        torch.is_grad_enabled(),
    )


def _same(before: tuple[object, ...], after: tuple[object, ...]) -> bool:
    def equal(a: object, b: object) -> bool:
        if isinstance(a, Tensor):
            return isinstance(b, Tensor) and torch.equal(a, b)
        if isinstance(a, dict):
            return isinstance(b, dict) and a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
        if isinstance(a, list):
            return isinstance(b, list) and len(a) == len(b) and all(map(equal, a, b))
        return a == b

    return all(map(equal, before, after))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_trace_on_any_case(case) -> None:  # type: ignore[no-untyped-def]
    net, x = case.make(4)
    for parameter in net.parameters():
        parameter.grad = torch.ones_like(parameter)
    copied = x.clone()
    before = _snapshot(net)
    ut.jacobian_norms(net, x)
    ut.energy(net, x)
    places = ut.seams(net, x)
    if places:
        ut.collaboration(net, x, seam=places[0])
    assert _same(before, _snapshot(net))
    assert torch.equal(x, copied)


def test_no_trace_inside_no_grad_and_inference_mode() -> None:
    net, x = CASES[2].make(4)
    expected = ut.jacobian_norms(net, x).value
    with torch.no_grad():
        assert torch.equal(ut.jacobian_norms(net, x).value, expected)
        assert not torch.is_grad_enabled()
    with torch.inference_mode():
        assert torch.equal(ut.jacobian_norms(net, x).value, expected)


@pytest.mark.parametrize("method", ["exact", "krylov"])
def test_autocast_is_off_while_measuring_and_on_again_after(method: Literal["exact", "krylov"]) -> None:
    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(30, 40), nn.Tanh(), nn.Linear(40, 20)), torch.randn(6, 30)
    expected = ut.jacobian_norms(net, x, method=method).value
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(ut.jacobian_norms(net, x, method=method).value, expected)
        assert net(x).dtype == torch.bfloat16


def test_no_trace_after_an_exception() -> None:
    class Fails(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop = nn.Dropout(0.5)
            self.first = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            torch.rand(5)
            if len(x) > 4:
                raise KeyError("halfway")
            return self.first(x)  # type: ignore[no-any-return]

    net = Fails()
    before = _snapshot(net)
    with pytest.raises(UndertowError):
        ut.jacobian_norms(net, torch.ones(3, 3))  # refused: dropout in train mode
    assert _same(before, _snapshot(net))
    net.eval()
    before = _snapshot(net)
    with pytest.raises(KeyError):
        ut.jacobian_norms(net, torch.ones(9, 3))
    with pytest.raises(KeyError):
        ut.collaboration(net, torch.ones(9, 3), seam="first")
    assert _same(before, _snapshot(net))


def test_no_tensor_outlives_a_measurement() -> None:
    class Skips(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.sigmoid(x)  # the node of a sigmoid keeps its own output

    def alive() -> int:
        gc.collect()
        return sum(type(thing) is Tensor for thing in gc.get_objects())

    net, x = Skips(), torch.ones(3, 2)
    ut.energy(net, x)
    before = alive()
    ut.energy(net, x)
    assert alive() == before


def test_buffers_that_move_in_a_forward_pass_are_put_back() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)  # from some starts one power step moves the weight visibly, which is refused
        net = spectral_norm(nn.Linear(5, 4))
    net.train()
    before = copy.deepcopy(net.state_dict())
    ut.jacobian_norms(net, torch.randn(3, 5))
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())


class _Counting(nn.Module):
    in_place: Tensor
    replaced: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("in_place", torch.zeros(1))
        self.register_buffer("replaced", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.in_place += 1
        self.replaced = self.replaced + 1
        return 2 * x


@pytest.mark.parametrize("training", [False, True])
def test_buffers_written_in_either_mode_are_put_back(training: bool) -> None:
    net = _Counting().train(training)
    ut.jacobian_norms(net, torch.ones(3, 2))
    assert net.in_place.item() == net.replaced.item() == 0


def test_threads_that_measure_one_network_wait_for_each_other() -> None:
    """What seams hang on a network, and the switches that measuring sets, are every thread's."""
    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3)).eval(), torch.randn(6, 5)
    alone = ut.seam_profile(net, x).co_correlation
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: ut.seam_profile(net, x).co_correlation, range(8)))
    assert found == [alone] * 8
