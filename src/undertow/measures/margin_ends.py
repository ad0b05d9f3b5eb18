"""A linear network between the two ends of its training: the classifiers of largest L2 and of largest L1 margin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from undertow.core.errors import InputError, ModelError
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading
from undertow.theory.max_margin import max_margin

__all__ = ["MarginEnds"]


class MarginEnds(NamedMeasure):
    """Exact radii of x ↦ ⟨w, x⟩ on the points trained on, and cosines of w with both ends.

    ``radius:2`` = min y⟨w, x⟩/‖w‖₂ and ``radius:inf`` = min y⟨w, x⟩/‖w‖₁ are the distances in L2 and L∞ at which
    the first point changes its class (0 where one is wrong); ``end2:…`` and ``end1:…`` those of the ends.
    ``cosine:2`` is with the classifier of largest L2 margin, ``cosine:1`` with that of largest L1 margin; 0 at w = 0.
    """

    name: ClassVar[str] = "margin-ends"

    def about(self, details: Mapping[str, Tensor]) -> _BetweenEnds:
        """The measure for points that are known with their signs, the ends computed once."""
        if "signed" not in details:
            raise InputError(f"{self.name} needs the points with their signs: choose the data sparse-signs.")
        signed = details["signed"].double().cpu()
        two, one = (max_margin(signed, norm=norm).direction.numpy() for norm in (2, 1))
        return _BetweenEnds(signed.numpy(), two, one)

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        raise InputError(f"{self.name} needs the points with their signs: see MarginEnds.about.")


@dataclass(frozen=True, eq=False)
class _BetweenEnds:
    name: ClassVar[str] = MarginEnds.name
    signed: NDArray[np.float64]
    largest2: NDArray[np.float64]
    largest1: NDArray[np.float64]

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        weight = getattr(net, "weight", None)
        if not callable(weight):
            raise ModelError(f"{self.name} reads a linear function: choose the model diagonal.")
        with torch.no_grad():
            found: Tensor = weight()
        w = found.double().cpu().numpy()
        yield from self._radii("radius", w)
        yield from self._radii("end2", self.largest2)
        yield from self._radii("end1", self.largest1)
        for name, end in (("2", self.largest2), ("1", self.largest1)):
            length = float(np.linalg.norm(w) * np.linalg.norm(end))
            yield f"cosine:{name}", float(w @ end) / length if length else 0.0, None

    def _radii(self, name: str, w: NDArray[np.float64]) -> Iterator[Reading]:
        smallest = max(float((self.signed @ w).min()), 0.0)
        for norm, length in (("2", np.linalg.norm(w)), ("inf", np.abs(w).sum())):
            yield f"{name}:{norm}", smallest / float(length) if length else 0.0, None
