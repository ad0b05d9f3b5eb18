"""DeepFool: steps onto the nearest linearised boundary (Moosavi-Dezfooli, Fawzi & Frossard 2016)."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from undertow.adversary.attacks.batch import Batch, Found, beaten
from undertow.adversary.attacks.entry import AttackEntry
from undertow.adversary.attacks.fab import pull_to_boundary
from undertow.adversary.attacks.search import Search
from undertow.adversary.geometry import clip, lengths, nearest_on_hyperplane
from undertow.adversary.scorer import Scorer

__all__ = ["DEEPFOOL", "deepfool"]


def deepfool(scorer: Scorer, batch: Batch, *, norm: float, steps: int = 50, overshoot: float = 0.02) -> Found:
    """Steps onto the nearest of the k − 1 linearised boundaries until misclassified.

    Steps respect the box, which the original does not know. k − 1 gradients a step.
    """
    x, clean = batch.start, batch.x
    broken = torch.zeros_like(batch.y, dtype=torch.bool)
    for _ in range(steps + 1):
        with torch.enable_grad():
            leaf = x.detach().requires_grad_(True)
            scores = scorer(leaf)
            broken = broken | beaten(scores.detach(), batch.y)
            if bool(broken.all()):
                break
            gaps = scores.gather(-1, batch.y.unsqueeze(-1)) - scores
            slopes = [
                torch.autograd.grad(gaps[..., j].sum(), leaf, retain_graph=True)[0]
                for j in range(scores.shape[-1])
            ]
        shortest = torch.full_like(batch.eps, torch.inf, dtype=torch.float64)
        step = torch.zeros_like(x)
        for j, normal in enumerate(slopes):
            offset = gaps[..., j].detach() - (normal * x).sum(-1)
            delta = nearest_on_hyperplane(x, normal, offset, norm, scorer.bounds)
            length = lengths(delta, norm)
            closer = (length < shortest) & (batch.y != j) & (normal != 0).any(-1)
            step = torch.where(closer.unsqueeze(-1), delta, step)
            shortest = torch.where(closer, length, shortest)
        moved = clip(x + (1 + overshoot) * step, scorer.bounds)
        x = torch.where(broken.unsqueeze(-1), x, moved)
    return Found(pull_to_boundary(scorer, Batch(**{**vars(batch), "x": clean}), x, broken), broken)


def _run(search: Search, eps: float, todo: Tensor, _pairs: Tensor) -> list[str]:
    attack = partial(deepfool, norm=search.norm)
    search.run("deepfool", attack, eps=eps, todo=todo, start=search.x, minimal=True)
    return []


DEEPFOOL = AttackEntry("deepfool", _run, lambda classes: (51 + 20, 51 * classes), minimal=True)
