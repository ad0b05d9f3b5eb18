"""Certified accuracy: the share of samples whose decision is proved not to change within ε."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from undertow.adversary.any_network import ready_to_attack, sample_by_sample
from undertow.adversary.certificates.ball_coupling import BallCouplings
from undertow.adversary.certificates.linear_bounds import LinearBounds
from undertow.adversary.certificates.network_graph import graphs_of
from undertow.adversary.certificates.refined import Effort, refined_gaps
from undertow.adversary.certificates.stacked_graphs import together
from undertow.adversary.classifier import Classifier, Net, as_classifier
from undertow.adversary.geometry import check_norm
from undertow.adversary.joined_results import joined_proofs
from undertow.adversary.radii import check_radii, several_radii
from undertow.adversary.readout import Groups
from undertow.adversary.sample_checks import as_labels
from undertow.adversary.scorer import margins_of
from undertow.core.inference import outside_inference_mode
from undertow.core.outputs import OutputChoice
from undertow.core.shown import Shown

__all__ = ["CertifiedAccuracy", "certified_accuracy"]


@dataclass(frozen=True, eq=False)
class CertifiedAccuracy(Shown):
    """A lower bound of the true robust accuracy: axes member, ε, sample, each only where there are several."""

    value: float | Tensor
    """The share of samples decided rightly and proved to be so at every point within ε."""
    proved: Tensor
    """Which samples these are."""
    clean: float | Tensor
    eps: tuple[float, ...]
    norm: float
    certificate: str
    """ "linear-bounds", or "none: …" with the operation that has no known bounds: then nothing is proved."""


@outside_inference_mode
def certified_accuracy(
    net: Classifier | Net | Sequence[nn.Module],
    x: Tensor,
    y: Tensor,
    *,
    eps: float | Sequence[float],
    norm: float | str = 2,
    bounds: tuple[float, float] | None = None,
    readout: str | Groups | None = None,
    steps: int = 20,
    output: OutputChoice = None,
    extras: Mapping[str, Any] | None = None,
) -> CertifiedAccuracy:
    """Share of samples proved to be classified correctly at every point within ε, in raw input units.

    The proofs are about the function in exact arithmetic, rounding included: `robust_accuracy`, what attacks leave
    standing, is never below this by more than the rounding of the network as it runs.

    Args:
        net: a network, a `Classifier`, or a list of networks; only modules can be read.
        x, y: samples (N, …) in raw units, and their labels.
        eps: one radius, or several.
        norm: 1, 2 or "inf".
        bounds: the smallest and the largest valid input; points outside are not meant.
        readout: how outputs become classes, see `Classifier`.
        steps: of the ascent on slopes, for samples that plain linear bounds leave open; 0 for none.
        output: which of the network's outputs are the scores, where it has several: a name, a place, a function.
        extras: what the network takes beside x, by name, a row for each sample.

    >>> line = nn.Linear(2, 1, bias=False).requires_grad_(False)
    >>> _ = line.weight.copy_(torch.tensor([[1.0, 1.0]]))        # the boundary is at distance |x₁ + x₂|/√2
    >>> x, y = torch.tensor([[1.0, 1.0], [2.0, 2.0]]), torch.tensor([1, 1])
    >>> certified_accuracy(line, x, y, eps=[0, 1.4, 1.5, 3]).value.tolist()
    [1.0, 1.0, 0.5, 0.0]
    """
    net, x = ready_to_attack(net, x, output=output, extras=extras)
    classifier, length = as_classifier(net, bounds=bounds, readout=readout), check_norm(norm, one=True)
    radii, y = check_radii(eps), as_labels(y, x)
    x = x.detach()
    apart = sample_by_sample(classifier, x, y)
    if apart is not None:
        return joined_proofs(
            [
                certified_accuracy(own, x[part], y[part], eps=eps, norm=norm, steps=steps)
                for own, part in apart
            ]
        )
    with classifier.scoring(x, y) as scorer:
        right = margins_of(scorer.clean(x), y) > 0
        graphs, reason = graphs_of(classifier, x)
        proved = torch.zeros(len(right), len(radii), len(x), dtype=torch.bool, device=x.device)
        for members, graph in together(graphs):
            linear, own = (
                LinearBounds.of(graph, length, classifier.bounds),
                slice(members.start, members.stop),
            )
            _prove(linear, x.double(), y, radii, right[own], steps, proved[own])
    several = several_radii(eps)

    def shaped(per_member: Tensor) -> Tensor:
        chosen = per_member if several else per_member[:, 0]
        return chosen if classifier.several else chosen[0]

    def number(value: Tensor) -> float | Tensor:
        return float(value) if value.ndim == 0 else value

    clean = right.double().mean(1)
    return CertifiedAccuracy(
        value=number(shaped(proved.double().mean(2))),
        proved=shaped(proved),
        clean=number(clean if classifier.several else clean[0]),
        eps=radii,
        norm=length,
        certificate="linear-bounds" if graphs else f"none: {reason}",
    )


def _prove(
    linear: LinearBounds,
    x: Tensor,
    y: Tensor,
    radii: tuple[float, ...],
    right: Tensor,
    steps: int,
    proved: Tensor,
) -> None:
    """Write into ``proved`` (M, E, N) which are; what fails at one radius is not tried at a longer one."""
    effort, standing = Effort(BallCouplings.of(linear), steps, until=0.0), right.clone()
    for at, radius in sorted(enumerate(radii), key=lambda pair: pair[1]):
        who, some = standing.nonzero(as_tuple=True)
        if len(some):
            reach = torch.full((len(some),), radius, dtype=torch.float64, device=x.device)
            gaps = refined_gaps(linear, x[some], y[some], reach, effort, who=who)
            standing[who, some] = gaps.lower.amin(1) > 0
        proved[:, at] = standing
