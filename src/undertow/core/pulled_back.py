"""Derivatives of outputs weighted by slopes, without the half second that PyTorch takes to get ready for them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["gradients_of", "pulled_back"]


def pulled_back(
    outputs: Sequence[Tensor],
    leaves: Sequence[Tensor],
    slopes: Sequence[Tensor],
    *,
    create_graph: bool = False,
) -> tuple[Tensor | None, ...]:
    """Σ_o ⟨slopes_o, ∂o/∂leaf⟩ for each leaf; None where no output depends on it.

    As the gradient of one number, to the last bit what ``torch.autograd.grad`` returns when it is given the slopes;
    but given any, it imports sympy first.

    >>> leaf = torch.tensor([2.0, 3.0], requires_grad=True)
    >>> pulled_back([leaf.square()], [leaf], [torch.tensor([1.0, 10.0])])[0]
    tensor([ 4., 60.])
    """
    total = sum(((out * slope).sum() for out, slope in zip(outputs, slopes, strict=True)), torch.zeros(()))
    return torch.autograd.grad(total, list(leaves), create_graph=create_graph, allow_unused=True)


def gradients_of(
    total: Tensor, leaves: Sequence[Tensor], *, retain_graph: bool | None = None
) -> list[Tensor]:
    """∂(total)/∂leaf for each leaf: zero where the number does not depend on it, also where it depends on none.

    >>> leaf, unused = (torch.ones(2, requires_grad=True) for _ in range(2))
    >>> [each.tolist() for each in gradients_of((3 * leaf).sum(), [leaf, unused])]
    [[3.0, 3.0], [0.0, 0.0]]
    >>> gradients_of(torch.ones(()), [leaf])[0].tolist()
    [0.0, 0.0]
    """
    if not total.requires_grad:
        return [torch.zeros_like(leaf) for leaf in leaves]
    found = torch.autograd.grad(total, list(leaves), retain_graph=retain_graph, allow_unused=True)
    return [
        torch.zeros_like(leaf) if each is None else each for leaf, each in zip(leaves, found, strict=True)
    ]
