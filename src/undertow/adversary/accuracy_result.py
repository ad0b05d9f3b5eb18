"""What attacks and certificates make of robust accuracy, as the result of all networks, radii and samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from undertow.adversary.attacks.search import Search
from undertow.adversary.classifier import Classifier
from undertow.adversary.radii import several_radii
from undertow.adversary.scorer import Passes
from undertow.core.shown import Shown

__all__ = ["AttackedPart", "RobustAccuracyResult", "accuracy_result"]

AttackedPart = tuple[Search, Tensor, list[str]]
"""Of some of the networks: what was found, what is proved (M, N, E), and notes."""
_COUNTED = ("forward", "backward", "calls")


@dataclass(frozen=True, eq=False)
class RobustAccuracyResult(Shown):
    """Robust accuracy with the examples that prove it.

    Axes come in the order member, ε, sample, each only where there are several: for one network and one ε,
    ``value`` is a number and ``distance`` has shape (N,).
    """

    value: float | Tensor
    """Upper bound of the true robust accuracy: what the attacks left standing."""
    proved: float | Tensor
    """Lower bound: the share whose robustness at ε a certificate proves, of the function in exact arithmetic (0 where
    none could be read). Not cut off at ``value``: ``notes`` name samples that are proved and broken all the same."""
    clean: float | Tensor
    eps: tuple[float, ...]
    norm: float
    distance: Tensor
    """The norm of the smallest adversarial perturbation found; 0 for errors, inf where none was found."""
    examples: Tensor
    """The samples, replaced by their closest adversarial example where there is one."""
    broken_by: dict[str, list[int]]
    """Attack → samples it was the first to break, per member."""
    engine: str
    notes: tuple[str, ...]
    """What was adapted, left out or certified, in sentences."""
    passes: Passes
    """What the attacks asked of the networks."""


def _contradicted(both: Tensor, distance: Tensor, limits: Tensor) -> list[str]:
    """A sentence for each sample (M, N, E) that is proved robust at ε and broken within it: rounding, or an error."""
    return [
        f"network {member}, sample {sample}: proved robust at ε = {float(limits[at]):.6g}, broken at distance "
        f"{float(distance[member, sample]):.6g}: an example of rounding, or one of the two is wrong"
        for member, sample, at in both.nonzero().tolist()
    ]


def accuracy_result(
    classifier: Classifier,
    x: Tensor,
    radii: tuple[float, ...],
    norm: float,
    engine: str,
    eps: float | Sequence[float],
    parts: list[AttackedPart],
) -> RobustAccuracyResult:
    distance = torch.cat([search.distance for search, _, _ in parts])
    examples = torch.cat([search.example for search, _, _ in parts])
    limits = torch.tensor(radii, dtype=torch.float64, device=x.device)
    # a mean in float64 of booleans, so that ε = 0 gives the clean accuracy to the last bit
    standing = distance.unsqueeze(-1) > limits
    value = standing.double().mean(1)
    proofs = torch.cat([proof for _, proof, _ in parts]) & (distance > 0).unsqueeze(-1)
    proved = proofs.double().mean(1)
    contradicted = _contradicted(proofs & ~standing, distance, limits)
    clean = (distance > 0).double().mean(1)
    names = dict.fromkeys(name for search, _, _ in parts for name in search.count)
    broken_by = {
        name: torch.cat(
            [search.count.get(name, torch.zeros(len(search.distance))).cpu() for search, _, _ in parts]
        ).int().tolist()
        for name in names
    }  # fmt: skip
    many = classifier.several

    def shaped(per_member: Tensor, several_eps: bool) -> float | Tensor:
        chosen = per_member if several_eps else per_member[..., 0]
        chosen = (chosen if many else chosen[0]).cpu()
        return float(chosen) if chosen.ndim == 0 else chosen

    several_eps = several_radii(eps)
    return RobustAccuracyResult(
        value=shaped(value, several_eps),
        proved=shaped(proved, several_eps),
        clean=shaped(clean.unsqueeze(-1), False),
        eps=radii,
        norm=norm,
        distance=distance if many else distance[0],
        examples=examples.reshape(-1, *x.shape) if many else examples[0].reshape(x.shape),
        broken_by=broken_by,
        engine=engine,
        notes=tuple(dict.fromkeys([note for _, _, notes in parts for note in notes] + contradicted)),
        passes=Passes(
            *(sum(getattr(search.scorer.passes, side) for search, _, _ in parts) for side in _COUNTED)
        ),
    )
