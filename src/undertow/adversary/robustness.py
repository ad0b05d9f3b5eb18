"""The radius of each sample, from both sides: certified ≤ R(x) ≤ attacked, and exact where affordable."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from undertow.adversary.any_network import ready_to_attack, sample_by_sample
from undertow.adversary.attacks.guided import find_by_certificate, follow_certificate
from undertow.adversary.attacks.line import try_lines
from undertow.adversary.attacks.refine import reach_out, refine, shrink
from undertow.adversary.attacks.registry import ATTACKS
from undertow.adversary.attacks.search import Search, begin
from undertow.adversary.certificates.as_executed import rounded_radii
from undertow.adversary.certificates.estimate import estimated_radii
from undertow.adversary.certificates.network_graph import NetworkGraph, graphs_of
from undertow.adversary.certificates.proved_radii import certify, certify_by_cases, named_proof
from undertow.adversary.classifier import Classifier, Net, as_classifier
from undertow.adversary.closest import first_examples
from undertow.adversary.contradictions import contradictions_between
from undertow.adversary.exact.branching import exact_distance
from undertow.adversary.exact.two_layer_gaps import TwoLayer, two_layer_of
from undertow.adversary.geometry import check_norm, lengths
from undertow.adversary.joined_results import joined_brackets
from undertow.adversary.readout import Groups
from undertow.adversary.sample_checks import as_labels
from undertow.core.errors import InputError
from undertow.core.inference import outside_inference_mode
from undertow.core.outputs import OutputChoice
from undertow.core.shown import Shown

__all__ = ["Robustness", "robustness"]

_NARROW = 64  # hidden neurons up to which exact="auto" tries


@dataclass(frozen=True, eq=False)
class Robustness(Shown):
    """Per sample, (N,) or (M, N): ``certified`` ≤ radius ≤ ``attacked``, all 0 for clean errors.

    No side is cut off at another: where they contradict each other by more than rounding, ``contradictions`` says so.
    """

    certified: Tensor
    """A lower bound of the radius that was proved, rounding of the proof included; 0 where nothing was."""
    proved: Tensor
    """Whether a proof was attempted and is behind ``certified``: for known operations, and for clean errors."""
    estimate: Tensor
    """q/max‖∇q‖ over points near the sample: a first-order guess, on either side of the radius."""
    attacked: Tensor
    """The norm of the closest adversarial example found, which is in ``examples``; inf where none was."""
    exact: Tensor
    """The radius itself; NaN where it was not computed or did not finish (see ``status``)."""
    rounding: Tensor
    """By how much the radius of the network as executed may differ from that of the function it computes."""
    status: tuple[str, ...] | tuple[tuple[str, ...], ...]
    """Of ``exact``, per sample: "exact", "time-limit", "none-found" (in a very large ball) or "not-tried"."""
    certificate: str
    """How ``certified`` was proved: "linear-exact"; "crown" (linear bounds), with what was added to it: "slopes by
    ascent", "coupled by the L2 ball", "until time was up", "case by case"; or "none: …" with the reason."""
    contradictions: tuple[str, ...]
    """A sentence for each sample whose sides contradict each other beyond rounding: one of them is wrong."""
    norm: float
    examples: Tensor

    @property
    def share_proved(self) -> float:
        """The share of samples with a proof: to be said beside every mean of certified radii."""
        return float(self.proved.double().mean())


@outside_inference_mode
def robustness(
    net: Classifier | Net | Sequence[nn.Module],
    x: Tensor,
    y: Tensor,
    *,
    norm: float | str = 2,
    exact: bool | str = "auto",
    seconds: float = 10.0,
    attack: str = "thorough",
    shorten: bool = True,
    refine: bool = True,
    bounds: tuple[float, float] | None = None,
    readout: str | Groups | None = None,
    seed: int = 0,
    output: OutputChoice = None,
    extras: Mapping[str, Any] | None = None,
) -> Robustness:
    """Bracket the distance R(x) from each sample to the nearest input that is classified wrongly.

    ``certified`` is proved by linear bounds (CROWN) carried through the network's operations, about the function in
    exact arithmetic; where one has no known bounds it is 0, ``certificate`` names it, and there is an ``estimate``.

    ``attacked`` is the norm of the closest adversarial example of targeted FAB and DeepFool, or on the way to a
    point that is decided otherwise, shortened by APGD in ever smaller balls and from where the certificate is weakest.

    Args:
        net: a network, several of one architecture, any function (B, …) → (B, k), or a `Classifier`.
        x, y: samples (N, …) in raw units, and their labels; of token ids radii are in the space of the embedding.
        norm: 1, 2 or "inf".
        exact: whether to solve two-layer networks, by branch and bound for L2 and a mixed-integer program for L1 and
            L∞; "auto" does so up to 64 neurons. True also proves radii of up to 32 neurons, in any number of layers,
            case by case.
        seconds: for each network, shared by its samples: what exact radii may take, and what refined certificates may,
            which keep what was proved until then; ``certificate`` says so. Plain linear bounds are not ended.
        attack: "fast" is the decoupled search alone, at a few per cent of the cost; a few per cent longer, and misled
            where gradients mislead.
        shorten: False saves most of the cost of the attack: where there is a certificate, DeepFool and its weakest
            points are left, about 1 % longer.
        refine: False keeps the certificate to plain linear bounds: shorter radii, in a tenth of the time.
        bounds: the smallest and the largest valid input; None leaves inputs free.
        readout: how outputs become classes, see `Classifier`.
        seed: of the attacks.
        output: which of the network's outputs are the scores, where it has several: a name, a place, a function.
        extras: what the network takes beside x, by name, a row for each sample; samples with different rows are
            attacked one by one.

    >>> line = nn.Sequential(nn.Linear(2, 1, bias=False)).requires_grad_(False)
    >>> _ = line[0].weight.copy_(torch.tensor([[3.0, 4.0]]))
    >>> found = robustness(line.double(), torch.ones(1, 2).double(), torch.tensor([1]))
    >>> [round(float(radius), 3) for radius in (found.certified, found.exact, found.attacked)]  # 7/5
    [1.4, 1.4, 1.4]
    """
    _check_exact(exact)
    if attack not in ("thorough", "fast"):
        raise InputError(f"attack={attack!r} must be 'thorough' or 'fast'.")
    net, x = ready_to_attack(net, x, output=output, extras=extras)
    classifier, length = as_classifier(net, bounds=bounds, readout=readout), check_norm(norm, one=True)
    x, y = x.detach(), as_labels(y, x)
    apart = sample_by_sample(classifier, x, y)
    if apart is not None:
        options: dict[str, Any] = {
            "norm": norm,
            "exact": exact,
            "seconds": seconds / len(x),
            "attack": attack,
        }
        options |= {"shorten": shorten, "refine": refine, "seed": seed}
        return joined_brackets([robustness(own, x[part], y[part], **options) for own, part in apart])
    with classifier.scoring(x, y) as scorer:
        search = begin(scorer, x, y, norm=length, seed=seed)
        graphs, reason = graphs_of(classifier, x)
        refined = [refine and not graph.linear and _solvable(graph, x, exact) is None for graph in graphs]
        certified, proved, ended = certify(graphs, search, x, refined, seconds)
        estimate, steepest = estimated_radii(search)
        if attack == "fast":
            everything = torch.ones_like(search.scores, dtype=torch.bool)
            ATTACKS["fast"].run(search, 0.0, search.distance > 0, everything)
        else:
            _attack(search, graphs, certified, estimate, x.shape[1:], shorten=shorten)
        by_cases = False
        if exact is True:
            certified, by_cases = certify_by_cases(graphs, search, x, certified, seconds)
        values, statuses = _solve(graphs, search, x, exact, seconds)
        rounding, artefact = rounded_radii(classifier, search, x, steepest)
    sides = {
        "certified": certified,
        "proved": proved,
        "estimate": estimate,
        "exact": values,
        "rounding": torch.maximum(rounding, _missing(search, certified, artefact)),
    }
    certificate = named_proof(graphs, reason, search, refined=any(refined), ended=ended, by_cases=by_cases)
    return _bracket(search, sides, statuses, certificate, x, many=classifier.several)


def _check_exact(exact: bool | str) -> None:
    if exact not in (True, False, "auto"):
        raise InputError(f"exact={exact!r} must be True, False or 'auto'")


def _missing(search: Search, certified: Tensor, artefact: Tensor) -> Tensor:
    """An example that float64 decides rightly is one of rounding, by as much as the certificate says."""
    return torch.where(artefact & (certified > search.distance), certified - search.distance, 0.0)


def _bracket(
    search: Search,
    sides: dict[str, Tensor],
    statuses: list[tuple[str, ...]],
    certificate: str,
    x: Tensor,
    *,
    many: bool,
) -> Robustness:
    """The result, without the member axis (M, …) of its sides where one network was given."""
    sides = {**sides, "attacked": search.distance, "examples": search.example.reshape(-1, *x.shape)}
    contradictions = contradictions_between(
        sides["certified"], sides["exact"], sides["attacked"], sides["rounding"]
    )
    if contradictions:
        warnings.warn("robustness contradicts itself: " + "; ".join(contradictions[:5]), stacklevel=3)
    return Robustness(
        **{name: value if many else value[0] for name, value in sides.items()},
        status=tuple(statuses) if many else statuses[0],
        certificate=certificate,
        contradictions=contradictions,
        norm=search.norm,
    )


def _attack(
    search: Search,
    graphs: Sequence[NetworkGraph],
    certified: Tensor,
    estimate: Tensor,
    shape: torch.Size,
    *,
    shorten: bool,
) -> None:
    """The closest examples: what gradients find, then from the certificate if there is one, then shortened."""
    guided = bool(graphs)
    # From the certificate DeepFool's examples end where FAB's do.
    first_examples(search, effort="quick" if guided and not shorten else "thorough")
    if guided:
        find_by_certificate(search, graphs, shape, certified)
    try_lines(search)
    scale = lengths(search.x, search.norm)
    reach_out(search, torch.where(estimate.isfinite(), estimate, scale))
    try_lines(search)  # to what this has found
    if guided:
        if shorten:  # nearly to the end first: an example that is shorter early may end in a worse place
            refine(search, factors=(0.9, 0.97), restarts=0)
        follow_certificate(search, graphs, shape)
    if shorten:
        refine(search, restarts=0 if guided else 3)


def _solve(
    graphs: Sequence[NetworkGraph], search: Search, x: Tensor, exact: bool | str, seconds: float
) -> tuple[Tensor, list[tuple[str, ...]]]:
    """Exact radii (M, N), NaN where unknown, and a status each; where no example was known, the one found is kept."""
    values = torch.full_like(search.distance, math.nan)
    statuses = [["not-tried"] * len(x) for _ in range(len(search.distance))]
    ends = search.x.repeat(len(search.distance), 1, 1)
    for member, graph in enumerate(graphs if exact is not False else []):
        net = _solvable(graph, x, exact)
        if net is None:
            continue
        deadline = time.monotonic() + seconds
        for index in range(len(x)):
            upper = float(search.distance[member, index])
            if upper == 0:
                values[member, index], statuses[member][index] = 0.0, "exact"
                continue
            found = exact_distance(
                net,
                search.x[index].double().cpu().numpy(),
                int(search.y[index]),
                norm=search.norm,
                upper=upper,
                box=search.scorer.bounds,
                seconds=(deadline - time.monotonic()) / (len(x) - index),
            )
            statuses[member][index] = found.status
            if found.status == "exact":
                values[member, index] = found.upper
            if found.delta is not None:
                ends[member, index] += torch.from_numpy(np.ascontiguousarray(found.delta)).to(ends)
    _keep(search, ends, values)
    return values, [tuple(status) for status in statuses]


def _solvable(graph: NetworkGraph, x: Tensor, exact: bool | str) -> TwoLayer | None:
    """The network as the exact solvers take it, where they are to try."""
    if exact is False:
        return None
    net = two_layer_of(graph, x[:1])
    return None if net is None or (exact == "auto" and len(net.weight) > _NARROW) else net


def _keep(search: Search, ends: Tensor, exact: Tensor) -> None:
    """Examples of the exact search where the attacks had none, from the point on the boundary to a little beyond it."""
    for further in (1e-5, 1e-3, 1e-1):
        lacking = search.distance.isinf() & exact.isfinite()
        radius = torch.where(lacking, (1 + further) * exact, 0.0)
        shrink(search, ends, lacking, 1.0, radius=radius)
