"""How well a product of matrices completes the matrix of which it sees entries, and of what rank it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from undertow.core.errors import InputError, ModelError
from undertow.core.sections import Count
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading

__all__ = ["Completion", "effective_rank", "unseen_error"]


def effective_rank(values: Tensor) -> float:
    """exp of the entropy of σ_i/Σσ (Roy & Vetterli 2007), as Arora et al. (2019) report it.

    >>> round(effective_rank(torch.tensor([2.0, 2.0, 0.0])), 6)
    2.0
    """
    share = values.double() / values.double().sum()
    return float(torch.special.entr(share).sum().exp())


def unseen_error(found: Tensor, matrix: Tensor, seen: Tensor) -> float:
    """‖W − Y‖_F/‖Y‖_F over the entries that were not seen.

    >>> unseen_error(torch.zeros(2, 2), torch.ones(2, 2), torch.eye(2).bool())
    1.0
    """
    miss = (found.double() - matrix.double())[~seen]
    return float(miss.norm() / matrix.double()[~seen].norm())


class Completion(NamedMeasure):
    """``error`` of a product over the entries not seen, its effective ``rank``, and singular values ``sigma:0`` ….

    >>> from undertow.data.matrix_entries import matrix_entries
    >>> from undertow.models import MatrixProduct
    >>> data = matrix_entries(n=3, size=2, rank=1)
    >>> exact = MatrixProduct(2, depth=1, start=1.0, generator=torch.Generator())
    >>> _ = exact.layers[0].data.copy_(data.details["matrix"])
    >>> [round(value, 4) for _, value, _ in Completion(count=1).about(data.details)(exact, data.x, None)]
    [0.0, 1.0, 2.0]
    """

    name: ClassVar[str] = "completion"
    count: Count = 6

    def about(self, details: Mapping[str, Tensor]) -> _OfMatrix:
        """The measure for a matrix that is known, and of which some entries were seen."""
        if not {"matrix", "seen"} <= details.keys():
            raise InputError(f"{self.name} needs to know the matrix: choose the data matrix-entries.")
        return _OfMatrix(self, details["matrix"], details["seen"])

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        raise InputError(f"{self.name} needs to know the matrix: see Completion.about.")


@dataclass(frozen=True, eq=False)
class _OfMatrix:
    name: ClassVar[str] = Completion.name
    options: Completion
    matrix: Tensor
    seen: Tensor

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        product = getattr(net, "product", None)
        if not callable(product):
            raise ModelError(f"{self.name} reads a product of matrices: choose the model matrix-product.")
        with torch.no_grad():
            found: Tensor = product().double().cpu()
        values = torch.linalg.svdvals(found)
        yield "error", unseen_error(found, self.matrix, self.seen), None
        yield "rank", effective_rank(values), None
        for place, value in enumerate(values[: self.options.count].tolist()):
            yield f"sigma:{place}", value, None
