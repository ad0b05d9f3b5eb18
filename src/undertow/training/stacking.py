"""Networks of one architecture as one: which way suits them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from undertow.core.closed_form import has_closed_form
from undertow.training.branches import BranchedNetworks
from undertow.training.ensemble import Ensemble
from undertow.training.mapped import MappedNetworks, is_patch_chain
from undertow.training.stacked import StackedMLP, dense_layers
from undertow.training.written import WrittenGradients

__all__ = ["stack_networks"]


def stack_networks(
    networks: Sequence[nn.Module],
    *,
    frozen: Sequence[str],
    dtype: torch.dtype,
    device: torch.device,
    faster: bool = False,
) -> Ensemble:
    """Networks of one architecture as one: those with written gradients on stacked weights, any other ones mapped.

    With ``faster`` convolutional networks are compiled, and several of them are branches of a step.
    """
    if has_closed_form(networks[0]):
        return WrittenGradients(networks, networks[0], frozen=frozen, dtype=dtype, device=device)
    layers = dense_layers(networks[0])
    if layers is None and faster and len(networks) > 1 and is_patch_chain(networks[0]):
        return BranchedNetworks(networks, frozen=frozen, dtype=dtype, device=device)
    if layers is None:
        return MappedNetworks(networks, frozen=frozen, dtype=dtype, device=device, faster=faster)
    return StackedMLP(networks, layers, frozen=frozen, dtype=dtype, device=device)
