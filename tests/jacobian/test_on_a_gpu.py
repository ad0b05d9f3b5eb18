"""What only a GPU does: products replayed as graphs, in float64 and by matrices, and steps that are faster there."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import undertow as ut
from undertow.core.patches import MatrixConvolution
from undertow.jacobian.replaying import Replayed, aside
from undertow.models import imagenet_resnet
from undertow.models.picture_layers import ChannelNorm
from undertow.training import Recipe, Trainer

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def residual(start: float = 1.0) -> nn.Module:
    return imagenet_resnet(
        "resnet-10", width=4, residual_start=start, generator=torch.Generator().manual_seed(0)
    )


def pictures(count: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.rand(count, 3072, generator=generator) * 2 - 1, torch.randint(
        0, 10, (count,), generator=generator
    )


def test_a_function_is_replayed_and_gives_what_it_gave() -> None:
    matrix = torch.randn(5, 5, device="cuda")
    with aside(matrix.device):
        product = Replayed(lambda vector: vector @ matrix)
        for size in range(1, 7):
            vector = torch.full((3, 5), float(size), device="cuda")
            torch.testing.assert_close(product(vector), vector @ matrix)
        assert product._graph is not None
    plain = Replayed(lambda vector: vector @ matrix)
    for _ in range(4):
        plain(torch.ones(3, 5, device="cuda"))
    assert plain._graph is None  # the default stream cannot be captured


def test_a_function_that_asks_the_host_is_called_every_time() -> None:
    with aside(torch.device("cuda")):
        asking = Replayed(lambda vector: vector * vector.sum().item())
        found = [asking(torch.full((2,), float(size), device="cuda"))[0].item() for size in range(1, 6)]
        assert found == [2.0 * size**2 for size in range(1, 6)]
        after = Replayed(lambda vector: 2 * vector)  # captures go on being possible
        assert [after(torch.full((1,), float(size), device="cuda")).item() for size in range(5)] == [
            0,
            2,
            4,
            6,
            8,
        ]
        assert after._graph is not None


def test_a_profile_is_that_of_the_cpu() -> None:
    net, (x, _) = residual(), pictures(12)
    with torch.no_grad():
        for _ in range(5):
            net(pictures(64)[0])
    net.eval()
    on_cpu = ut.seam_profile(net, x, rtol=1e-3)
    on_gpu = ut.seam_profile(net.cuda(), x.cuda(), rtol=1e-3)
    assert on_gpu.status.ok
    both = zip(on_cpu.co_correlation, on_gpu.co_correlation, on_cpu.error, on_gpu.error, strict=True)
    assert all(abs(one - other) <= error + another for one, other, error, another in both)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_convolutions_by_matrices(dtype: torch.dtype) -> None:
    x = torch.randn(4, 6, 9, 9, dtype=dtype, device="cuda")
    for stride, size in ((1, 3), (2, 3), (2, 1), (2, 7)):
        weight = torch.randn(5, 6, size, size, dtype=dtype, device="cuda")
        layer = MatrixConvolution(weight, (stride, stride), (size // 2, size // 2), (9, 9))
        torch.testing.assert_close(
            layer(x).double(),
            nn.functional.conv2d(x.double(), weight.double(), None, stride, size // 2),
            rtol=1e-4,
            atol=1e-3,
        )


@pytest.mark.parametrize("frozen", [None, 1], ids=["by the batch", "frozen after an epoch"])
def test_residual_networks_train_as_on_the_cpu(frozen: int | None) -> None:
    x, y = pictures(96)
    ends = []
    for device in ("cpu", "cuda"):
        how = Recipe(
            optimizer="gd" if frozen is None else "sgd", learning_rate=0.05, batch_size=None if frozen is None else 32,
            epochs=3, shuffle=False, loss="cross-entropy", batch_statistics_epochs=frozen, dtype="float64",
        )  # fmt: skip
        trainer = Trainer([residual(), residual(0.0)], x.double(), y, [how] * 2, device=device)
        while not trainer.done:
            trainer.run_epoch()
        ends.append({name: weight.cpu() for name, weight in trainer.network(0).state_dict().items()})
    for name, end in ends[0].items():
        torch.testing.assert_close(ends[1][name], end, rtol=1e-6, atol=1e-8)


def test_a_frozen_norm_has_the_gradients_of_its_formula() -> None:
    from undertow.core.weight_gradients import first_weight_gradients

    norm = ChannelNorm(6).eval().cuda()
    with torch.no_grad():
        for tensor in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
            assert tensor is not None
            tensor.uniform_(0.3, 2.0)
    x = torch.randn(8, 6, 5, 5, device="cuda").to(memory_format=torch.channels_last).requires_grad_()
    cotangent = torch.randn_like(x)
    theirs = torch.autograd.grad(norm(x), (x, norm.weight, norm.bias), cotangent)
    with first_weight_gradients():
        value = norm(x)
    ours = torch.autograd.grad(value, (x, norm.weight, norm.bias), cotangent)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
