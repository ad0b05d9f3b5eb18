"""The two-layer networks f(x) = aᵀσ(Wx) that Theorems 5.3 and 5.5 of Wang, Min & Ruan (2024) are about."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from undertow.core.activations import LINEAR, Activation
from undertow.core.errors import ModelError
from undertow.core.networks import DenseChain, read_dense

__all__ = ["GrowthNetwork", "first_weight", "growth_network_of", "refuse_moved_head"]


@dataclass(frozen=True, eq=False)
class GrowthNetwork:
    """W (m, d), a (m,) and σ; ``linear`` where there is no activation. Inputs x are (n, d), labels y 0 or 1."""

    weight: Tensor
    head: Tensor
    activation: Activation
    linear: bool

    def slopes_at(self, x: Tensor) -> Tensor:
        """σ′(w_rᵀx_i), the diagonals of D(x_i): (n, m)."""
        return self.activation.slope(x @ self.weight.T)

    def errors(self, x: Tensor, y: Tensor) -> Tensor:
        """y_i − sig(f(x_i)): (n,)."""
        if self.linear:
            return y - torch.sigmoid(x @ (self.head @ self.weight))
        return y - torch.sigmoid(self.activation.value(x @ self.weight.T) @ self.head)

    def direction(self, x: Tensor, y: Tensor) -> Tensor:
        """G (m, d): a step of gradient descent on the mean binary cross-entropy changes W by ηG (Eq. 20).

        Row r is a_r x̃_r with x̃_r = (1/n) Σ_i σ′(w_rᵀx_i)(y_i − sig(u_i)) x_i; without activation G = a x̃ᵀ
        (Lemma B.1).
        """
        errors = self.errors(x, y) / len(x)
        if self.linear:
            return torch.outer(self.head, errors @ x)
        return self.head[:, None] * ((self.slopes_at(x) * errors[:, None]).T @ x)


def growth_network_of(net: nn.Module) -> GrowthNetwork:
    """The network's W, a and σ in float64, or a ``ModelError`` that says what the theorems want.

    >>> from undertow.models import Scaled, two_layer
    >>> net = two_layer(inputs=3, width=4, init=Scaled(q=0.25), generator=torch.Generator().manual_seed(0))
    >>> growth_network_of(net).head.abs()
    tensor([0.5000, 0.5000, 0.5000, 0.5000], dtype=torch.float64)
    """
    chain = read_dense(net)
    if not isinstance(chain, DenseChain) or len(chain.linears) != 2 or chain.activations[1] is not None:
        why = "" if isinstance(chain, DenseChain) else f" Here {chain.reason}."
        raise ModelError(
            "the theory of co-correlation growth is about two-layer networks aᵀσ(Wx): give a sequence of a linear "
            f"layer, an activation and a linear layer, e.g. undertow.models.two_layer(…).{why}"
        )
    hidden, output = chain.linears
    biases = [name for name, _ in net.named_parameters() if name.endswith("bias")]
    if biases or output.out_features != 1:
        raise ModelError(
            "the theory of co-correlation growth wants one logit and no biases (outputs=1, bias='none')."
        )
    weight, head = hidden.weight.detach().double(), output.weight.detach().double().flatten()
    layer = chain.activations[0]
    linear = layer is None
    activation = LINEAR if layer is None else layer.activation
    if activation is None:
        raise ModelError(
            f"the theory of co-correlation growth knows no derivatives of {layer}: use an activation of PyTorch's."
        )
    off = (head.norm() - 1).abs() if linear else (head.abs() * math.sqrt(len(head)) - 1).abs().max()
    if float(off) > 1e-5:
        wanted = "‖a‖₂ = 1" if linear else "a_r = ±1/√m"
        raise ModelError(f"the theory of co-correlation growth wants a head with {wanted}: use head='signs'.")
    return GrowthNetwork(weight, head, activation, linear)


def first_weight(net: nn.Module) -> Tensor:
    """W in float64 of a network that ``growth_network_of`` has accepted before; it may share the network's memory."""
    return _linears(net)[0].weight.detach().double()


def refuse_moved_head(net: nn.Module, head: Tensor) -> None:
    """A ``ModelError`` where training has moved a: the theorems hold it fixed, and W alone would be followed."""
    if not torch.equal(_linears(net)[-1].weight.detach().double().flatten(), head):
        raise ModelError(
            "the theory of co-correlation growth holds the head fixed, and here it was trained: "
            "freeze it (frozen = ['output.weight'])."
        )


def _linears(net: nn.Module) -> tuple[nn.Linear, ...]:
    chain = read_dense(net)
    assert isinstance(chain, DenseChain), "the network has been accepted"
    return chain.linears
