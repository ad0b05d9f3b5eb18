"""One list of small networks that drives the tests of every measure, and the dense oracle beside it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

__all__ = ["CASES", "Case", "dense_jacobians", "dense_norms"]


@dataclass(frozen=True)
class Case:
    name: str
    build: Callable[[], nn.Module]
    shape: tuple[int, ...]

    def make(self, count: int = 12, dtype: torch.dtype = torch.float32) -> tuple[nn.Module, Tensor]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(sum(map(ord, self.name)))
            net = self.build().to(dtype).eval()
            x = torch.randn(count, *self.shape, dtype=dtype)
        return net, x


class Residual(nn.Module):
    """A convolutional residual block between a stem and a read-out, with an in-place ReLU used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, 6, 3, padding=1)
        self.conv1 = nn.Conv2d(6, 6, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(6)
        self.conv2 = nn.Conv2d(6, 6, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)
        self.join = nn.Identity()
        self.pool = nn.AvgPool2d(2)
        self.read = nn.Conv2d(6, 5, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        y = self.conv2(self.relu(self.norm(self.conv1(x))))
        return self.read(self.pool(self.relu(x + y)))  # type: ignore[no-any-return]


class Attention(nn.Module):
    """One pre-norm transformer block over 6 tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.attend = nn.MultiheadAttention(16, 2, batch_first=True)
        self.mix = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        x = x + self.attend(y, y, y, need_weights=False)[0]
        return x + self.mix(x)  # type: ignore[no-any-return]


class FusedAttention(nn.Module):
    """Attention through the functional interface, whose fused kernels have no second derivative."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(12, 36)
        self.out = nn.Linear(12, 12)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(x).view(x.shape[0], x.shape[1], 3, 2, 6).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


def _conv_batchnorm() -> nn.Module:
    net = nn.Sequential(
        nn.Conv2d(1, 6, 3),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 8, 3),
        nn.LeakyReLU(0.1),
    )
    net(torch.randn(32, 1, 12, 12))  # running statistics that are not the initial ones
    return net


def _rank_deficient() -> nn.Module:
    return nn.Sequential(nn.Linear(90, 3, bias=False), nn.Linear(3, 80, bias=False), nn.ReLU())


def _dead() -> nn.Module:
    first = nn.Linear(80, 70)
    nn.init.zeros_(first.weight)
    nn.init.constant_(first.bias, -1.0)
    return nn.Sequential(first, nn.ReLU(), nn.Linear(70, 75))


def _partly_dead() -> nn.Module:
    """Zero Jacobian at some samples, not at others."""
    return nn.Sequential(nn.Linear(70, 1, bias=False), nn.ReLU(), nn.Linear(1, 66, bias=False))


def _repeated() -> nn.Module:
    """All singular values equal: the hardest spectrum for an iterative method, the easiest for its answer."""
    net = nn.Linear(80, 80, bias=False)
    nn.init.orthogonal_(net.weight)
    return nn.Sequential(net, nn.Tanh())


def _wide() -> nn.Module:
    layer = nn.Linear(100, 300, bias=False)
    nn.init.normal_(layer.weight, std=300**-0.5)
    return nn.Sequential(layer, nn.ReLU())


def _ten_classes() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 50), nn.ReLU(), nn.Linear(50, 10))


def _in_place() -> nn.Module:
    return nn.Sequential(nn.ReLU(inplace=True), nn.Linear(70, 80), nn.ReLU(inplace=True))


CASES = [
    Case("linear", lambda: nn.Linear(90, 70), (90,)),
    Case("one logit", lambda: nn.Sequential(nn.Linear(30, 40), nn.ReLU(), nn.Linear(40, 1)), (30,)),
    Case("ten classes", _ten_classes, (1, 8, 8)),
    Case("wide relu layer", _wide, (100,)),
    Case("conv and batchnorm", _conv_batchnorm, (1, 12, 12)),
    Case("in-place relu", _in_place, (70,)),
    Case(
        "leaky",
        lambda: nn.Sequential(nn.Linear(75, 90), nn.LeakyReLU(0.2), nn.Linear(90, 70), nn.Tanh()),
        (75,),
    ),
    Case("residual", Residual, (2, 6, 6)),
    Case("attention", Attention, (6, 16)),
    Case("fused attention", FusedAttention, (7, 12)),
    Case("rank deficient", _rank_deficient, (90,)),
    Case("zero jacobian", _dead, (80,)),
    Case("zero at some samples", _partly_dead, (70,)),
    Case("equal singular values", _repeated, (80,)),
    Case("width 1", lambda: nn.Sequential(nn.Linear(70, 1), nn.ReLU(), nn.Linear(1, 70)), (70,)),
    Case("small input", lambda: nn.Sequential(nn.Linear(3, 90), nn.GELU(), nn.Linear(90, 80)), (3,)),
]


def dense_jacobians(net: nn.Module, x: Tensor) -> Tensor:
    """(N, out, in) in float64, one sample at a time, through torch.func alone."""
    net = copy.deepcopy(net).double()
    jacobians = []
    for sample in x.double():
        # A network may work in place on its input, which a leaf does not allow.
        jacobian = torch.func.jacrev(lambda z: net(z.clone()[None])[0])(sample)
        jacobians.append(jacobian.reshape(-1, sample.numel()))
    return torch.stack(jacobians)


def dense_norms(net: nn.Module, x: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.matrix_norm(dense_jacobians(net, x), 2)
    return norms
