"""The largest margins that a linear network can have on its points, in four norms of the weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor, nn

from undertow.core.errors import ModelError
from undertow.core.networks import DenseChain, read_dense
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading, labels_for
from undertow.theory.max_margin import MaxMargin, margin_rows, max_margin
from undertow.theory.weight_norms import WEIGHT_NORMS, WeightNorm

__all__ = ["LinearOptimum", "linear_weight"]


class LinearOptimum(NamedMeasure):
    """The largest margin of linear networks on the probe's points, norm by norm, and how near this one's weights are.

    Readings: ``optimum:1`` and so on, each with an error that is proved; ``cosine:1`` …, of the weights with the
    optimal direction that was found. For linear networks without biases; see
    :func:`undertow.theory.max_margin.max_margin`.
    """

    name: ClassVar[str] = "linear-optimum"

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        weight = linear_weight(net)
        classes = max(len(weight), 2)
        rows = margin_rows(x, labels_for(self, y), classes=classes).cpu()
        flat = weight.flatten().cpu()
        for norm in WEIGHT_NORMS:
            best = _optimum(_Problem(rows.numpy().tobytes(), tuple(weight.shape), norm))
            yield f"optimum:{norm}", best.value, best.upper - best.value
            cosine = torch.nn.functional.cosine_similarity(flat, best.direction, dim=0)
            yield f"cosine:{norm}", float(cosine), None


@dataclass(frozen=True)
class _Problem:
    """What an optimum depends on: networks by several rules on the same points have the same."""

    rows: bytes
    shape: tuple[int, ...]
    norm: WeightNorm


@lru_cache(maxsize=128)
def _optimum(problem: _Problem) -> MaxMargin:
    rows = torch.frombuffer(bytearray(problem.rows), dtype=torch.float64).view(-1, math.prod(problem.shape))
    return max_margin(rows, norm=problem.norm, shapes=[problem.shape])


def linear_weight(net: nn.Module) -> Tensor:
    """W (k, d) in float64 of a network that is one linear layer without a bias.

    >>> linear_weight(nn.Sequential(nn.Flatten(), nn.Linear(3, 2, bias=False))).shape
    torch.Size([2, 3])
    """
    chain = read_dense(net)
    if not isinstance(chain, DenseChain) or len(chain.linears) != 1 or chain.biases[0] is not None:
        raise ModelError(
            "this needs a linear network: one linear layer without a bias, as mlp with no widths."
        )
    return chain.linears[0].weight.detach().double()
