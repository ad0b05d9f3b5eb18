"""Networks whose outputs and gradients are a few products: many of one kind at once, without autograd."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeGuard

from torch import Tensor, nn

from undertow.core.networks import is_unmodified

__all__ = ["ClosedForm", "has_closed_form"]


class ClosedForm(Protocol):
    """What a network's class offers where its gradient is written down.

    ``weights`` maps the names of parameters to tensors (M, …) of M networks.
    """

    @staticmethod
    def stacked_outputs(weights: Mapping[str, Tensor], x: Tensor, own: bool) -> tuple[Tensor, Any]:
        """Outputs (M, B, k) of samples (B, …), or with ``own`` of each member's (M, B, …); and what gradients need."""

    @staticmethod
    def stacked_gradients(weights: Mapping[str, Tensor], kept: Any, slopes: Tensor) -> dict[str, Tensor]:
        """Each parameter's gradient, (M, …), given that of the outputs, (M, B, k)."""


def has_closed_form(network: nn.Module) -> TypeGuard[ClosedForm]:
    """Whether a network computes what its class says, and that has its gradient written down.

    >>> has_closed_form(nn.Linear(2, 1))
    False
    """
    return hasattr(type(network), "stacked_gradients") and all(map(is_unmodified, network.modules()))
