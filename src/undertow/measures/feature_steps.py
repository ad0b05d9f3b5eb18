"""The weight decomposition followed step by step: λ and σ as gradient descent adds them up.

Each full-batch step adds −η ∂L/∂f(x_i) · a_r · 1[⟨w_r, x_i⟩ + b_r > 0] · x_i to neuron r for every sample i, and
x_i = μ_{j(i)} + ξ_i: the coefficients' increments are known, whether or not the final decomposition is unique.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from undertow.core.errors import ModelError
from undertow.core.losses import Loss, loss_gradient
from undertow.core.networks import DenseChain, read_dense

__all__ = ["FeatureSteps", "TwoLayerParts", "two_layer_parts"]


@dataclass(frozen=True, eq=False)
class TwoLayerParts:
    """W (m, d), b (m,) and the head A (outputs, m) of A ReLU(W x + b)."""

    weight: Tensor
    bias: Tensor
    head: Tensor


def two_layer_parts(net: nn.Module) -> TwoLayerParts:
    """The weights of ``Sequential(Flatten?, Linear, ReLU, Linear without bias)``, in float64.

    >>> two_layer_parts(nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1, bias=False))).head.shape
    torch.Size([1, 2])
    """
    chain = read_dense(net)
    if (
        not isinstance(chain, DenseChain)
        or chain.activation_names != ("relu", None)
        or chain.biases[1] is not None
    ):
        raise ModelError(
            "features are read off Sequential(Flatten?, Linear, ReLU, Linear(bias=False)): give a two-layer ReLU "
            "network without an output bias."
        )
    hidden, output = chain.linears
    weight = hidden.weight.detach().double()
    bias = weight.new_zeros(len(weight)) if hidden.bias is None else hidden.bias.detach().double()
    return TwoLayerParts(weight, bias, output.weight.detach().double())


class FeatureSteps:
    """λ and σ of a network under full-batch gradient descent, one ``add`` for every step, before it is made.

    >>> net = nn.Sequential(nn.Linear(2, 1, bias=False), nn.ReLU(), nn.Linear(1, 1, bias=False))
    >>> for weight in net.parameters(): _ = nn.init.ones_(weight)
    >>> x, y = torch.tensor([[1.0, 0.0]]), torch.tensor([1.0])
    >>> steps = FeatureSteps(x, y, torch.eye(2)[:1], torch.tensor([0]), loss="logistic")
    >>> steps.add(net, learning_rate=1.0)
    >>> round(steps.features.item(), 4)                                    # 1/(1 + e)
    0.2689
    """

    def __init__(self, x: Tensor, y: Tensor, centres: Tensor, cluster: Tensor, *, loss: Loss) -> None:
        self._x, self._y, self._loss = x.detach().flatten(1).double(), y, loss
        self._membership = torch.nn.functional.one_hot(cluster, len(centres)).double()
        self._lengths = centres.double().square().sum(1)
        self._noise_lengths = (self._x - centres.double()[cluster]).square().sum(1)
        self._sum: Tensor | None = None

    def add(self, net: nn.Module, *, learning_rate: float) -> None:
        """The step of ``learning_rate`` that starts at ``net``."""
        parts = two_layer_parts(net)
        hidden = self._x @ parts.weight.T + parts.bias
        logits = hidden.relu() @ parts.head.T
        slopes = loss_gradient(logits, self._y, self._loss)
        step = -learning_rate * ((slopes @ parts.head) * (hidden > 0)).T
        self._sum = step if self._sum is None else self._sum + step

    @property
    def taken(self) -> Tensor | None:
        """How much of each sample is in each neuron so far, (m, n); None before the first step."""
        return self._sum

    @taken.setter
    def taken(self, value: Tensor | None) -> None:
        self._sum = value

    @property
    def features(self) -> Tensor:
        """λ (m, k)."""
        assert self._sum is not None, "add() comes first"
        return (self._sum @ self._membership) * self._lengths

    @property
    def noise(self) -> Tensor:
        """σ (m, n)."""
        assert self._sum is not None, "add() comes first"
        return self._sum * self._noise_lengths
