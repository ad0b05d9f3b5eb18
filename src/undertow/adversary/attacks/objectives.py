"""What an attack climbs: functions of the scores that grow as the decision comes closer to an error.

All are invariant to the scale of the logits, so a network with logits of 10³ is attacked as well as one
with logits of 10⁻³. Scores are (…, k), labels and targets (…); k = 2 falls back to the margin, for which
the published losses are not defined or are monotone functions of it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from undertow.adversary.scorer import margins_of
from undertow.core.errors import ConfigError, nearest

__all__ = ["Objective", "difference_of_logits", "objective", "scaled_cross_entropy", "targeted_difference"]

Objective = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""(scores, labels, targets, scale) → value; scale is the clean margin of the sample, a constant."""

_SHARPNESS = 6.0


def objective(name: str) -> Objective:
    """The objective called ``name``: margin, ce, dlr or dlr-targeted."""
    if name not in _OBJECTIVES:
        raise ConfigError(f"objective {name!r} is unknown: {nearest(name, _OBJECTIVES)}")
    return _OBJECTIVES[name]


def negative_margin(scores: Tensor, labels: Tensor, _targets: Tensor, _scale: Tensor) -> Tensor:
    """−q = max_{j≠y} s_j − s_y."""
    return -margins_of(scores, labels)


def scaled_cross_entropy(scores: Tensor, labels: Tensor, _targets: Tensor, scale: Tensor) -> Tensor:
    """log Σ_{j≠y} e^{z_j} − z_y with z = 6 s / q(x), q(x) the margin of the clean sample: cross-entropy, unsaturated.

    The cross-entropy is log(1 + e^v) of this value v, so both rise in the same directions and together. But the
    plain one is zero in float32 where a network is confident, gradient included, and even rescaled it is so far
    from a sample whose own margin is small. Dividing by the clean margin (Yu & Xu 2023 rescale, too) and the factor
    decide how many classes share the gradient: between 4 and 8 it breaks the most samples.

    >>> scaled_cross_entropy(torch.tensor([[2e6, 0.0]]), *[torch.tensor([0])] * 2, torch.tensor([2e6]))
    tensor([-6.])
    """
    logits = _SHARPNESS * scores / torch.where(scale > 0, scale, 1.0).unsqueeze(-1)
    index = labels.unsqueeze(-1)
    others = logits.scatter(-1, index, -torch.inf).logsumexp(-1)
    return others - logits.gather(-1, index).squeeze(-1)


def difference_of_logits(scores: Tensor, labels: Tensor, _targets: Tensor, _scale: Tensor) -> Tensor:
    """DLR = −(s_y − max_{j≠y} s_j) / (s_π1 − s_π3), π sorting downward (Croce & Hein 2020, Eq. 6)."""
    if scores.shape[-1] < 3:
        return -margins_of(scores, labels)
    top = scores.topk(3, -1).values
    return -margins_of(scores, labels) / _spread(top[..., 0] - top[..., 2])


def targeted_difference(scores: Tensor, labels: Tensor, targets: Tensor, _scale: Tensor) -> Tensor:
    """Targeted DLR = −(s_y − s_t) / (s_π1 − (s_π3 + s_π4)/2) (Croce & Hein 2020, Eq. 7).

    With three classes there is no fourth score, and s_π1 − s_π3 takes its place.
    """
    gap = (scores.gather(-1, targets.unsqueeze(-1)) - scores.gather(-1, labels.unsqueeze(-1))).squeeze(-1)
    classes = scores.shape[-1]
    if classes < 3:
        return gap
    top = scores.topk(min(classes, 4), -1).values
    low = top[..., 2] if classes == 3 else (top[..., 2] + top[..., 3]) / 2
    return gap / _spread(top[..., 0] - low)


def _spread(difference: Tensor) -> Tensor:
    # all top scores tied: the numerator alone still has the right gradient direction
    return torch.where(difference > 0, difference, 1.0)


_OBJECTIVES: dict[str, Objective] = {
    "margin": negative_margin,
    "ce": scaled_cross_entropy,
    "dlr": difference_of_logits,
    "dlr-targeted": targeted_difference,
}


def gradient(
    scorer: Callable[[Tensor], Tensor], x: Tensor, value: Callable[[Tensor], Tensor]
) -> tuple[Tensor, ...]:
    """(scores, value, ∂Σvalue/∂x) at x: (M, P, k), (M, P), (M, P, d); parameters gather no gradient."""
    with torch.enable_grad():
        leaf = x.detach().requires_grad_(True)
        scores = scorer(leaf)
        values = value(scores)
        (slope,) = torch.autograd.grad(values.sum(), leaf)
    return scores.detach(), values.detach(), slope
