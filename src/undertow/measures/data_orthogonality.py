"""How nearly orthogonal the points are that a network is trained on, beside what is measured of the network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from undertow.core.errors import InputError
from undertow.core.near_orthogonality import feature_correlation, near_orthogonality
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading, StackedMeasure

__all__ = ["DataOrthogonality"]


class DataOrthogonality(NamedMeasure, StackedMeasure):
    """Of the points alone, whatever the network: how nearly orthogonal they are (``undertow.near_orthogonality``).

    Keys: ``value``, ``with_norms``, ``by_sums``, ``mean_cosine``, and ``features``, the mean |correlation| of two
    features, where there are two that vary. In a study of data of one's own: ``{name = "near-orthogonality",
    split = "train", every = "end"}``.

    >>> readings = DataOrthogonality()(nn.Identity(), torch.tensor([[3.0, 0.0], [1.0, 2.0]]), None)
    >>> [(key, round(value, 4)) for key, value, _ in readings][:2]
    [('value', 0.8333), ('with_norms', 0.463)]
    """

    name: ClassVar[str] = "near-orthogonality"

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:  # noqa: ARG002
        points = x.detach().flatten(1).to("cpu", torch.float32)
        found = near_orthogonality(points)
        yield "value", found.value, None
        yield "with_norms", found.with_norms, None
        yield "by_sums", found.by_sums, None
        yield "mean_cosine", found.mean_cosine, None
        try:
            yield "features", feature_correlation(points), None
        except InputError:
            return  # fewer than two features that vary

    def batched(self, networks: Sequence[nn.Module], x: Tensor, y: Tensor | None) -> list[list[Reading]]:
        """Read once: the points are the same for all."""
        return [list(self(networks[0], x, y))] * len(networks)
