"""The trace of the loss's Hessian as a measure: the sum of all curvatures, which noise on labels is said to lower."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from torch import Tensor, nn

from undertow.core.sections import Positive
from undertow.curvature.hessian_trace import hessian_trace
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading, labels_for
from undertow.measures.sharpness import loss_for

__all__ = ["HessianTrace"]


class HessianTrace(NamedMeasure):
    """tr ∇²L of the mean loss over the points, with the half-width of its interval as error.

    From ``probes`` products, however long the interval then is. It holds with a probability of 99 % (see
    :func:`undertow.curvature.hessian_trace.hessian_trace`). ``loss`` is one of the training losses; ``"auto"`` is
    cross-entropy for several outputs, BCE for one logit.

    >>> import torch
    >>> net, x, y = nn.Linear(2, 1, bias=False), torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.zeros(2)
    >>> [(key, round(value, 6)) for key, value, _ in HessianTrace(loss="square")(net, x, y)]
    [('', 2.5)]
    """

    name: ClassVar[str] = "hessian-trace"
    loss: Literal["auto", "cross-entropy", "bce", "logistic", "exponential", "square"] = "auto"
    matrix: Literal["hessian", "gauss-newton"] = "hessian"
    probes: Annotated[int, Field(strict=True, ge=48, le=10**6)] = 120
    rtol: Positive = 0.1

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        found = hessian_trace(
            net,
            x,
            labels_for(self, y),
            loss=loss_for(self.loss, net, x),
            matrix=self.matrix,
            probes=self.probes,
            max_probes=self.probes,  # a reading costs the same at every step
            rtol=self.rtol,
        )
        yield "", found.value, found.error
