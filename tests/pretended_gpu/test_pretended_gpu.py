"""The pretended GPU refuses what a GPU refuses, and replays what was captured."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.func import vmap

from tests.pretended_gpu import HostAskedError, MixedDevicesError, NotOnAGpuError, pretended_gpu
from undertow.core.members import Aside
from undertow.training.capture import capture

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="there is a GPU, which need not be pretended"
)


def test_values_gradients_and_maps_are_those_of_the_cpu() -> None:
    x = torch.randn(5, 3)
    net = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 2))

    def numbers(x: Tensor) -> list[Tensor]:
        leaf = x.clone().requires_grad_()
        value = net(leaf)
        (gradient,) = torch.autograd.grad(value.square().sum(), leaf)
        return [value, gradient, vmap(lambda row: row * row.sum())(x), torch.eye(3, device=x.device)]

    expected = numbers(x)
    with pretended_gpu():
        net.to("cuda")
        found = numbers(x.cuda())
        assert all(each.is_cuda and each.device.type == "cuda" for each in found)
        back = [each.cpu() for each in found]
    for one, other in zip(back, expected, strict=True):
        torch.testing.assert_close(one, other)


PLANTED: dict[str, Callable[[Tensor, Tensor], object]] = {
    "a sum": lambda here, there: here + there,
    "a product": lambda here, there: here @ there,
    "one behind the other": lambda here, there: torch.cat([here, there]),
    "places": lambda _, there: there.index_select(0, torch.tensor([0])),
    "a constant without its device": lambda _, there: there * torch.tensor([1.0, 2.0]),
    "written into": lambda here, there: here.add_(there.sum()),
    "a generator of the CPU": lambda *_: torch.randn(2, generator=torch.Generator(), device="cuda"),
    "numpy": lambda _, there: there.numpy(),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_devices_that_mix_are_refused(planted: str) -> None:
    with pretended_gpu() as gpu:
        with pytest.raises(MixedDevicesError):
            PLANTED[planted](torch.ones(2), torch.ones(2, device="cuda"))
        assert len(gpu.refused) == 1


def test_what_pytorch_lets_mix_is_let_mix() -> None:
    with pretended_gpu() as gpu:
        there = torch.ones(3, device="cuda")
        there[torch.tensor([0, 2])] = 5.0
        there.copy_(there.cpu() * torch.tensor(2.0))
        assert (there + torch.tensor(1.0)).tolist() == [11, 3, 11]
        assert there[torch.ones(3).cuda() > 0].tolist() == [10, 2, 10]
        assert not gpu.refused


def test_products_of_whole_numbers_are_refused() -> None:
    with pretended_gpu(), pytest.raises(NotOnAGpuError):
        torch.ones(2, 2, dtype=torch.int64, device="cuda") @ torch.ones(
            2, 2, dtype=torch.int64, device="cuda"
        )


ASKING: dict[str, Callable[[Tensor], object]] = {
    "a number": lambda x: x.sum().item(),
    "a condition": lambda x: bool((x > 0).all()),
    "a mask": lambda x: x[x > 0],
    "places": lambda x: x.nonzero(),
    "a comparison": lambda x: torch.equal(x, x),
    "a copy to the host": lambda x: x.cpu(),
    "a copy from the host": lambda x: x.copy_(torch.ones(3)),
    "numbers of Python": lambda x: torch.tensor([1.0, 2.0, 3.0], device=x.device),
    "places of the host": lambda x: x[torch.tensor([0])],
    "eigenvalues": lambda x: torch.linalg.eigvalsh(torch.outer(x, x)),
    "waiting": lambda _: torch.cuda.synchronize(),
}


@pytest.mark.parametrize("asking", ASKING)
def test_a_graph_asks_nothing_of_the_host(asking: str) -> None:
    with pretended_gpu() as gpu:
        x = torch.ones(3, device="cuda")
        ASKING[asking](x)  # where nothing is captured it may
        assert not gpu.refused

        def step() -> None:
            ASKING[asking](x)
            x.mul_(2)

        assert capture(step, changed=[x]) is None
        assert [type(each) for each in gpu.refused] == [HostAskedError]
        assert x.tolist() == [1, 1, 1]


def test_a_graph_is_replayed_with_what_its_tensors_hold_then() -> None:
    with pretended_gpu() as gpu:
        x, count = torch.ones(2, device="cuda"), torch.zeros((), dtype=torch.int64, device="cuda")
        steps = [10.0]

        def step() -> None:
            x.add_(count * steps[0])
            count.add_(1)

        replay = capture(step, changed=[x, count])
        assert replay is not None
        steps[0] = 99.0  # a number of the host is what it was at the capture
        for _ in range(3):
            replay()
        assert x.tolist() == [31, 31]
        assert gpu.graphs[0].replays == 3


def test_a_stream_that_is_not_waited_for_at_the_end_is_found() -> None:
    with pretended_gpu() as gpu:
        total = torch.zeros(4, device="cuda")
        assert capture(lambda: Aside(total).do(lambda: total.add_(1)), changed=[total]) is None
        assert [type(each).__name__ for each in gpu.refused] == ["RaceError"]


@pytest.mark.parametrize("waits", [True, False])
def test_streams_that_do_not_wait_for_each_other_are_found(waits: bool) -> None:
    with pretended_gpu() as gpu:
        total, rows = torch.zeros(4, device="cuda"), torch.ones(4, device="cuda")

        def step() -> None:
            aside = Aside(total)
            aside.do(lambda: total[:2].add_(rows[:2]))
            total[2:].add_(1)  # beside what is written there
            if waits:
                aside.wait()
            total.mul_(2)

        assert (capture(step, changed=[total]) is not None) == waits
        assert {type(each).__name__ for each in gpu.refused} == (set() if waits else {"RaceError"})


@pytest.mark.parametrize("kept", [True, False])
def test_memory_that_another_stream_still_reads_is_not_given_back(kept: bool) -> None:
    with pretended_gpu() as gpu:
        total = torch.zeros(4, device="cuda")
        beside = torch.cuda.Stream()

        def step() -> None:
            held, here = [total * 2], torch.cuda.current_stream()
            beside.wait_stream(here)
            with torch.cuda.stream(beside):
                total.add_(held[0])
            if not kept:
                held.clear()
            torch.ones(4, device="cuda")
            here.wait_stream(beside)

        capture(step, changed=[total])
        assert {type(each).__name__ for each in gpu.refused} == (set() if kept else {"RaceError"})
