"""β of a chain of layers from the spectral norms of its layers: how steep s_y − s_j can be anywhere."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from undertow.adversary.certificates.spectral_bounds import convolution_norm
from undertow.core.errors import ModelError
from undertow.core.layers import (
    ActivationLayer,
    ConvolutionLayer,
    FlattenLayer,
    Layer,
    LinearLayer,
    PoolingLayer,
)
from undertow.core.networks import NotAChain, read_layers
from undertow.core.scoring import double_copy

__all__ = ["gap_slopes"]


def gap_slopes(net: nn.Module) -> Tensor:
    """β_yj = ‖row_y − row_j‖ ∏_k ‖W_k‖₂ ≥ the Lipschitz constant of s_y − s_j, (k, k) in float64; one logit: (1, 1).

    ReLUs and the like have slopes up to their own constant, max-pooling over disjoint windows has 1. Norms of
    convolutions are bounds over images of any size (``convolution_norm``).

    >>> net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU(), nn.Linear(2, 1, bias=False))
    >>> _ = net[0].weight.data.copy_(torch.diag(torch.tensor([3.0, 1.0])))
    >>> _ = net[2].weight.data.copy_(torch.tensor([[0.6, 0.8]]))
    >>> [[round(v, 6) for v in row] for row in gap_slopes(net).tolist()]
    [[3.0]]
    """
    chain = read_layers(double_copy(net))
    layers = None if isinstance(chain, NotAChain) else chain.at_work
    if layers is None or not isinstance(layers[-1], LinearLayer):
        raise ModelError(
            "layer norms are multiplied where a network is a chain of layers that ends in a linear one."
        )
    slope = torch.ones((), dtype=torch.float64)
    for layer in layers[:-1]:
        if isinstance(layer, LinearLayer):
            slope = slope * torch.linalg.matrix_norm(layer.module.weight.detach(), 2).cpu()
        elif isinstance(layer, ConvolutionLayer):
            slope = slope * _convolution(layer)
        elif isinstance(layer, ActivationLayer) and layer.activation is not None:
            slope = slope * layer.activation.steepness
        else:
            _require_no_steeper(layer)
    rows = layers[-1].module.weight.detach().cpu()
    return slope * (rows.norm(dim=1)[:, None] if len(rows) == 1 else torch.cdist(rows, rows))


def _convolution(layer: ConvolutionLayer) -> float:
    if layer.module.groups != 1:
        raise ModelError(f"the norm of the layer {layer} is not known here: its channels are in groups.")
    return convolution_norm(layer.module.weight.detach())


def _require_no_steeper(layer: Layer) -> None:
    """A ``ModelError`` unless the layer only moves numbers, or takes the largest or the mean of disjoint windows."""
    module = layer.module
    moves = isinstance(layer, FlattenLayer) or type(module) is nn.Unflatten
    disjoint = getattr(module, "stride", 0) == getattr(module, "kernel_size", None) and not getattr(
        module, "padding", 0
    )
    if not moves and not (isinstance(layer, PoolingLayer) and disjoint):
        raise ModelError(
            f"how steep the layer {layer} is, is not known here: it takes linear layers and convolutions, "
            "known activations, and pooling over windows that do not overlap."
        )
