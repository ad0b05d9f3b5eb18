"""Of what rank a deep linear network is from end to end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import torch
from torch import Tensor, nn

from undertow.core.errors import ModelError
from undertow.core.networks import NotAChain, read_dense
from undertow.core.sections import Count
from undertow.measures.completion import effective_rank
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading

__all__ = ["LinearProduct"]


class LinearProduct(NamedMeasure):
    """Effective ``rank`` of W = W_L ⋯ W_1, its ``stable-rank`` ‖W‖_F²/‖W‖₂², and singular values ``sigma:0`` ….

    >>> net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    >>> for layer in net: _ = layer.weight.data.copy_(torch.diag(torch.tensor([2.0, 1.0])))
    >>> [(key, round(value, 3)) for key, value, _ in LinearProduct(count=2)(net, torch.ones(1, 2), None)]
    [('rank', 1.649), ('stable-rank', 1.062), ('sigma:0', 4.0), ('sigma:1', 1.0)]
    """

    name: ClassVar[str] = "linear-product"
    count: Count = 10

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        chain = read_dense(net, inputs=x)
        if isinstance(chain, NotAChain):
            raise ModelError(
                f"{self.name} multiplies the weights of a chain of linear layers: {chain.reason}"
            )
        for layer in chain.activations:
            if layer is not None and not layer.is_identity:
                raise ModelError(
                    f"{self.name} reads linear networks, and this one has a {type(layer.module).__name__}: "
                    'choose activation = "linear".'
                )
        product = chain.linears[0].weight.detach().double()
        for linear in chain.linears[1:]:
            product = linear.weight.detach().double() @ product
        values = torch.linalg.svdvals(product).cpu()
        yield "rank", effective_rank(values), None
        yield "stable-rank", float((values**2).sum() / values[0] ** 2), None
        for place, value in enumerate(values[: self.count].tolist()):
            yield f"sigma:{place}", value, None
