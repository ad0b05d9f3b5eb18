"""AutoAttack as implemented by the library pyautoattack, with this classifier made to fit its assumptions.

The library assumes inputs in [0, 1], four classes or more, and images of shape (C, H, W). None of these
needs to be true here, so the classifier is wrapped, and each adaptation is said in a note.
"""

from __future__ import annotations

import logging
import math

import torch
from torch import Tensor, nn

from undertow.adversary.attacks.batch import beaten
from undertow.adversary.attacks.search import Search
from undertow.adversary.geometry import clip, lengths
from undertow.adversary.scorer import Scorer
from undertow.core.errors import ModelError

__all__ = ["attack_with_library"]

_SIDE = 5  # the library's Square divides an image into fifths
_CLASSES = 4  # the targeted difference of logits ratio looks at the four largest scores


def attack_with_library(search: Search, eps: tuple[float, ...], *, batch: int = 1000) -> list[str]:
    """Run the library's standard AutoAttack at every ε, smallest first, on one member; returns notes."""
    try:
        from pyautoattack import AutoAttack
    except ImportError:
        raise ModelError(
            "engine='pyautoattack' needs the package pyautoattack: `pip install 'undertow[autoattack]'`, or use "
            "engine='native'"
        ) from None
    if search.scorer.members != 1:
        raise ModelError("engine='pyautoattack' attacks one network at a time: call it for each network")
    adapted = _Adapted(search, max(eps))
    for radius in sorted(set(eps)):
        standing = (search.distance[0] > radius).nonzero().squeeze(1)
        if radius == 0 or len(standing) == 0:
            continue
        # the library reseeds the global generators
        with torch.random.fork_rng(devices=[search.x.device] if search.x.is_cuda else []):
            attack = AutoAttack(
                adapted,
                eps=radius / adapted.width,
                norm="Linf" if search.norm == math.inf else "L2",
                seed=search.seed,
                device=search.x.device,
            )
            targets = min(9, search.scorer.classes - 1)
            attack.apgd_targeted.n_target_classes = attack.fab.n_target_classes = targets
            if min(adapted.image[1:]) < _SIDE:
                attack.attacks_to_run = [name for name in attack.attacks_to_run if name != "square"]
            attack.logger.setLevel(logging.ERROR)
            inputs = adapted.inward(search.x[standing])
            found, _ = attack.run_standard_evaluation(inputs, search.y[standing], batch_size=batch)
        _keep(search, standing, adapted.outward(found.detach()), radius)
    return adapted.notes


class _Adapted(nn.Module):
    """The classifier on inputs rescaled to [0, 1] and shaped as images, with four scores or more."""

    def __init__(self, search: Search, largest: float) -> None:
        super().__init__()
        self.scorer: Scorer = search.scorer
        self.notes: list[str] = []
        if self.scorer.bounds is None:
            # a box no ball of radius ε can leave is no box
            self.lower = float(search.x.min()) - 1.1 * largest
            self.width = float(search.x.max()) + 1.1 * largest - self.lower
            self.notes.append(
                f"unbounded inputs: a box of width {self.width:.3g} that no perturbation reaches"
            )
        else:
            self.lower, self.width = self.scorer.bounds[0], self.scorer.bounds[1] - self.scorer.bounds[0]
            if self.scorer.bounds != (0, 1):
                self.notes.append(f"inputs in {self.scorer.bounds} rescaled to [0, 1], and ε with them")
        self.image = self.scorer.shape if len(self.scorer.shape) == 3 else self._as_image()
        if min(self.image[1:]) < _SIDE:
            self.notes.append(f"square was left out: it needs images of {_SIDE} pixels a side or more")
        self.padding = max(0, _CLASSES - self.scorer.classes)
        if self.padding:
            self.notes.append(
                f"{self.scorer.classes} classes padded to {_CLASSES} with scores that are never the largest"
            )

    def _as_image(self) -> tuple[int, int, int]:
        size = math.prod(self.scorer.shape)
        side = next(side for side in range(math.isqrt(size), 0, -1) if size % side == 0)
        self.notes.append(f"inputs of shape {self.scorer.shape} shaped as images (1, {side}, {size // side})")
        return 1, side, size // side

    def inward(self, flat: Tensor) -> Tensor:
        return ((flat - self.lower) / self.width).clamp(0, 1).reshape(-1, *self.image)

    def outward(self, images: Tensor) -> Tensor:
        flat = images.flatten(1) * self.width + self.lower
        return clip(flat, self.scorer.bounds)

    def forward(self, images: Tensor) -> Tensor:
        scores = self.scorer(self.outward(images).unsqueeze(0))[0]
        if not self.padding:
            return scores
        # below the smallest real score by the spread of the scores, so the ratios keep a sensible scale
        spread = (scores.amax(1, keepdim=True) - scores.amin(1, keepdim=True)).detach()
        floor = scores.amin(1, keepdim=True).detach() - torch.where(spread > 0, spread, 1.0)
        return torch.cat([scores, floor.expand(-1, self.padding)], 1)


def _keep(search: Search, standing: Tensor, found: Tensor, radius: float) -> None:
    x, y = search.x[standing], search.y[standing]
    found = _shortened(found, x, radius, search.norm)
    with torch.no_grad():
        broken = beaten(
            torch.cat([search.scorer(part.unsqueeze(0)) for part in torch.split(found, 1024)], 1)[0], y
        )
    distance = lengths(found - x, search.norm)
    accepted = broken & (distance <= radius) & (distance < search.distance[0, standing])
    index = standing[accepted]
    first = int(search.distance[0, index].isinf().sum())
    search.distance[0, index], search.example[0, index] = distance[accepted], found[accepted]
    search.count["pyautoattack"] = search.count.get("pyautoattack", torch.zeros(1, device=x.device)) + first


def _shortened(found: Tensor, x: Tensor, radius: float, norm: float) -> Tensor:
    """Rescaling rounds: what exceeds ε by rounding alone is pulled back to ε."""
    length = lengths(found - x, norm)
    over = (length > radius) & (length < radius * (1 + 1e-4))
    factor = torch.where(over, radius * (1 - 2e-6) / length.clamp(min=1e-300), 1.0).to(x).unsqueeze(-1)
    return x + factor * (found - x)
