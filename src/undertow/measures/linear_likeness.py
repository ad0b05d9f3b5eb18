"""How like a linear model a network is (Nakkiran et al. 2019)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from undertow.core.errors import InputError
from undertow.measures.named_measure import AsWritten, NamedMeasure
from undertow.measures.reading import Reading, labels_for
from undertow.training.taken import StepTaken

__all__ = ["Agreement", "LinearLikeness", "LinearModel", "affine_functions", "agreement", "best_linear_model"]


@dataclass(frozen=True, eq=False)
class LinearModel:
    """x ↦ ⟨w, x⟩ + b, positive for label 1."""

    weight: Tensor
    bias: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        return x.flatten(1).double() @ self.weight + self.bias


def best_linear_model(x: Tensor, y: Tensor, *, ridge: float = 1e-3, steps: int = 30) -> LinearModel:
    """The linear classifier of least logistic loss, labels 0 and 1, by Newton's method in float64.

    ``ridge``·‖w‖²/2 is added to the mean loss: separable data has no minimum without it, and the limit of a
    small ridge is the hard-margin one.

    >>> model = best_linear_model(torch.tensor([[1.0], [-1.0]]), torch.tensor([1, 0]))
    >>> model(torch.tensor([[2.0], [-3.0]])).sign().tolist()
    [1.0, -1.0]
    """
    if not bool(((y == 0) | (y == 1)).all()):
        raise InputError("a linear classifier of two classes wants labels 0 and 1.")
    rows = torch.cat([x.flatten(1).double(), torch.ones(len(x), 1).to(x.device).double()], dim=1)
    signs = 2.0 * y.to(rows) - 1
    penalty = torch.full((rows.shape[1],), ridge).to(rows)
    penalty[-1] = 1e-9  # the bias is free, as far as a system of equations allows
    w = torch.zeros(rows.shape[1]).to(rows)
    for _ in range(steps):
        slope = torch.sigmoid(-signs * (rows @ w))
        gradient = -(rows.T @ (signs * slope)) / len(rows) + penalty * w
        curvature = (rows.T * (slope * (1 - slope))) @ rows / len(rows) + torch.diag(penalty)
        step = torch.linalg.solve(curvature, gradient)
        # A full Newton step overshoots where the logistic loss is flat; its length is known to be safe below 1.
        w = w - step / max(1.0, float((rows @ step).abs().max()) / 4)
        if float(step.abs().max()) < 1e-10 * max(1.0, float(w.abs().max())):
            break
    return LinearModel(w[:-1], w[-1])


@dataclass(frozen=True)
class Agreement:
    """How much a network is like a linear model, on some points."""

    agree: float
    """Share of points that both classify alike."""
    beyond: float | None
    """(agree − expected)/(1 − expected), where ``expected`` is what their two accuracies alone would give if their
    errors had nothing to do with each other: 0 then, 1 for the same classifier; None where it must be 1."""
    linearity: float
    """R² of the least-squares fit of the network's logit by an affine function of x: 1 for a linear network."""
    accuracy: float
    linear_accuracy: float


def affine_functions(x: Tensor) -> Tensor:
    """An orthonormal basis of what affine functions can be on the rows of x, (N, rank), in float64.

    By singular vectors: pixels that are always blank leave the rows without full rank.

    >>> affine_functions(torch.tensor([[1.0, 5.0], [2.0, 5.0], [4.0, 5.0]])).shape
    torch.Size([3, 2])
    """
    rows = torch.cat([x.flatten(1).double(), torch.ones(len(x), 1).to(x.device).double()], dim=1)
    left, sizes, _ = torch.linalg.svd(rows, full_matrices=False)
    basis: Tensor = left[:, sizes > 1e-10 * sizes[0]]
    return basis


def agreement(
    net: nn.Module, x: Tensor, y: Tensor, model: LinearModel, *, affine: Tensor | None = None
) -> Agreement:
    """Compare a one-logit network with a linear model on points with labels 0 and 1.

    Finding ``affine_functions(x)`` takes far longer than the rest: who compares on the same points again may pass it.

    >>> net = nn.Linear(1, 1, bias=False)
    >>> _ = nn.init.ones_(net.weight)
    >>> x, y = torch.tensor([[1.0], [2.0], [-1.0], [-2.0]]), torch.tensor([1, 0, 0, 1])
    >>> like = agreement(net, x, y, LinearModel(torch.ones(1).double(), torch.zeros(()).double()))
    >>> like.agree, like.beyond, round(like.linearity, 6)
    (1.0, 1.0, 1.0)
    """
    with torch.no_grad():
        logits = net(x).double().flatten()
    if len(logits) != len(x):
        raise InputError("agreement with a linear model is for networks with one logit.")
    signs = 2.0 * y.to(logits) - 1
    ours, theirs = logits * signs > 0, model(x) * signs > 0
    accuracy, linear_accuracy = (float(right.double().mean()) for right in (ours, theirs))
    agree = float((ours == theirs).double().mean())
    expected = accuracy * linear_accuracy + (1 - accuracy) * (1 - linear_accuracy)
    beyond = None if expected > 1 - 1e-9 else (agree - expected) / (1 - expected)
    basis = affine_functions(x) if affine is None else affine
    fitted = basis @ (basis.T @ logits)
    spread = float((logits - logits.mean()).square().sum())
    linearity = 1 - float((logits - fitted).square().sum()) / spread if spread > 0 else 1.0
    return Agreement(agree, beyond, linearity, accuracy, linear_accuracy)


class LinearLikeness(NamedMeasure):
    """How like the best linear model a one-logit network is, which is fitted to the training data once.

    Readings on the probe's points: ``agree`` (share of equal decisions), ``beyond`` (agreement beyond what the
    two accuracies alone give, 0 to 1; left out where they leave no room), ``linearity`` (R² of the logit's
    linear fit), ``accuracy`` and ``linear_accuracy``.
    """

    name: ClassVar[str] = "linear-likeness"
    ridge: AsWritten = 1e-3

    def begin(self, start: nn.Module, x: Tensor, y: Tensor, *, learning_rate: float) -> _Beside:  # noqa: ARG002
        return _Beside(best_linear_model(x, (y > 0).long(), ridge=self.ridge), self)

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        """Without a training run to follow, the linear model is fitted to the points themselves."""
        return self.begin(net, x, labels_for(self, y), learning_rate=0.0).read(net, x, y)


class _Beside:
    """A training run with the linear model of its data; that model is all there is to remember, and is refitted."""

    observes = False

    def __init__(self, model: LinearModel, measure: LinearLikeness) -> None:
        self.model, self.measure = model, measure
        self._points: Tensor | None = None

    def observe(self, net: nn.Module, taken: StepTaken) -> None:
        pass

    def read(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        # A run is read on the same points all along.
        if self._points is None or not torch.equal(self._points, x):
            self._points, self._affine = x, affine_functions(x)
        found = agreement(net, x, labels_for(self.measure, y), self.model, affine=self._affine)
        yield "agree", found.agree, None
        if found.beyond is not None:
            yield "beyond", found.beyond, None
        yield "linearity", found.linearity, None
        yield "accuracy", found.accuracy, None
        yield "linear_accuracy", found.linear_accuracy, None

    def state(self) -> dict[str, Tensor]:
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        pass
