"""The solution of least nuclear norm beside networks that complete the same matrix: it depends on the data alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from undertow.core.errors import InputError
from undertow.measures.completion import effective_rank, unseen_error
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading
from undertow.theory.nuclear_norm import nuclear_completion

__all__ = ["NuclearBaseline"]


class NuclearBaseline(NamedMeasure):
    """Keys ``error`` and ``rank`` as ``completion`` has them, and ``moved``, what the solver's last step still did.

    >>> from undertow.data.matrix_entries import matrix_entries
    >>> data = matrix_entries(n=24, size=5, rank=1)
    >>> found = {key: value for key, value, _ in NuclearBaseline().about(data.details)(nn.Identity(), data.x, None)}
    >>> found["error"] < 0.5, round(found["rank"], 1)
    (True, 1.0)
    """

    name: ClassVar[str] = "nuclear"

    def about(self, details: Mapping[str, Tensor]) -> _OfEntries:
        """The measure for a matrix that is known, and of which some entries were seen."""
        if not {"matrix", "seen"} <= details.keys():
            raise InputError(f"{self.name} needs to know the matrix: choose the data matrix-entries.")
        return _OfEntries(details["matrix"], details["seen"])

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        raise InputError(f"{self.name} needs to know the matrix: see NuclearBaseline.about.")


@dataclass(frozen=True, eq=False)
class _OfEntries:
    name: ClassVar[str] = NuclearBaseline.name
    matrix: Tensor
    seen: Tensor

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        return iter(self.batched([net], x, y)[0])

    def batched(self, networks: Sequence[nn.Module], x: Tensor, y: Tensor | None) -> list[list[Reading]]:  # noqa: ARG002
        """Once for all networks."""
        found, moved = nuclear_completion(self.matrix, self.seen)
        rank = effective_rank(torch.linalg.svdvals(found))
        readings: list[Reading] = [
            ("error", unseen_error(found, self.matrix, self.seen), None),
            ("rank", rank, None),
            ("moved", moved, None),
        ]
        return [readings for _ in networks]
