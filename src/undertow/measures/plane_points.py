"""The probe's points themselves, in the plane: for pictures of a decision and what it decides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from torch import Tensor, nn

from undertow.core.errors import InputError
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading, labels_for

__all__ = ["PlanePoints"]


class PlanePoints(NamedMeasure):
    """Coordinates and labels of points with two of them: ``x:0``, ``y:0``, ``label:0``, ``x:1``, …

    >>> import torch
    >>> list(PlanePoints()(nn.Identity(), torch.tensor([[1.0, 2.0]]), torch.tensor([1])))
    [('x:0', 1.0, None), ('y:0', 2.0, None), ('label:0', 1.0, None)]
    """

    name: ClassVar[str] = "plane-points"

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        points, labels = x.flatten(1).tolist(), labels_for(self, y).tolist()
        if points and len(points[0]) != 2:
            raise InputError(f"{self.name} are points in the plane; these have {len(points[0])} coordinates.")
        for index, ((across, up), label) in enumerate(zip(points, labels, strict=True)):
            yield f"x:{index}", across, None
            yield f"y:{index}", up, None
            yield f"label:{index}", float(label > 0), None
