"""Many networks as one batch against each alone and against dense Jacobians."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from undertow.core.errors import InputError
from undertow.core.networks import DenseChain, read_dense
from undertow.core.status import Status
from undertow.jacobian.batched_norms import batched_norms, layers_alike
from undertow.jacobian.factor import Factor
from undertow.jacobian.layered import LayeredOperator
from undertow.jacobian.norms import jacobian_norms
from undertow.jacobian.operator import AutogradOperator

from ..model_cases import dense_norms

SHAPES: dict[str, Callable[[], nn.Module]] = {
    "narrow relu": lambda: nn.Sequential(nn.Linear(90, 30), nn.ReLU()),
    "wide relu": lambda: nn.Sequential(nn.Linear(70, 150, bias=False), nn.ReLU()),
    "square leaky": lambda: nn.Sequential(nn.Linear(80, 80), nn.LeakyReLU(0.1)),
    "kernel side": lambda: nn.Sequential(nn.Linear(120, 80, bias=False), nn.ReLU()),
    "kernel side, smooth": lambda: nn.Sequential(nn.Linear(120, 80), nn.GELU()),
    "whole": lambda: nn.Sequential(nn.Flatten(), nn.Linear(70, 40), nn.ReLU(), nn.Linear(40, 3)),
    "deep": lambda: nn.Sequential(
        nn.Linear(70, 75), nn.Tanh(), nn.Linear(75, 90), nn.ReLU(), nn.Linear(90, 70)
    ),
    "linear": lambda: nn.Sequential(nn.Linear(90, 100), nn.Identity(), nn.Linear(100, 80)),
    "by autograd": lambda: nn.Sequential(nn.Linear(20, 8), nn.LayerNorm(8)),
}


def make(
    name: str, *, members: int = 3, dtype: torch.dtype = torch.float64
) -> tuple[list[nn.Module], Tensor]:
    nets: list[nn.Module] = []
    for seed in range(members):
        torch.manual_seed(seed)
        net = SHAPES[name]().to(dtype).eval()
        for parameter in net.parameters():
            parameter.data.mul_(1 + seed)
        nets.append(net)
    inputs = next(module for module in nets[0].modules() if isinstance(module, nn.Linear)).in_features
    return nets, torch.randn(11, inputs, dtype=dtype, generator=torch.Generator().manual_seed(9))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", SHAPES)
def test_bounds_hold_for_every_sample_of_every_network(name: str, dtype: torch.dtype) -> None:
    nets, x = make(name, dtype=dtype)
    several = batched_norms(nets, x)
    for net, found in zip(nets, several, strict=True):
        true = dense_norms(net, x)
        assert found.status.ok
        assert len(found) == len(x)
        assert bool(((found.value - true).abs() <= found.error).all())
        alone = jacobian_norms(net, x)
        assert found.status is alone.status
        assert found.method == alone.method
        assert bool(((found.value - alone.value).abs() <= found.error + alone.error).all())


@pytest.mark.parametrize("budget", [1, 400_000])
def test_chunks_change_nothing_but_memory(budget: int) -> None:
    nets, x = make("wide relu")
    whole = batched_norms(nets, x)
    for one, other in zip(whole, batched_norms(nets, x, memory_budget=budget), strict=True):
        torch.testing.assert_close(one.value, other.value, rtol=1e-9, atol=0)


def test_running_out_of_memory_halves_the_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    nets, x = make("narrow relu")
    expected = batched_norms(nets, x)
    at = LayeredOperator.at.__func__  # type: ignore[attr-defined]
    sizes = []

    def scarce(
        cls: type[LayeredOperator], networks: list[DenseChain], points: Tensor, **options: Any
    ) -> LayeredOperator:
        if options:
            return at(cls, networks, points, **options)  # type: ignore[no-any-return]
        sizes.append(len(points))
        if len(points) > 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return at(cls, networks, points)  # type: ignore[no-any-return]

    monkeypatch.setattr(LayeredOperator, "at", classmethod(scarce))  # type: ignore[arg-type]
    for one, other in zip(expected, batched_norms(nets, x), strict=True):
        torch.testing.assert_close(one.value, other.value)
    assert sizes == [1, 11, 6, 3, 3, 3, 2]


def test_a_warm_start_is_tracked_and_promises_what_it_can() -> None:
    nets, x = make("wide relu")
    cold = batched_norms(nets, x, keep_vectors=True)
    with torch.no_grad():
        for net in nets:
            for parameter in net.parameters():
                parameter.mul_(1.001).add_(1e-4 * torch.randn_like(parameter))
    start = [norms.vectors.half() for norms in cold if norms.vectors is not None]
    for net, warm, before in zip(nets, batched_norms(nets, x, start=start), cold, strict=True):
        true = dense_norms(net, x).detach()
        assert warm.status is Status.TRACKED
        assert bool((warm.steps < before.steps).all())
        assert float(((warm.value - true) / true).abs().max()) < 1e-3
        assert bool((true <= warm.value + warm.error).all())
        assert bool((warm.risk <= 0.01 / len(x) + 1e-12).all())  # the error answers for the usual risk
    with pytest.raises(InputError, match="warm starts need the same samples"):
        batched_norms(nets, x[:5], start=start)


def test_only_networks_of_one_shape_are_one_batch() -> None:
    nets, x = make("wide relu")
    others, _ = make("wide relu", dtype=torch.float32)
    assert layers_alike(nets, x) is not None
    assert layers_alike([nets[0], others[0]], x) is None
    assert (
        layers_alike([nets[0], nn.Sequential(nn.Linear(70, 150, bias=False), nn.Tanh()).double()], x) is None
    )
    assert layers_alike(make("by autograd")[0], x) is None
    mixed = [nets[0], nn.Sequential(nn.Linear(70, 30), nn.ReLU()).double().eval()]
    for net, found in zip(mixed, batched_norms(mixed, x), strict=True):
        torch.testing.assert_close(found.value, dense_norms(net, x), rtol=1e-3, atol=0)


@pytest.mark.parametrize("name", ["wide relu", "kernel side", "whole", "deep", "narrow relu"])
def test_every_product_of_the_batch_is_autograds(name: str) -> None:
    nets, x = make(name)
    several = layers_alike(nets, x)
    assert several is not None
    operator = LayeredOperator.at(several, x)
    index = torch.tensor([0, 3, 4, 12, 13, 14, 15, 16, 17, 32])  # unequal counts: 3, 6, 1
    generator = torch.Generator().manual_seed(1)
    for part in (operator, operator.take(torch.arange(33)), operator.take(index), operator.take(index[3:])):
        alone = [AutogradOperator(net, x) for net in nets]
        keep = torch.arange(33) if part.batch == 33 else index if part.batch == 10 else index[3:]
        tangent = torch.randn(33, operator.in_size, generator=generator, dtype=torch.float64)
        cotangent = torch.randn(33, operator.out_size, generator=generator, dtype=torch.float64)
        jvp = torch.cat([one.jvp(t) for one, t in zip(alone, tangent.split(11), strict=True)])
        vjp = torch.cat([one.vjp(t) for one, t in zip(alone, cotangent.split(11), strict=True)])
        small = cotangent if operator.out_size <= operator.in_size else tangent
        normal = torch.cat([one.normal(t) for one, t in zip(alone, small.split(11), strict=True)])
        rows = torch.cat([one.rows() for one in alone])
        torch.testing.assert_close(part.jvp(tangent[keep].clone()), jvp[keep])
        torch.testing.assert_close(part.vjp(cotangent[keep].clone()), vjp[keep])
        torch.testing.assert_close(part.normal(small[keep].clone()), normal[keep])
        torch.testing.assert_close(part.rows(), rows[keep])
        torch.testing.assert_close(part.columns(), rows[keep].mT)
        gram, scale, pullbacks = part.gram()
        (pulled,) = pullbacks([cotangent[keep]])
        torch.testing.assert_close(pulled, vjp[keep])
        expected = rows @ rows.mT if operator.out_size <= operator.in_size else rows.mT @ rows
        torch.testing.assert_close(gram * scale[:, None, None].square(), expected[keep])


def test_masks_of_booleans_are_slopes() -> None:
    """On a GPU a ReLU's slopes are booleans; the products must be the same."""
    for name in ("wide relu", "kernel side", "whole"):
        nets, x = make(name)
        several = [layers for net in nets if isinstance(layers := read_dense(net), DenseChain)]
        slopes = LayeredOperator.at(several, x)
        masks = LayeredOperator(
            slopes.factors, tuple(None if s is None else s > 0 for s in slopes.slopes), slopes.counts
        )
        vector = torch.randn(33, slopes.in_size, dtype=torch.float64)
        torch.testing.assert_close(masks.jvp(vector), slopes.jvp(vector))
        small = vector[:, : min(slopes.in_size, slopes.out_size)]
        torch.testing.assert_close(masks.normal(small), slopes.normal(small))
        torch.testing.assert_close(masks.rows(), slopes.rows())
        torch.testing.assert_close(masks.gram()[0], slopes.gram()[0])


def test_the_kernel_keeps_small_rows_exact() -> None:
    """A neuron of size 1e-5 beside one of size 1: struck out by a mask, the large one must leave no trace."""
    weight = torch.tensor([[1.0, 1.0], [1e-5, 3e-5]])
    kernel = Factor(weight).kernel.weight[0]
    assert kernel[1, 1].item() == pytest.approx(1e-9, rel=1e-6)


@pytest.mark.parametrize("stretch", [1e3, 1e4])
def test_bounds_hold_where_a_head_cancels_what_its_tail_stretches_most(stretch: float) -> None:
    """The squares of such norms differ by more than float32 can hold: nothing may be computed from W Wᵀ here."""
    generator = torch.Generator().manual_seed(0)

    def orthonormal(rows: int, columns: int) -> Tensor:
        return torch.linalg.qr(torch.randn(rows, columns, generator=generator, dtype=torch.float64)).Q

    out, into = orthonormal(90, 90), orthonormal(120, 90)
    sizes = torch.ones(90, dtype=torch.float64)
    sizes[0] = stretch
    head = torch.randn(70, 90, generator=generator, dtype=torch.float64)
    head -= head @ out[:, :1] @ out[:, :1].T
    hidden, last = nn.Linear(120, 90), nn.Linear(90, 70, bias=False)
    with torch.no_grad():
        hidden.weight.copy_((out * sizes) @ into.T)
        hidden.bias.fill_(1e6)  # every neuron is on
        last.weight.copy_(head / torch.linalg.matrix_norm(head, 2))
    net = nn.Sequential(hidden, nn.ReLU(), last)
    x = 0.01 * torch.randn(3, 120, generator=generator)
    found = jacobian_norms(net.eval(), x, method="krylov")
    assert found.status.ok
    assert bool(((found.value - dense_norms(net.double(), x.double())).abs() <= found.error).all())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("width", [16, 64, 200, 1100])
def test_a_gpu_keeps_the_promises(width: int) -> None:
    """Masks of booleans, products in three parts, many points at once: what only a GPU does, against float64."""
    nets = []
    for seed in range(3):
        torch.manual_seed(seed)
        nets.append(nn.Sequential(nn.Linear(784, width, bias=False), nn.ReLU()).eval().cuda())
    x = torch.rand(40, 784, generator=torch.Generator().manual_seed(0)).cuda()
    cold = batched_norms(nets, x, keep_vectors=True)
    start = [norms.vectors for norms in cold if norms.vectors is not None]
    for several in (cold, batched_norms(nets, x, start=start)):
        for net, found in zip(nets, several, strict=True):
            weight = net.get_parameter("0.weight").detach().double()
            masked = (x.double() @ weight.T > 0)[:, :, None] * weight
            true = torch.linalg.matrix_norm(masked, ord=2)
            assert found.status.ok
            assert bool(((found.value - true).abs() <= found.error).all())
            assert float(((found.value - true).abs() / true).max()) < 1e-3
