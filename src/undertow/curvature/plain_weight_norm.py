"""Weight normalisation from ordinary operations, because PyTorch's own has a wrong second derivative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

__all__ = ["PlainWeightNorm"]


class PlainWeightNorm(TorchFunctionMode):
    """Within it w = g v/‖v‖ is computed by a norm, a quotient and a product, each of which can be differentiated twice.

    The fused kernel behind ``torch.nn.utils.parametrizations.weight_norm``, and behind the older hook, has a first
    derivative that is right and a second one that is not: in PyTorch 2 the Hessian it leads to is not symmetric, by
    10 to 20 % of its length on the processor.

    >>> v, g = torch.tensor([[3.0, 4.0]]), torch.tensor([[10.0]])
    >>> with PlainWeightNorm():
    ...     torch._weight_norm(v, g, 0)
    tensor([[6., 8.]])
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func is torch._weight_norm:
            return _weight(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _weight(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    # torch.norm_except_dim would do, but for negative axes, which mean "of everything" there.
    axes = [axis for axis in range(v.dim()) if dim == -1 or axis != dim % v.dim()]
    found: Tensor = v * (g / torch.linalg.vector_norm(v, dim=axes, keepdim=True))
    return found
