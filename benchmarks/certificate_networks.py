"""The networks that `certificates.py` proves radii of, and how they are trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from undertow.data import load
from undertow.models.cnn import cnn
from undertow.training import JacobianPenalty

Data = tuple[Tensor, Tensor, Tensor, Tensor]
"""Images and labels for training, and those to prove radii of."""


class Residual(nn.Module):
    """Two convolutions with BatchNorm, the second with a sum past it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.first_norm, self.second_norm = nn.BatchNorm2d(8), nn.BatchNorm2d(8)
        self.head = nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.first_norm(self.first(x.reshape(-1, 1, 8, 8))))
        hidden = torch.relu(hidden + self.second_norm(self.second(hidden)))
        scores: Tensor = self.head(functional.avg_pool2d(hidden, 2).flatten(1))
        return scores


class SmallTransformer(nn.Module):
    """Four patches of 4×4 pixels as tokens, one encoder layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(16, 16), nn.Linear(16, 10)
        self.places = nn.Parameter(0.1 * torch.randn(4, 16))
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True, dropout=0.0)

    def forward(self, x: Tensor) -> Tensor:
        patches = x.reshape(-1, 2, 4, 2, 4).permute(0, 1, 3, 2, 4).reshape(-1, 4, 16)
        scores: Tensor = self.head(self.layer(self.embed(patches) + self.places).mean(1))
        return scores


def mlp(activation: nn.Module, inputs: int = 64) -> nn.Sequential:
    """Two hidden layers of 100 neurons."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(inputs, 100), activation, nn.Linear(100, 100), activation, nn.Linear(100, 10)
    )


def dense(widths: Sequence[int], seed: int) -> nn.Sequential:
    """Layers of these widths with ReLUs, on the digits."""
    torch.manual_seed(seed)
    parts: list[nn.Module] = []
    for before, after in pairwise((64, *widths, 10)):
        parts += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


def pooled() -> nn.Sequential:
    """Two convolutions on 8×8 pixels, with a maximum between them."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(256, 10),
    )


def conv_small(channels: int, side: int) -> nn.Sequential:
    """Two strided convolutions and 100 neurons: ConvSmall of the ERAN networks (Singh et al. 2019)."""
    return nn.Sequential(
        nn.Conv2d(channels, 16, 4, 2, 1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 4, 2, 1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * (side // 4) ** 2, 100),
        nn.ReLU(),
        nn.Linear(100, 10),
    )


def conv_large(channels: int, side: int) -> nn.Sequential:
    """Four convolutions, two layers of 512: 2.5 million parameters on CIFAR-10 (ConvLarge, Wong et al. 2018)."""
    parts: list[nn.Module] = []
    for before, after, stride in ((channels, 32, 1), (32, 32, 2), (32, 64, 1), (64, 64, 2)):
        parts += [nn.Conv2d(before, after, 2 + stride, stride, 1), nn.ReLU()]
    parts += [nn.Flatten(), nn.Linear(64 * (side // 4) ** 2, 512), nn.ReLU()]
    return nn.Sequential(*parts, nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def pooled_cnn(channels: int, side: int) -> nn.Sequential:
    """5×5×32, pooling, 3×3×64, pooling, 1,024 neurons: the CNN of the study of margins (Lyu & Li 2020)."""
    net = cnn(
        image=(channels, side, side),
        stages=[(32,), (64,)],
        kernels=(5, 3),
        dense=(1024,),
        outputs=10,
        generator=torch.Generator().manual_seed(0),
    )
    return nn.Sequential(nn.Flatten(), *net)


def digits() -> Data:
    """Scikit-learn's digits, 64 pixels in [0, 1], 1,400 of them for training."""
    data = load("digits", split="all")
    x, y = data.x.float().flatten(1), data.y
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    x, y = x[order], y[order]
    return x[:1400], y[:1400], x[1400:], y[1400:]


def images(name: str, device: str, *, limit: int | None = None, points: int = 1000) -> Data:
    """MNIST or CIFAR-10 in [0, 1]; the first points of the test set."""
    train, test = load(name, split="train", limit=limit), load(name, split="test", limit=points)
    sides = (1, 28, 28) if name == "mnist" else (3, 32, 32)
    shaped = [part.x.float().reshape(-1, *sides).to(device) for part in (train, test)]
    labels = [part.y.to(device) for part in (train, test)]
    return shaped[0], labels[0], shaped[1], labels[1]


def trained(
    make: Callable[[], nn.Module],
    data: Data,
    *,
    epochs: int = 30,
    penalty: float = 0.0,
    batch: int = 64,
    rate: float = 2e-3,
) -> nn.Module:
    """Adam on the cross-entropy, its rate falling to zero; with a penalty on ‖J‖_F², for flatter networks."""
    torch.manual_seed(0)
    x, y, _, _ = data
    net = make().to(x.device)
    optimiser = torch.optim.Adam(net.parameters(), rate, weight_decay=1e-4, fused=x.is_cuda)
    steps = epochs * -(-len(x) // batch)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1 - step / steps)
    hold_down = JacobianPenalty(penalty) if penalty else None
    for _ in range(epochs):
        for some in torch.split(torch.randperm(len(x)).to(x.device), batch):
            optimiser.zero_grad()
            loss = functional.cross_entropy(net(x[some]), y[some])
            if hold_down is not None:
                loss = loss + hold_down(net, x[some])
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
    return net.eval().requires_grad_(False)
