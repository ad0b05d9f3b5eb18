"""How far a network as it is executed may be from the function that its layers write down.

A certificate is about that function, in exact arithmetic; an example is adversarial for the network as it runs.
In float32 the two can differ: a margin is wrong by a few units in the last place of the scores, and a radius by
that over the slope.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from undertow.adversary.attacks.search import Search
from undertow.adversary.classifier import Classifier
from undertow.adversary.scorer import margins_of
from undertow.core.network_copies import copy_in

__all__ = ["rounded_radii"]

Margins = Callable[[Tensor], Tensor]
"""(M, N, d) → (M, N)"""


def rounded_radii(
    classifier: Classifier, search: Search, x: Tensor, steepest: Tensor
) -> tuple[Tensor, Tensor]:
    """By how much rounding may move each radius (M, N), and which examples are none in float64.

    The rounding of a margin is the difference between the network as it runs and the same network in float64, at
    the sample and at its example, or eight units in the last place of its scores if that is more. It is divided by
    the slope of the margin on the way to the example, near its end if it is flatter there; without an example by
    the ``steepest`` slope known.
    """
    exact, executed = _in_float64(classifier, search, x), _executed(search)
    clean, found = search.x.expand(search.example.shape), search.example
    unit = 8 * torch.finfo(search.scores.dtype).eps * search.scores.abs().amax(-1).double()
    rounding = torch.maximum(unit, (executed(clean) - exact(clean)).abs())
    rounding = torch.maximum(rounding, (executed(found) - exact(found)).abs())
    reached = search.distance.isfinite() & (search.distance > 0)
    distance = torch.where(reached, search.distance, 1.0)
    end = exact(found)
    slope = (exact(clean) - end) / distance
    near = (exact(clean + 0.9 * (found - clean)) - end) / (0.1 * distance)
    slope = torch.where(near > 0, torch.minimum(near, slope), slope)
    slope = torch.where(reached, slope, steepest)
    radii = torch.where(slope > 0, rounding / torch.where(slope > 0, slope, 1.0), math.inf)
    return radii, reached & (end > 0)


def _executed(search: Search) -> Margins:
    def margins(at: Tensor) -> Tensor:
        with torch.no_grad():
            parts = [search.scorer(part) for part in torch.split(at, search.chunk, 1)]
        return margins_of(torch.cat(parts, 1), search.y).double()

    return margins


def _in_float64(classifier: Classifier, search: Search, x: Tensor) -> Margins:
    """The margins of a copy in float64; as executed where there is none (a plain function, a layer tied to float32)."""
    if search.scores.dtype == torch.float64 or not classifier.modules:
        return _executed(search)
    try:
        twins = [copy_in(net, torch.float64).eval() for net in classifier.modules]
        twin = replace(classifier, net=twins[0] if callable(classifier.net) else twins)
        with twin.scoring(x[:1].double(), check=False) as scorer:

            def margins(at: Tensor) -> Tensor:
                with torch.no_grad():
                    parts = [scorer(part.double()) for part in torch.split(at, search.chunk, 1)]
                return margins_of(torch.cat(parts, 1), search.y)

            return margins
    except (RuntimeError, TypeError):
        return _executed(search)
