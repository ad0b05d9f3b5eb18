"""Small networks and losses whose whole Hessian can be had, for the tests and the benchmark of sharpness."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.func import functional_call

from undertow.core.losses import labels_of_classes, mean_loss, prepare_labels
from undertow.curvature.loss_over_samples import CurvatureLoss

__all__ = ["CURVATURE_CASES", "CurvatureCase", "dense_gauss_newton", "dense_hessian"]


@dataclass(frozen=True)
class CurvatureCase:
    name: str
    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    loss: CurvatureLoss
    outputs: int
    samples: int = 20

    def make(self, seed: int = 0, dtype: torch.dtype = torch.float32) -> tuple[nn.Module, Tensor, Tensor]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1000 * seed + sum(map(ord, self.name)))
            net = self.build().to(dtype).eval()
            x = torch.randn(self.samples, *self.shape, dtype=dtype)
            y = torch.randint(0, max(self.outputs, 2), (self.samples,))
        return net, x, y


class Tied(nn.Module):
    """One matrix used twice, and a frozen layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.again, self.read = nn.Linear(7, 7), nn.Linear(7, 7), nn.Linear(7, 3)
        self.again.weight = self.first.weight
        self.read.weight.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.read(self.again(self.first(x).tanh()).tanh())  # type: ignore[no-any-return]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.read = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.read(self.lstm(x)[0][:, -1])  # type: ignore[no-any-return]


class SmallAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attend, self.read = nn.MultiheadAttention(4, 2, batch_first=True), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.read(self.attend(x, x, x, need_weights=False)[0].mean(1))  # type: ignore[no-any-return]


def concave(outputs: Tensor, _: Tensor) -> Tensor:
    """A loss whose Hessian in the outputs is −1."""
    return -outputs.square().sum(1) / 2


def saddle(outputs: Tensor, _: Tensor) -> Tensor:
    """λ_max and λ_min of opposite sign, the negative one ten times as large."""
    signs = torch.tensor([-10.0, 1.0, 0.5], dtype=outputs.dtype, device=outputs.device)
    return (outputs.square() * signs).sum(1) / 2


def barely(outputs: Tensor, _: Tensor) -> Tensor:
    """A loss so flat that its curvature is close to nothing."""
    return 1e-18 * outputs.square().sum(1) / 2 + outputs.sum(1)


def _mlp(*sizes: int, activation: Callable[[], nn.Module] = nn.Tanh) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        layers: list[nn.Module] = []
        for before, after in pairwise(sizes):
            layers += [nn.Linear(before, after), activation()]
        return nn.Sequential(*layers[:-1])

    return build


def _convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 3)
    )


def _confident() -> nn.Module:
    net = _mlp(6, 8, 3)()
    with torch.no_grad():
        net[2].weight *= 30  # type: ignore[index]
    return net


CURVATURE_CASES = [
    CurvatureCase("tanh, cross-entropy", _mlp(6, 9, 4), (6,), "cross-entropy", 4),
    CurvatureCase("relu, cross-entropy", _mlp(6, 10, 4, activation=nn.ReLU), (6,), "cross-entropy", 4),
    CurvatureCase("gelu, square", _mlp(5, 8, 6, 3, activation=nn.GELU), (5,), "square", 3),
    CurvatureCase("one logit, bce", _mlp(6, 12, 1, activation=nn.Softplus), (6,), "bce", 1),
    CurvatureCase("one logit, logistic", _mlp(5, 7, 5, 1), (5,), "logistic", 1),
    CurvatureCase("exponential", _mlp(6, 11, 1, activation=nn.ELU), (6,), "exponential", 1),
    CurvatureCase("deep linear, square", _mlp(4, 5, 5, 5, 2, activation=nn.Identity), (4,), "square", 2),
    # Every output has the same Hessian block: all eigenvalues are at least double.
    CurvatureCase("double top", lambda: nn.Linear(30, 3), (30,), "square", 3, samples=40),
    CurvatureCase("convolutions", _convolutional, (1, 6, 6), "cross-entropy", 3),
    CurvatureCase("tied and frozen", Tied, (7,), "cross-entropy", 3),
    CurvatureCase("lstm", Recurrent, (4, 3), "cross-entropy", 2),
    CurvatureCase("attention", SmallAttention, (3, 4), "cross-entropy", 3),
    CurvatureCase("negative is larger", _mlp(6, 8, 3), (6,), saddle, 3),
    CurvatureCase("negative definite", lambda: nn.Linear(24, 3, bias=False), (24,), concave, 3, samples=60),
    CurvatureCase("nearly zero", lambda: nn.Linear(30, 3, bias=False), (30,), barely, 3),
    CurvatureCase("saturated", _confident, (6,), "cross-entropy", 3),
    # Rounding is measured on a share of these.
    CurvatureCase("many samples", _mlp(6, 9, 3), (6,), "cross-entropy", 3, samples=400),
]


def _function(
    net: nn.Module, x: Tensor, y: Tensor, loss: CurvatureLoss
) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor], Tensor]:
    """Outputs and loss as functions of the trainable parameters in one vector, in float64, and that vector."""
    net = copy.deepcopy(net).double()
    x = x.double() if x.is_floating_point() else x
    own = {name: p for name, p in net.named_parameters() if p.requires_grad}

    def outputs(flat: Tensor) -> Tensor:
        pieces = flat.split([p.numel() for p in own.values()])
        state = {name: piece.view_as(p) for (name, p), piece in zip(own.items(), pieces, strict=True)}
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            found: Tensor = functional_call(net, state, (x,))
        return found

    def total(scores: Tensor) -> Tensor:
        if callable(loss):
            return loss(scores, y).mean()
        labels = labels_of_classes(y, loss=loss)
        labels = prepare_labels(labels, loss=loss, outputs=scores.shape[1], dtype=torch.float64)
        return mean_loss(scores, labels, loss)

    return outputs, total, torch.cat([p.detach().flatten() for p in own.values()])


def dense_hessian(net: nn.Module, x: Tensor, y: Tensor, loss: CurvatureLoss) -> Tensor:
    """The whole Hessian of the mean loss in the trainable parameters, in float64."""
    outputs, total, flat = _function(net, x, y, loss)
    hessian: Tensor = torch.autograd.functional.hessian(lambda w: total(outputs(w)), flat, vectorize=True)  # type: ignore[no-untyped-call]
    return (hessian + hessian.T) / 2


def dense_gauss_newton(net: nn.Module, x: Tensor, y: Tensor, loss: CurvatureLoss) -> Tensor:
    """JᵀℓʺJ of the mean loss, in float64."""
    outputs, total, flat = _function(net, x, y, loss)
    jacobian: Tensor = torch.autograd.functional.jacobian(outputs, flat).flatten(0, 1)  # type: ignore[no-untyped-call]
    scores = outputs(flat).detach()
    inner: Tensor = torch.autograd.functional.hessian(total, scores)  # type: ignore[no-untyped-call]
    return jacobian.T @ inner.reshape(scores.numel(), -1) @ jacobian
