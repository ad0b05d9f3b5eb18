"""The closest adversarial examples that attacks find, without certificates: for looking at perturbations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from undertow.adversary.attacks.line import try_lines
from undertow.adversary.attacks.refine import refine
from undertow.adversary.attacks.registry import ATTACKS
from undertow.adversary.attacks.search import Search, begin
from undertow.adversary.classifier import Classifier, Net, as_classifier
from undertow.adversary.geometry import check_norm
from undertow.adversary.sample_checks import as_labels
from undertow.core.inference import outside_inference_mode
from undertow.core.plain_words import check_tensor

__all__ = ["closest_examples", "first_examples"]

Effort = Literal["quick", "fast", "thorough"]
_FIRST: dict[Effort, tuple[str, ...]] = {
    "quick": ("deepfool",),
    "fast": ("fast",),
    "thorough": ("deepfool", "fab-t"),
}


@outside_inference_mode
def closest_examples(
    net: Classifier | Net | Sequence[nn.Module],
    x: Tensor,
    y: Tensor,
    *,
    norm: float | str = 2,
    bounds: tuple[float, float] | None = None,
    rounds: int = 4,
    restarts: int = 3,
    fast: bool = False,
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    """Distances (N,) and examples (N, …), each with a leading member axis for several networks.

    DeepFool and targeted FAB, or with ``fast`` the decoupled search, and where these find nothing the lines to points
    decided otherwise, shortened by APGD in smaller balls, ``rounds`` times for each of four factors. The distance is 0
    for a clean error, and inf where nothing was found; it is an upper bound of the true one.

    >>> line = nn.Linear(2, 1, bias=False).requires_grad_(False)
    >>> _ = line.weight.copy_(torch.tensor([[3.0, 4.0]]))
    >>> distance, examples = closest_examples(line, torch.ones(1, 2), torch.tensor([1]))
    >>> round(float(distance), 3), [round(value, 2) for value in examples[0].tolist()]    # 7/5 along (3, 4)/5
    (1.4, [0.16, -0.12])
    """
    check_tensor(x)
    classifier, length = as_classifier(net, bounds=bounds), check_norm(norm, one=True)
    x, y = x.detach(), as_labels(y, x)
    with classifier.scoring(x, y) as scorer:
        search = begin(scorer, x, y, norm=length, seed=seed)
        first_examples(search, effort="fast" if fast else "thorough")
        try_lines(search)
        refine(search, rounds=rounds, restarts=restarts)
    examples = search.example.reshape(-1, *x.shape)
    return (search.distance, examples) if classifier.several else (search.distance[0], examples[0])


def first_examples(search: Search, *, effort: Effort = "thorough") -> None:
    """Give every sample an example to shorten, where one is found: DeepFool is quick, targeted FAB comes closer."""
    everything = torch.ones_like(search.scores, dtype=torch.bool)
    for name in _FIRST[effort]:
        todo = search.distance > 0
        if bool(todo.any()):
            ATTACKS[name].run(search, 0.0, todo, everything)
