"""Gradients of graphs that are kept, for products that are taken from them again and again."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from undertow.core.errors import ModelError

__all__ = ["kept_gradients"]

_DEVICE = ("allocate memory", "CUDA error", "CUBLAS", "CUDNN")  # the machine's trouble, not the layer's


def kept_gradients(
    outputs: Sequence[Tensor],
    leaves: Sequence[Tensor],
    cotangents: Sequence[Tensor] | None = None,
    *,
    create_graph: bool = False,
) -> list[Tensor]:
    """Σ ∂⟨output, cotangent⟩/∂leaf, keeping the graph; zero where a leaf does not matter.

    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> kept_gradients([x * x], [x]), kept_gradients([torch.ones(())], [x])
    ([tensor(6.)], [tensor(0.)])
    """
    live = [index for index, output in enumerate(outputs) if output.requires_grad]
    if not live:
        return [torch.zeros_like(leaf) for leaf in leaves]
    try:
        found = torch.autograd.grad(
            [outputs[index] for index in live],
            list(leaves),
            None if cotangents is None else [cotangents[index] for index in live],
            retain_graph=True,
            create_graph=create_graph,
            allow_unused=True,
        )
    except (RuntimeError, NotImplementedError) as error:
        if isinstance(error, torch.OutOfMemoryError) or any(word in str(error) for word in _DEVICE):
            raise
        raise ModelError(
            "some layer's backward pass has no derivative of its own, so the loss has no Hessian products: replace "
            f"the layer by one composed of ordinary operations. PyTorch says: {error}"
        ) from error
    return [
        torch.zeros_like(leaf) if each is None else each for leaf, each in zip(leaves, found, strict=True)
    ]
