"""Radii of narrow networks in high dimensions: all that matters happens in the first layer's row space."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from undertow.core.errors import ModelError
from undertow.core.layers import Layer, LinearLayer
from undertow.core.networks import LayerChain, read_layers

__all__ = ["in_row_space"]


def in_row_space(net: nn.Module, x: Tensor) -> tuple[nn.Sequential, Tensor]:
    """A network of as many inputs as ``net`` has neurons, and the points as it sees them, with the same L2 radii.

    With W = R Q, the rows of Q orthonormal, f depends on x through Qx alone. The part of a perturbation outside
    the row space costs length and changes nothing, so the smallest adversarial perturbations of f at x and
    of the small network at Qx have the same L2 norm; Qᵀ takes one to the other. There must be no box. In float64.

    >>> net = nn.Sequential(nn.Linear(50, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> small, points = in_row_space(net, torch.ones(2, 50))
    >>> tuple(points.shape), bool(torch.allclose(small(points), net(torch.ones(2, 50)).double(), atol=1e-5))
    ((2, 3), True)
    """
    chain = read_layers(net)
    layers: tuple[Layer, ...] = chain.at_work_on_vectors if isinstance(chain, LayerChain) else ()
    if not layers or not isinstance(layers[0], LinearLayer):
        found = str(layers[0]) if layers else getattr(chain, "reason", "nothing")
        raise ModelError(
            "the row space is read off a first linear layer: give nn.Sequential(Flatten?, Linear, …). Here: "
            f"{found}."
        )
    first, rest = layers[0].module, [copy.deepcopy(layer.module).double() for layer in layers[1:]]
    # Q and R of Wᵀ on the CPU: a few columns, and the same signs on every device.
    frame, triangle = torch.linalg.qr(first.weight.detach().double().cpu().T)
    inner = nn.Linear(frame.shape[1], first.out_features, bias=first.bias is not None, dtype=torch.float64)
    with torch.no_grad():
        inner.weight.copy_(triangle.T)
        if first.bias is not None:
            inner.bias.copy_(first.bias)
    small = nn.Sequential(inner, *rest).to(x.device).requires_grad_(False).eval()
    return small, x.detach().flatten(1).double() @ frame.to(x.device)
