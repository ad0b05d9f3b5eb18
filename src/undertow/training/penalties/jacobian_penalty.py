"""The Jacobian penalty: the mean of ‖J(x)‖_F² over samples, by random projections of the outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from undertow.core.sections import Count
from undertow.training.penalties.penalty import Penalty, Vectors
from undertow.training.penalties.seen import Seen, Signs

__all__ = ["JacobianPenalty"]


class JacobianPenalty(Penalty):
    """weight · (1/N) Σ_i ‖J(x_i)‖_F², J the Jacobian of the outputs in the input (Hoffman, Roberts & Yaida 2019).

    With random signs v, E[v vᵀ] = I and E‖Jᵀv‖² = ‖J‖_F²: one backward pass per projection, of all samples at
    once, is an unbiased estimate, and so is its gradient. Exact are as many projections as there are outputs, or
    ``"all"``: one backward pass per output, along the axes. One output is exact in any case. Of a Gaussian's
    variance, 2‖JJᵀ‖_F², signs leave out the diagonal's share.

    Args:
        weight: What the mean is multiplied by.
        projections: Random projections per sample, or ``"all"`` for the exact value.

    >>> net = torch.nn.Linear(3, 2, bias=False)
    >>> _ = net.weight.data.copy_(torch.tensor([[1.0, 2.0, 0.0], [0.0, 0.0, 3.0]]))
    >>> penalty = JacobianPenalty(0.5, projections="all")(net, torch.randn(7, 3))
    >>> penalty.item()  # half of 1 + 4 + 9
    7.0
    >>> penalty.backward()
    >>> torch.allclose(net.weight.grad, net.weight)
    True
    """

    name: Literal["jacobian"] = "jacobian"
    projections: Count | Literal["all"] = 1

    def __init__(self, *in_order: Any, **settings: Any) -> None:
        super().__init__(*in_order, **settings)

    def of_members(self, seen: Seen, signs: Signs, vectors: Mapping[str, Tensor]) -> tuple[Tensor, Vectors]:  # noqa: ARG002
        outputs, x = seen.outputs, seen.x
        count = outputs.shape[-1]
        if self.projections == "all" or self.projections >= count:
            axes = torch.eye(count, dtype=outputs.dtype, device=outputs.device)
            return sum((_squares(outputs, x, axis.expand_as(outputs)) for axis in axes), x.new_zeros(())), {}
        drawn = [_squares(outputs, x, signs(outputs, each)) for each in range(self.projections)]
        return torch.stack(drawn).mean(0), {}


def _squares(outputs: Tensor, x: Tensor, directions: Tensor) -> Tensor:
    """Mean over the samples of ‖Jᵀv‖², (M,), with a graph of its own."""
    (pulled,) = torch.autograd.grad(outputs, x, directions, create_graph=True)
    return pulled.flatten(2).square().sum(2).mean(1)
