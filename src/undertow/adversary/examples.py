"""Adversarial examples kept with a trial: what the smallest change that fools its network looks like."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from undertow.adversary.attacks.line import try_lines
from undertow.adversary.attacks.refine import refine
from undertow.adversary.attacks.search import begin
from undertow.adversary.classifier import Classifier
from undertow.adversary.closest import first_examples
from undertow.core.errors import StoreError
from undertow.core.tensor_files import pack, unpack

if TYPE_CHECKING:  # data may use what is here; its type is all that is used of it
    from undertow.data.dataset import Dataset

__all__ = ["Examples", "adversarial_examples", "read_examples"]

_POOL = 256  # points among which one of another class is looked for
_NAMES = ("adversarial", "distance", "label", "predicted", "x")


@dataclass(frozen=True, eq=False)
class Examples:
    """Points ``x`` (N, d), their closest ``adversarial`` examples (N, d) as the network sees both, ``label`` and
    ``predicted`` class (N,) of each example, and the L2 ``distance`` (N,) between the two.

    The distance is 0 where the point itself is misclassified, and inf where no example was found.
    """

    x: Tensor
    adversarial: Tensor
    label: Tensor
    predicted: Tensor
    distance: Tensor


def adversarial_examples(
    networks: Sequence[nn.Module], points: Dataset, *, count: int, seed: int = 0
) -> list[bytes]:
    """For each network the smallest L2 perturbations of the first ``count`` points, as bytes of a safetensors file.

    DeepFool and targeted FAB, then the way to a point of another class where both are stuck, shortened by APGD in
    ever smaller balls; all networks of one architecture together, inside the data's valid range where it has one.
    Upper bounds of the true distances, as any attack gives.

    >>> from undertow.data.dataset import Dataset
    >>> line = torch.nn.Linear(2, 1, bias=False).requires_grad_(False)
    >>> _ = line.weight.copy_(torch.tensor([[3.0, 4.0]]))
    >>> points = Dataset.of(torch.ones(1, 2), torch.tensor([1]), name="one", classes=2)
    >>> (data,) = adversarial_examples([line], points, count=1)
    >>> found = read_examples(data, Path("examples.safetensors"))
    >>> round(float(found.distance), 3), found.label.tolist(), found.predicted.tolist()    # 7/5
    (1.4, [1], [0])
    """
    like = next(networks[0].parameters())
    x = points.x[:count].to(like)
    y = points.y[:count].to(like.device)
    pool = points.x[:_POOL].to(like)
    distance, moved, predicted = _closest(networks, x, y, pool, bounds=points.bounds, seed=seed)
    common = {"x": x.float(), "label": y}
    return [
        pack({**common, "adversarial": example.float(), "predicted": classes, "distance": length.float()})
        for length, example, classes in zip(distance, moved, predicted, strict=True)
    ]


def _closest(
    networks: Sequence[nn.Module],
    x: Tensor,
    y: Tensor,
    pool: Tensor,
    *,
    bounds: tuple[float, float] | None,
    seed: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Distances (M, N), examples (M, N, …) and the classes predicted there (M, N)."""
    classifier = Classifier(list(networks), bounds=bounds)
    with classifier.scoring(x, y, check=False) as scorer:
        search = begin(scorer, x, y, norm=2.0, seed=seed)
        first_examples(search)
        try_lines(search, others=pool)
        refine(search)
        with torch.no_grad():
            scores = scorer(search.example)
    # At a tie the margin is 0, which counts as an error: the label must then not win by coming first.
    own = y.expand(scores.shape[:-1]).unsqueeze(-1)
    others = scores.scatter(-1, own, -math.inf)
    fooled = search.distance.isfinite()
    predicted = torch.where(fooled, others.argmax(-1), scores.argmax(-1))
    return search.distance, search.example.reshape(len(networks), *x.shape), predicted


def read_examples(data: bytes, path: Path) -> Examples:
    """The examples in the bytes of a file, or a ``StoreError`` that names ``path``."""
    tensors: Mapping[str, Tensor] = unpack(data, path)
    if sorted(tensors) != list(_NAMES):
        raise StoreError(f"{path} holds {', '.join(sorted(tensors))} instead of adversarial examples.")
    return Examples(**tensors)
