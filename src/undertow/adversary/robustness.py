"""The radius of each sample, from both sides: certified ≤ R(x) ≤ attacked, and exact where affordable."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from undertow.adversary.classifier import Classifier, Groups, Net, Scorer, as_classifier, margins_of
from undertow.adversary.closest import first_examples
from undertow.adversary.crown import certified_radii
from undertow.adversary.exact import exact_distance
from undertow.adversary.geometry import check_norm, lengths
from undertow.adversary.guided import find_by_certificate, follow_certificate
from undertow.adversary.layers import Kink, Stage, stages_of
from undertow.adversary.objectives import gradient
from undertow.adversary.refine import refine
from undertow.adversary.search import Search, begin, generator
from undertow.adversary.two_layer import two_layer_of
from undertow.adversary.validation import as_labels
from undertow.errors import InputError

__all__ = ["Robustness", "robustness"]

_NARROW = 64  # hidden neurons up to which exact="auto" tries


@dataclass(frozen=True, eq=False)
class Robustness:
    """Per sample, (N,) or (M, N): ``certified`` ≤ radius ≤ ``attacked``, all 0 for clean errors.

    ``exact`` is NaN where it was not computed or did not finish; ``status`` says which, per sample:
    "exact", "time-limit", "none-found" (nothing in a very large ball) or "not-tried". ``certificate`` names
    how ``certified`` was obtained: "linear-exact" and "crown" are proofs, "lipschitz-estimate" is not one.
    """

    certified: Tensor
    attacked: Tensor
    exact: Tensor
    status: tuple[str, ...] | tuple[tuple[str, ...], ...]
    certificate: str
    proved: bool
    norm: float
    examples: Tensor


def robustness(
    net: Classifier | Net | Sequence[nn.Module],
    x: Tensor,
    y: Tensor,
    *,
    norm: float | str = 2,
    exact: bool | str = "auto",
    seconds: float = 10.0,
    shorten: bool = True,
    bounds: tuple[float, float] | None = None,
    readout: str | Groups | None = None,
    seed: int = 0,
) -> Robustness:
    """Bracket the distance R(x) from each sample to the nearest input that is classified wrongly.

    ``attacked`` is the norm of the closest adversarial example of targeted FAB and DeepFool, shortened by APGD
    in ever smaller balls and from where the certificate is weakest; inf where none was found. ``shorten=False``
    saves most of the cost: where there is a certificate, DeepFool and its weakest points are left, about 1 % longer.
    ``certified`` comes from linear bounds (CROWN) on chains of affine layers
    and ReLU or leaky ReLU; for other networks it is the estimate q / max‖∇q‖ over points sampled in the ball, and
    ``proved`` is False. ``exact`` (two-layer networks; "auto": up to 64 neurons) is branch and bound for L2
    and a mixed-integer program for L∞, ``seconds`` for each network, shared by its samples.

    >>> line = nn.Sequential(nn.Linear(2, 1, bias=False)).requires_grad_(False)
    >>> _ = line[0].weight.copy_(torch.tensor([[3.0, 4.0]]))
    >>> found = robustness(line.double(), torch.ones(1, 2).double(), torch.tensor([1]))
    >>> [round(float(radius), 3) for radius in (found.certified, found.exact, found.attacked)]  # 7/5
    [1.4, 1.4, 1.4]
    """
    if exact not in (True, False, "auto"):
        raise InputError(f"exact={exact!r} must be True, False or 'auto'")
    classifier, length = as_classifier(net, bounds=bounds, readout=readout), check_norm(norm)
    x, y = x.detach(), as_labels(y, x)
    with classifier.scoring(x, y) as scorer:
        search = begin(scorer, x, y, norm=length, seed=seed)
        read = [stages_of(classifier, module, x) for module in classifier.modules]
        chains = [chain for chain in read if chain is not None]
        chains = chains if len(chains) == len(read) else []
        _attack(search, chains, x.shape[1:], shorten=shorten)
        if chains:
            linear = not any(isinstance(stage, Kink) for chain in chains for stage in chain)
            certificate, proved = ("linear-exact" if linear and scorer.bounds is None else "crown"), True
            certified = torch.stack(
                [
                    certified_radii(chain, x, y, length, ceiling=d)
                    for chain, d in zip(chains, search.distance, strict=True)
                ]
            )
        else:
            certificate, proved = "lipschitz-estimate", False
            certified = _lipschitz_estimate(scorer, search)
        values, statuses = _solve(chains, search, x, exact, seconds)
    # certificates hold for the network in float64; one in float32 may round an example across the boundary
    certified = torch.minimum(certified, search.distance)
    many, examples = classifier.several, search.example.reshape(-1, *x.shape)
    return Robustness(
        certified=_squeezed(certified, many),
        attacked=_squeezed(search.distance, many),
        exact=_squeezed(values, many),
        status=tuple(statuses) if many else statuses[0],
        certificate=certificate,
        proved=proved,
        norm=length,
        examples=_squeezed(examples, many),
    )


def _attack(search: Search, chains: Sequence[list[Stage]], shape: torch.Size, *, shorten: bool) -> None:
    """The closest examples: what gradients find, then from the certificate if there is one, then shortened."""
    # From the certificate DeepFool's examples end where FAB's do.
    first_examples(search, quick=bool(chains) and not shorten)
    if chains:
        find_by_certificate(search, chains, shape)
        if shorten:  # nearly to the end first: an example that is shorter early may end in a worse place
            refine(search, factors=(0.9, 0.97), restarts=0)
        follow_certificate(search, chains, shape)
    if shorten:
        refine(search, restarts=0 if chains else 3)


def _squeezed(value: Tensor, many: bool) -> Tensor:
    return value if many else value[0]


def _solve(
    chains: Sequence[list[Stage]], search: Search, x: Tensor, exact: bool | str, seconds: float
) -> tuple[Tensor, list[tuple[str, ...]]]:
    """Exact radii (M, N), NaN where unknown, and a status each."""
    values = torch.full_like(search.distance, math.nan)
    statuses = [["not-tried"] * len(x) for _ in range(len(search.distance))]
    for member, chain in enumerate(chains if exact is not False else []):
        net = two_layer_of(chain, x[:1])
        if net is None or (exact == "auto" and len(net.bias) > _NARROW):
            continue
        deadline = time.monotonic() + seconds
        for index in range(len(x)):
            share = (deadline - time.monotonic()) / (len(x) - index)
            upper = float(search.distance[member, index])
            point = search.x[index].double().cpu().numpy()
            found = exact_distance(
                net,
                point,
                int(search.y[index]),
                norm=search.norm,
                upper=upper,
                box=search.scorer.bounds,
                seconds=share,
            )
            statuses[member][index] = found.status
            if found.status == "exact":
                values[member, index] = min(found.upper, upper)
    return values, [tuple(status) for status in statuses]


def _lipschitz_estimate(scorer: Scorer, search: Search, *, points: int = 32) -> Tensor:
    """q(x) / max ‖∇q‖_dual over points drawn in the ball of the attacked radius: an estimate, not a proof.

    R(x) ≥ q(x)/β holds when β bounds the gradient of the margin everywhere in the ball; a maximum over
    finitely many points may be smaller.
    """
    dual = 1.0 if search.norm == math.inf else 2.0
    radius = torch.where(search.distance.isfinite(), search.distance, 1.0).to(search.x).unsqueeze(-1)
    steepest = torch.zeros_like(search.distance)
    source = generator(search.seed, "lipschitz")
    for point in range(points):
        noise = torch.randn(search.x.shape, generator=source).to(search.x)
        noise = noise / lengths(noise, search.norm).to(noise).unsqueeze(-1) * (point / (points - 1))
        _, _, slope = gradient(scorer, search.x + radius * noise, lambda s: margins_of(s, search.y))
        size = slope.double().abs().sum(-1) if dual == 1 else lengths(slope, 2.0)
        steepest = torch.maximum(steepest, size)
    estimate = search.margin.clamp(min=0).double() / torch.where(steepest > 0, steepest, 1.0)
    estimate = torch.where(steepest > 0, estimate, math.inf)
    return torch.minimum(estimate, search.distance)
