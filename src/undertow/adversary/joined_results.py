"""Results of samples that were taken one by one, each in its own batch, as the result of all of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from undertow.adversary.accuracy_result import RobustAccuracyResult
    from undertow.adversary.attacks.cost import AttackCost
    from undertow.adversary.certificates.lipschitz import LipschitzBracket
    from undertow.adversary.certified_accuracy import CertifiedAccuracy
    from undertow.adversary.risk import AdversarialRisk
    from undertow.adversary.robustness import Robustness

__all__ = [
    "joined_accuracies",
    "joined_brackets",
    "joined_costs",
    "joined_lipschitz",
    "joined_proofs",
    "joined_risks",
]


def joined_brackets(parts: Sequence[Robustness]) -> Robustness:
    """Of one network, as in all that follow."""
    names = ("certified", "proved", "estimate", "attacked", "exact", "rounding", "examples")
    status: Any = tuple(word for part in parts for word in part.status)
    return replace(
        parts[0],
        **_together(parts, names),
        status=status,
        certificate=_longest(part.certificate for part in parts),  # of one that was ended, too
        contradictions=_renumbered(part.contradictions for part in parts),
    )


def joined_accuracies(parts: Sequence[RobustAccuracyResult]) -> RobustAccuracyResult:
    names = dict.fromkeys(name for part in parts for name in part.broken_by)
    return replace(
        parts[0],
        **_together(parts, ("distance", "examples")),
        value=_mean(part.value for part in parts),
        proved=_mean(part.proved for part in parts),
        clean=_mean(part.clean for part in parts),
        broken_by={name: [sum(sum(part.broken_by.get(name, [])) for part in parts)] for name in names},
        notes=tuple(dict.fromkeys(_renumbered(part.notes for part in parts))),
        passes=replace(
            parts[0].passes,
            forward=sum(part.passes.forward for part in parts),
            backward=sum(part.passes.backward for part in parts),
            calls=sum(part.passes.calls for part in parts),
        ),
    )


def joined_proofs(parts: Sequence[CertifiedAccuracy]) -> CertifiedAccuracy:
    return replace(
        parts[0],
        value=_mean(part.value for part in parts),
        clean=_mean(part.clean for part in parts),
        proved=torch.cat([part.proved for part in parts], dim=-1),
        certificate=_longest(part.certificate for part in parts),
    )


def joined_risks(parts: Sequence[AdversarialRisk]) -> AdversarialRisk:
    losses = torch.cat([part.losses for part in parts], dim=-1)
    upper = torch.cat([part.upper_losses for part in parts], dim=-1)
    spread = losses.std(-1) / len(parts) ** 0.5 if len(parts) > 1 else torch.zeros_like(losses[..., 0])
    return replace(
        parts[0],
        value=_number(losses.mean(-1)),
        standard_error=_number(spread),
        clean=_mean(part.clean for part in parts),
        losses=losses,
        upper=_number(upper.mean(-1)),
        upper_losses=upper,
    )


def joined_lipschitz(parts: Sequence[LipschitzBracket]) -> LipschitzBracket:
    return replace(
        parts[0],
        **_together(parts, ("lower", "upper", "proved", "radius")),
        status=_longest(part.status for part in parts),
    )


def joined_costs(parts: Sequence[AttackCost]) -> AttackCost:
    return replace(
        parts[0],
        forward=sum(part.forward for part in parts),
        backward=sum(part.backward for part in parts),
        seconds=sum(part.seconds for part in parts),
    )


def _together(parts: Sequence[object], names: Iterable[str]) -> dict[str, Any]:
    return {name: torch.cat([getattr(part, name) for part in parts]) for name in names}


def _mean(values: Iterable[float | Tensor]) -> float | Tensor:
    return _number(torch.stack([torch.as_tensor(value, dtype=torch.float64) for value in values]).mean(0))


def _number(value: Tensor) -> float | Tensor:
    return float(value) if value.ndim == 0 else value


def _longest(sentences: Iterable[str]) -> str:
    return max(sentences, key=len)


def _renumbered(sentences: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """What is said of the only sample of each part, with its number among all.

    >>> _renumbered([["no certificate"], ["sample 0: broken"]])
    ('no certificate', 'sample 1: broken')
    """
    return tuple(
        re.sub(r"\bsample 0\b", f"sample {index}", sentence)
        for index, several in enumerate(sentences)
        for sentence in several
    )
