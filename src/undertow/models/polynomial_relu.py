"""The pReLU of Min & Vidal, and activations by name."""

from __future__ import annotations

import re

import torch
from torch import Tensor, nn

from undertow.core.activations import ACTIVATIONS
from undertow.core.errors import ConfigError, nearest

__all__ = ["PolynomialReLU", "activation"]

_POLYNOMIAL = re.compile(r"prelu-p(\d+(?:\.\d+)?)")


class PolynomialReLU(nn.Module):
    """The pReLU of Min & Vidal (2024): h_j ↦ max(h_j, 0)^p / ‖w_j‖^(p-1), h_j = ⟨w_j, x⟩.

    The division keeps the network homogeneous of degree 2 in its weights for every p; p = 1 is ReLU. The
    activation reads the weights of the layer before it, so it shares that layer without owning it: its
    parameters appear once, under the layer's name.

    >>> layer = nn.Linear(2, 1, bias=False)
    >>> _ = layer.weight.data.copy_(torch.tensor([[3.0, 4.0]]))
    >>> PolynomialReLU(3, layer)(layer(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))).flatten().tolist()
    [1.0800000429153442, 0.0]
    """

    def __init__(self, power: float, layer: nn.Linear) -> None:
        super().__init__()
        self.power = power
        self._layer = (layer,)  # in a tuple, where nn.Module does not register it a second time

    def forward(self, hidden: Tensor) -> Tensor:
        norms: Tensor = torch.linalg.vector_norm(self._layer[0].weight, dim=1)
        return torch.relu(hidden).pow(self.power) / norms.pow(self.power - 1)

    def extra_repr(self) -> str:
        return f"power={self.power:g}"


def activation(name: str, *, layer: nn.Linear) -> nn.Module:
    """The activation called ``name``, to be applied to the output of ``layer``.

    ``relu``, ``leaky-relu`` (slope 0.01, as in the stable-rank report), ``linear``, ``tanh``, ``gelu``, any other of
    :data:`undertow.core.activations.ACTIVATIONS`, or ``prelu-p3`` for the pReLU of Min & Vidal with p = 3 (any p ≥ 1).

    >>> activation("leaky-relu", layer=nn.Linear(2, 2))
    LeakyReLU(negative_slope=0.01)
    >>> activation("prelu-p3", layer=nn.Linear(2, 2))
    PolynomialReLU(power=3)
    """
    if name in ACTIVATIONS:
        return ACTIVATIONS[name]()
    match = _POLYNOMIAL.fullmatch(name)
    if match and float(match[1]) >= 1:
        return PolynomialReLU(float(match[1]), layer)
    raise ConfigError(f"There is no activation {name!r}: {nearest(name, [*ACTIVATIONS, 'prelu-p3'])}")
