"""Small networks of many kinds, and a check that no proof about them is contradicted by any point tried."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from undertow.adversary.certificates.ball_coupling import BallCouplings
from undertow.adversary.certificates.linear_bounds import LinearBounds
from undertow.adversary.certificates.network_graph import read_graph
from undertow.adversary.certificates.refined import Effort, refined_gaps
from undertow.adversary.classifier import Classifier


class Residual(nn.Module):
    """Convolutions with BatchNorm and a sum past them, an in-place activation, a functional pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.norms = nn.ModuleList([nn.BatchNorm2d(4), nn.BatchNorm2d(4)])
        self.head = nn.Linear(16, 4)
        for norm in self.norms:
            nn.init.uniform_(norm.running_mean, -0.5, 0.5)  # type: ignore[arg-type]
            nn.init.uniform_(norm.running_var, 0.5, 2.0)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu_(self.norms[0](self.first(x.reshape(-1, 1, 4, 4))))
        hidden = functional.gelu(hidden + self.norms[1](self.second(hidden)))
        return self.head(functional.avg_pool2d(hidden, 2).flatten(1))  # type: ignore[no-any-return]


class Concatenated(nn.Module):
    """Two branches cut out of the input, put together, scaled and shifted by constants."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.head = nn.Linear(8, 6), nn.Linear(8, 5), nn.Linear(11, 3)

    def forward(self, x: Tensor) -> Tensor:
        both = torch.cat([torch.tanh(self.left(x[:, :8])), functional.silu(self.right(x[:, 8:]))], 1)
        return self.head(2 * both - 0.3) / 1.5  # type: ignore[no-any-return]


class Attention(nn.Module):
    """One encoder layer on four tokens, which see all of them or those before."""

    def __init__(self, *, causal: bool = False) -> None:
        super().__init__()
        self.causal = causal
        self.embed, self.head = nn.Linear(4, 8), nn.Linear(8, 3)
        self.layer = nn.TransformerEncoderLayer(
            8, 2, 12, batch_first=True, norm_first=True, activation="gelu"
        )

    def forward(self, x: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(4, dtype=x.dtype) if self.causal else None
        seen = self.layer(self.embed(x.reshape(-1, 4, 4)), mask, is_causal=self.causal)
        return self.head(seen.mean(1))  # type: ignore[no-any-return]


def _mlp(activation: nn.Module, *widths: int) -> nn.Sequential:
    parts: list[nn.Module] = []
    for before, after in zip((16, *widths), (*widths, 3), strict=True):
        parts += [nn.Linear(before, after), activation]
    return nn.Sequential(*parts[:-1])


def _cnn(*middle: nn.Module, features: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Unflatten(1, (1, 4, 4)),
        nn.Conv2d(1, 4, 3, padding=1),
        *middle,
        nn.Flatten(),
        nn.Linear(features, 3),
    )


ARCHITECTURES: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(16, 3),
    "one logit": lambda: nn.Sequential(nn.Linear(16, 7), nn.ReLU(), nn.Linear(7, 1)),
    "relu two layers": lambda: _mlp(nn.ReLU(), 8),
    "relu deep": lambda: _mlp(nn.ReLU(), 8, 8, 8),
    "leaky": lambda: _mlp(nn.LeakyReLU(0.2), 8, 8),
    "steep leaky": lambda: _mlp(nn.LeakyReLU(1.7), 8, 8),
    "prelu": lambda: _mlp(nn.PReLU(init=-0.4), 8, 8),
    "relu6": lambda: _mlp(nn.ReLU6(), 8, 8),
    "hardtanh": lambda: _mlp(nn.Hardtanh(-0.5, 1.5), 8, 8),
    "gelu": lambda: _mlp(nn.GELU(), 8, 8),
    "gelu tanh": lambda: _mlp(nn.GELU("tanh"), 8, 8),
    "silu": lambda: _mlp(nn.SiLU(), 8, 8),
    "tanh": lambda: _mlp(nn.Tanh(), 8, 8),
    "sigmoid": lambda: _mlp(nn.Sigmoid(), 8, 8),
    "softplus": lambda: _mlp(nn.Softplus(beta=2.0), 8, 8),
    "elu": lambda: _mlp(nn.ELU(1.5), 8, 8),
    "selu": lambda: _mlp(nn.SELU(), 8, 8),
    "hardswish": lambda: _mlp(nn.Hardswish(), 8, 8),
    "max pooling": lambda: _cnn(nn.ReLU(), nn.MaxPool2d(3, 2, 1), features=16),
    "average pooling": lambda: _cnn(nn.SiLU(), nn.AdaptiveAvgPool2d(2), features=16),
    "strided": lambda: _cnn(nn.ReLU(), nn.Conv2d(4, 6, 3, 2, 1), nn.Tanh(), features=24),
    "one axis": lambda: nn.Sequential(
        nn.Unflatten(1, (2, 8)), nn.Conv1d(2, 4, 3), nn.PReLU(4), nn.Flatten(), nn.Linear(24, 3)
    ),
    "residual": Residual,
    "concatenated": Concatenated,
    "attention": Attention,
    "causal attention": lambda: Attention(causal=True),
}


def drawn(name: str, seed: int, unit: float = 1.0, *, single: bool = False) -> nn.Module:
    """A network with weights a little larger than usual, for inputs in this unit."""
    torch.manual_seed(seed)
    net = ARCHITECTURES[name]().eval().requires_grad_(False)
    for weight in net.parameters():
        if weight.ndim > 1:
            weight.mul_(2.0)
    net = net if single else net.double()
    return net if unit == 1 else nn.Sequential(_Scaled(unit), net)


class _Scaled(nn.Module):
    def __init__(self, unit: float) -> None:
        super().__init__()
        self.unit = unit

    def forward(self, x: Tensor) -> Tensor:
        return x / self.unit


def tried(
    x: Tensor, eps: Tensor, norm: float, scores: Callable[[Tensor], Tensor], y: Tensor
) -> Iterator[Tensor]:
    """Points of the balls: random ones, corners, and where gradients of the margin lead."""
    generator = torch.Generator().manual_seed(0)
    reach = eps.unsqueeze(1)
    for index in range(6):
        noise = torch.randn(x.shape, generator=generator, dtype=torch.float64)
        noise = noise.sign() if norm == math.inf and index % 2 else noise
        yield x + reach * noise / torch.linalg.vector_norm(noise, norm, dim=1, keepdim=True)
    for target in range(scores(x).shape[1]):
        at = x.clone()
        for _ in range(4):
            with torch.enable_grad():
                point = at.detach().requires_grad_(True)
                found = scores(point)
                gap = found.gather(1, y.unsqueeze(1)).squeeze(1) - found[:, target]
                (slope,) = torch.autograd.grad(gap.sum(), point)
            # squares of very small slopes are zero, and a point outside the ball contradicts nothing
            slope = slope / slope.abs().amax(1, keepdim=True).clamp(min=1e-300)
            if norm == math.inf:
                step = slope.sign()
            elif norm == 2:
                step = slope / slope.norm(dim=1, keepdim=True).clamp(min=1e-300)
            else:
                step = (
                    torch.zeros_like(slope).scatter(1, slope.abs().argmax(1, keepdim=True), 1.0)
                    * slope.sign()
                )
            at = x - reach * step
            yield at


def violations(
    name: str, *, points: int, norm: float, unit: float = 1.0, seed: int = 0, single: bool = False
) -> int:
    """How many of the score differences met, at four radii, are below what was proved for the ball."""
    net = drawn(name, seed, unit, single=single)
    x = unit * torch.rand(points, 16, generator=torch.Generator().manual_seed(seed)).double()
    given = x.float() if single else x
    graph = read_graph(Classifier(net), net, given)
    x = given.double()
    exact = copy.deepcopy(net).double()

    def scores(at: Tensor) -> Tensor:
        out = exact(at)
        return torch.cat([torch.zeros_like(out), out], 1) if out.shape[1] == 1 else out

    y = scores(x).argmax(1)
    bounds, below = LinearBounds(graph, norm), 0
    couplings = BallCouplings(bounds) if norm == 2 else None
    for radius in (0.0, 0.02, 0.1, 0.5):
        eps = torch.full((points,), radius * unit, dtype=torch.float64)
        proved = refined_gaps(bounds, x, y, eps, Effort(couplings, 3)).lower
        for at in tried(x, eps, norm, scores, y):
            found = scores(at)
            gaps = found.gather(1, y.unsqueeze(1)) - found
            # what float64 itself is wrong by, at a point that may lie outside the ball by a rounding
            slack = 1e-12 * (1 + found.abs().amax(1, keepdim=True))
            below += int(((gaps < proved - slack) & proved.isfinite()).sum())
    return below
