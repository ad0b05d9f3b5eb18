"""Robust accuracy: the share of samples whose decision no attack could change within ε."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeGuard, cast

import torch
from torch import Tensor, nn

from undertow.adversary.attacks.attack_progress import Progress, Watcher, watching
from undertow.adversary.attacks.cost import AttackCost, Pace, expected
from undertow.adversary.attacks.pyautoattack_engine import attack_with_library
from undertow.adversary.attacks.search import Search, begin
from undertow.adversary.attacks.sequence import attack_all, sequence_of
from undertow.adversary.certificates.member_proofs import gap_bounds_of
from undertow.adversary.certificates.network_graph import graphs_of
from undertow.adversary.classifier import Classifier, Net, as_classifier
from undertow.adversary.geometry import check_norm
from undertow.adversary.readout import Groups
from undertow.adversary.sample_checks import as_labels
from undertow.adversary.scorer import Passes, Scorer
from undertow.core.errors import ConfigError, InputError, nearest
from undertow.core.plain_words import check_tensor
from undertow.core.shown import Shown

__all__ = ["RobustAccuracyResult", "attack_cost", "robust_accuracy"]

_COUNTED = ("forward", "backward", "calls")
_ENGINES = ("native", "pyautoattack")
_Part = tuple[Search, Tensor, list[str]]  # of the networks: what was found, proofs (M, N, E), notes
_SMALL = 2**15  # entries of x below which Python's overhead, not arithmetic, is what a CPU spends its time on


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


def robust_accuracy(
    net: Classifier | Net | Sequence[nn.Module],
    x: Tensor,
    y: Tensor,
    *,
    eps: float | Sequence[float],
    norm: float | str = 2,
    attack: str | Sequence[str] = "autoattack",
    engine: str = "native",
    mean: float | Sequence[float] | Tensor | None = None,
    std: float | Sequence[float] | Tensor | None = None,
    bounds: tuple[float, float] | None = None,
    readout: str | Groups | None = None,
    certify: bool = True,
    seed: int = 0,
    chunk: int | None = None,
    progress: Progress = None,
) -> RobustAccuracyResult:
    """Share of samples classified correctly at every point found within ε, in raw input units.

    The result depends neither on the order of the samples nor on how they are cut into chunks, up to the rounding
    of the network's own products.

    Args:
        net: a network, a `Classifier`, or a list of networks of one architecture, which are attacked together.
        eps: one radius, or several.
        norm: 2 or "inf".
        attack: "autoattack" (Croce & Hein 2020: APGD on the cross-entropy, targeted APGD, targeted FAB, Square;
            and the lines to points decided otherwise), "fast" for a first look, at a twentieth of the cost, one of
            apgd-ce, apgd-dlr, apgd-t, fab-t, line, square, pgd (ten starts), pgd-once (one), cw, deepfool, or a
            sequence of these.
        engine: "native", or "pyautoattack" for that library's AutoAttack, adapted to this classifier.
        mean, std, bounds, readout: as in `Classifier`.
        certify: pairs of a sample and a wrong class that linear bounds prove unreachable are not attacked; this
            changes the cost, never the result.
        seed: of random starts, of Square, and of the survivors on which it is tried first.
        chunk: samples attacked at a time.
        progress: None says what it will cost, and shows a bar, where a person waits at a terminal for more than a few
            seconds (elsewhere a log entry of one line, for more than a minute); True always, False never; or a function
            of an `AttackProgress`. `attack_cost` asks without attacking.

    >>> line = lambda x: x.sum(1, keepdim=True)          # the boundary is at distance |x₁ + x₂|/√2
    >>> x, y = torch.tensor([[1.0, 1.0], [2.0, 2.0]]), torch.tensor([1, 1])
    >>> robust_accuracy(line, x, y, eps=[0, 1.4, 1.5, 3], attack="fab-t").value.tolist()
    [1.0, 1.0, 0.5, 0.0]
    """
    check_tensor(x)
    classifier = as_classifier(net, mean=mean, std=std, bounds=bounds, readout=readout)
    radii, names, length, y = _check_eps(eps), sequence_of(attack), check_norm(norm), as_labels(y, x)
    _check_engine(engine, attack)
    parts: list[_Part] = []
    with ExitStack() as stack:
        each = _parts(classifier, x)
        for part in each:
            with part.scoring(x, y) as scorer:
                search = begin(scorer, x, y, norm=length, seed=seed, chunk=chunk)
                if not parts:  # one bar for all of them
                    shown = progress if engine == "native" else False
                    watcher = stack.enter_context(watching(shown, search, names, _positive(radii), len(each)))
                parts.append(_attacked(part, search, x, names, radii, engine, certify, watcher))
    return _result(classifier, x, radii, length, engine, eps, parts)


def _attacked(
    part: Classifier,
    search: Search,
    x: Tensor,
    names: Sequence[str],
    radii: Sequence[float],
    engine: str,
    certify: bool,
    watcher: Watcher,
) -> _Part:
    """What the attacks find of some of the networks, and what certificates prove of them."""
    possible, proved, notes = _exclusions(part, search.scorer, x, search.y, search.norm, certify)
    if engine == "native":
        notes += attack_all(search, names, radii, possible, watcher)
    else:
        notes += attack_with_library(search, tuple(radii))
    return search, torch.stack([proved(radius) for radius in radii], -1), notes


def attack_cost(
    net: Classifier | Net | Sequence[nn.Module],
    x: Tensor,
    y: Tensor,
    *,
    eps: float | Sequence[float],
    norm: float | str = 2,
    attack: str | Sequence[str] = "autoattack",
    bounds: tuple[float, float] | None = None,
    readout: str | Groups | None = None,
) -> AttackCost:
    """What `robust_accuracy` with these arguments would ask of the networks at most, and about how long it would take.

    Args:
        net, x, y, eps, norm, attack: as in `robust_accuracy`.
        bounds, readout: as in `Classifier`.

    >>> line, x, y = lambda x: x.sum(1, keepdim=True), torch.ones(3, 2), torch.tensor([1, 1, 1])
    >>> cost = attack_cost(line, x, y, eps=0.1, attack="fast")
    >>> cost.forward, cost.backward
    (153, 129)
    """
    classifier, y = as_classifier(net, bounds=bounds, readout=readout), as_labels(y, x)
    radii, names, length = _check_eps(eps), sequence_of(attack), check_norm(norm)
    with classifier.scoring(x, y) as scorer:
        search = begin(scorer, x, y, norm=length, seed=0)
        passes = expected(names, _positive(radii), search.standing, scorer.classes, members=scorer.members)
        return Pace.of(search).cost(passes)


def _check_engine(engine: str, attack: str | Sequence[str]) -> None:
    if engine not in _ENGINES:
        raise ConfigError(f"engine={engine!r} is unknown: {nearest(engine, _ENGINES)}")
    if engine == "pyautoattack" and attack != "autoattack":
        raise ConfigError(
            "engine='pyautoattack' runs attack='autoattack' only: use engine='native' for others"
        )


def _positive(radii: Sequence[float]) -> int:
    """At how many radii there is something to attack."""
    return sum(radius > 0 for radius in set(radii))


def _check_eps(eps: float | Sequence[float]) -> tuple[float, ...]:
    several: Sequence[float] = eps if _several(eps) else [cast(float, eps)]
    radii = tuple(float(radius) for radius in several)
    if not radii or not all(0 <= radius < math.inf for radius in radii):
        raise InputError(f"eps={eps!r} must be one number ≥ 0, or several, in the units of the raw inputs")
    return radii


def _several(eps: float | Sequence[float]) -> TypeGuard[Sequence[float]]:
    """Whether ε is several numbers; arrays and tensors without axes are one."""
    return getattr(eps, "ndim", 0 if isinstance(eps, int | float) else 1) > 0


def _parts(classifier: Classifier, x: Tensor) -> list[Classifier]:
    """The classifier itself, or its members one by one where batching them would only cost padding."""
    if callable(classifier.net) or x.is_cuda or x.numel() < _SMALL:
        return [classifier]
    options = {name: getattr(classifier, name) for name in ("mean", "std", "bounds", "readout", "unit_norm")}
    return [Classifier(net, **options) for net in classifier.modules]


def _exclusions(
    classifier: Classifier, scorer: Scorer, x: Tensor, y: Tensor, norm: float, certify: bool
) -> tuple[Callable[[float], Tensor], Callable[[float], Tensor], list[str]]:
    """Functions of ε: pairs (M, N, k) that may be reachable, and samples (M, N) proved robust."""
    everything = torch.ones(scorer.members, len(x), scorer.classes, dtype=torch.bool, device=x.device)
    everything.scatter_(-1, y.expand(scorer.members, -1).unsqueeze(-1), False)
    graphs, reason = graphs_of(classifier, x) if certify else ([], "")
    if not graphs:
        nothing = torch.zeros(scorer.members, len(x), dtype=torch.bool, device=x.device)
        why = [f"no certificate: {reason}"] if certify else []
        return (lambda _: everything), (lambda _: nothing), why
    kept: dict[float, Tensor] = {}

    def possible(eps: float) -> Tensor:
        if eps not in kept:
            radius = torch.full((len(x),), eps, dtype=torch.float64, device=x.device)
            bounds = gap_bounds_of(graphs, x, y, radius, norm, classifier.bounds)
            kept[eps] = everything & (bounds <= 0)
        return kept[eps]

    return possible, (lambda eps: ~possible(eps).any(-1)), []


def _contradicted(both: Tensor, distance: Tensor, limits: Tensor) -> list[str]:
    """A sentence for each sample (M, N, E) that is proved robust at ε and broken within it: rounding, or an error."""
    return [
        f"network {member}, sample {sample}: proved robust at ε = {float(limits[at]):.6g}, broken at distance "
        f"{float(distance[member, sample]):.6g}: an example of rounding, or one of the two is wrong"
        for member, sample, at in both.nonzero().tolist()
    ]


def _result(
    classifier: Classifier,
    x: Tensor,
    radii: tuple[float, ...],
    norm: float,
    engine: str,
    eps: float | Sequence[float],
    parts: list[_Part],
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

    several_eps = _several(eps)
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
