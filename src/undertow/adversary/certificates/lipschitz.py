"""The local Lipschitz constant of a network from both sides: steepest point found ≤ L ≤ bound of every Jacobian."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from undertow.adversary.any_network import ready_to_attack, sample_by_sample
from undertow.adversary.certificates.jacobian_bounds import JacobianBounds
from undertow.adversary.certificates.linear_bounds import LinearBounds
from undertow.adversary.certificates.member_batches import taken
from undertow.adversary.certificates.network_graph import NetworkGraph, graphs_of
from undertow.adversary.certificates.row_budget import in_parts, row_entries
from undertow.adversary.certificates.score_gaps import difference_rows
from undertow.adversary.certificates.steepest_points import steepest_found
from undertow.adversary.classifier import Classifier, Net, as_classifier
from undertow.adversary.geometry import check_norm
from undertow.adversary.joined_results import joined_lipschitz
from undertow.adversary.readout import Groups
from undertow.adversary.sample_checks import as_labels
from undertow.adversary.scorer import Scorer
from undertow.core.errors import InputError
from undertow.core.inference import outside_inference_mode
from undertow.core.outputs import OutputChoice
from undertow.core.shown import Shown

__all__ = ["LipschitzBracket", "lipschitz", "lipschitz_bounds"]


@dataclass(frozen=True, eq=False)
class LipschitzBracket(Shown):
    """``lower`` ≤ sup ‖J‖ over the ball ≤ ``upper``: (N,), or with labels (N, k) of the differences s_y − s_j."""

    lower: Tensor
    """The largest norm of a Jacobian met inside the ball: attained there."""
    upper: Tensor
    """Proved for every point of the ball, rounding included; inf where there is no proof."""
    proved: Tensor
    """Whether ``upper`` is finite and proved: (N,)."""
    status: str
    """How: "jacobian-bounds", or "none: …" with the operation whose Jacobian has no known bounds."""
    radius: Tensor
    norm: float


@outside_inference_mode
def lipschitz(
    net: Classifier | Net,
    x: Tensor,
    *,
    radius: float | Tensor,
    norm: float | str = 2,
    y: Tensor | None = None,
    bounds: tuple[float, float] | None = None,
    readout: str | Groups | None = None,
    seed: int = 0,
    output: OutputChoice = None,
    extras: Mapping[str, Any] | None = None,
) -> LipschitzBracket:
    """Bracket the Lipschitz constant of the class scores on the ball of ``radius`` around each sample.

    L(x, r) = sup ‖J(x')‖ over ‖x' − x‖ ≤ r, J the Jacobian of the scores and ‖·‖ the norm that ``norm`` induces: for 2
    the largest singular value, for ∞ the largest row sum, for 1 the largest column sum of |J|. With labels, instead,
    β_j = sup ‖∇(s_y − s_j)‖_dual for every class j, of which R(x) ≥ min_j (s_y − s_j)/β_j, if that is below r.

    Args:
        net: a network, any function (B, …) → (B, k), or a `Classifier`; without modules nothing can be proved.
        x: samples (N, …) in raw units.
        radius: one number, or one for each sample.
        norm: 1, 2 or "inf".
        y: labels, for the differences s_y − s_j: results have shape (N, k), 0 at j = y.
        bounds: the smallest and the largest valid input; the part of the ball within is meant.
        readout: how outputs become classes, see `Classifier`.
        seed: of the starts of the search from below.
        output: which of the network's outputs are the scores, where it has several: a name, a place, a function.
        extras: what the network takes beside x, by name, a row for each sample.

    >>> line = torch.nn.Linear(2, 1, bias=False).requires_grad_(False)
    >>> _ = line.weight.copy_(torch.tensor([[3.0, 4.0]]))
    >>> found = lipschitz(line.double(), torch.ones(1, 2).double(), radius=0.5)
    >>> [round(float(side), 6) for side in (found.lower, found.upper)]
    [5.0, 5.0]
    """
    ready, x = ready_to_attack(net, x, output=output, extras=extras)
    classifier, length = as_classifier(ready, bounds=bounds, readout=readout), check_norm(norm, one=True)
    if classifier.several:
        raise InputError("lipschitz takes one network: call it for each")
    x = x.detach()
    labels = None if y is None else as_labels(y, x)
    reach = _reach(radius, x)
    apart = sample_by_sample(classifier, x, labels)
    if apart is not None:
        return joined_lipschitz(
            [
                lipschitz(
                    own,
                    x[at],
                    radius=reach[at],
                    norm=norm,
                    y=None if labels is None else labels[at],
                    seed=seed,
                )
                for own, at in apart
            ]
        )
    with classifier.scoring(x, labels) as scorer:
        graph, status = _read(classifier, x)
        function = _function(graph, scorer, labels)
        lower = steepest_found(
            function,
            x.flatten(1).double() if graph is not None else x.flatten(1),
            reach.to(torch.float64 if graph is not None else x.dtype),
            length,
            rows=labels is not None,
            box=classifier.bounds,
            seed=seed,
        ).double()
    upper = torch.full_like(lower, math.inf)
    if graph is not None:
        upper = lipschitz_bounds(graph, x, labels, reach, length, classifier.bounds)
    if labels is not None:
        lower = lower.scatter(1, labels.unsqueeze(1), 0.0)
        upper = upper.scatter(1, labels.unsqueeze(1), 0.0)
    proved = upper.isfinite() if labels is None else upper.isfinite().all(1)
    return LipschitzBracket(lower, upper, proved, status, reach, length)


def _reach(radius: float | Tensor, x: Tensor) -> Tensor:
    """The radius of each sample's ball, (N,)."""
    try:
        reach = torch.as_tensor(radius, dtype=torch.float64, device=x.device).expand(len(x)).clone()
    except (TypeError, ValueError, RuntimeError):
        reach = torch.full((len(x),), math.nan)
    if not bool(((reach >= 0) & reach.isfinite()).all()):
        raise InputError(
            f"radius={radius!r} must be ≥ 0 and finite, one number or one for each of {len(x)} samples"
        )
    return reach


def _read(classifier: Classifier, x: Tensor) -> tuple[NetworkGraph | None, str]:
    if classifier.unit_norm:
        return None, "none: it divides each sample by its norm"
    graphs, reason = graphs_of(classifier, x)
    return (graphs[0], "jacobian-bounds") if graphs else (None, f"none: {reason}")


def _function(
    graph: NetworkGraph | None, scorer: Scorer, labels: Tensor | None
) -> Callable[[Tensor], Tensor]:
    """Scores (N, k) of flat points, or s_y − s_j; from the float64 graph where there is one."""

    def scores(points: Tensor) -> Tensor:
        if graph is None:
            return scorer(points.unsqueeze(0))[0]
        return graph.values(points)[graph.output].flatten(1)

    if labels is None:
        return scores

    def differences(points: Tensor) -> Tensor:
        found = scores(points)
        return found.gather(1, labels.unsqueeze(1)) - found

    return differences


def lipschitz_bounds(
    graph: NetworkGraph,
    x: Tensor,
    labels: Tensor | None,
    radius: Tensor,
    norm: float,
    box: tuple[float, float] | None,
    *,
    who: Tensor | None = None,
) -> Tensor:
    """Upper bounds (N,) of the Jacobian's norm over the balls, or with labels (N, k) of every difference's gradient."""
    bounds = LinearBounds.of(graph, norm, box)
    jacobian = JacobianBounds(bounds)
    classes, shape = graph.classes, graph.operations[graph.output].shape
    eye = torch.eye(classes, dtype=torch.float64, device=x.device)

    def norms(part: Tensor) -> Tensor:
        rows = eye.expand(len(part), -1, -1) if labels is None else difference_rows(labels[part], classes)
        ball = bounds.ball(x[part], radius[part], who=taken(who, part))
        limits = jacobian.rows(ball, rows.reshape(len(part), classes, *shape))
        return limits.matrix_norms(norm) if labels is None else limits.norms(norm)

    everyone = torch.arange(len(x), device=x.device)
    return torch.cat(in_parts(everyone, row_entries(x.device) // (bounds.widest * classes), norms))
