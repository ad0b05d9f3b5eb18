"""Robust accuracy: the share of samples whose decision no attack could change within ε."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from undertow.adversary.accuracy_result import (
    AttackedPart,
    RobustAccuracyResult,
    accuracy_result,
)
from undertow.adversary.any_network import ready_to_attack, sample_by_sample
from undertow.adversary.attacks.attack_progress import Progress, Watcher, watching
from undertow.adversary.attacks.cost import AttackCost, Pace, expected
from undertow.adversary.attacks.pyautoattack_engine import attack_with_library
from undertow.adversary.attacks.search import Search, begin
from undertow.adversary.attacks.sequence import attack_all, sequence_of
from undertow.adversary.certificates.member_proofs import gap_bounds_of
from undertow.adversary.certificates.network_graph import graphs_of
from undertow.adversary.classifier import Classifier, Net, as_classifier
from undertow.adversary.geometry import check_norm
from undertow.adversary.joined_results import joined_accuracies, joined_costs
from undertow.adversary.radii import check_radii
from undertow.adversary.readout import Groups
from undertow.adversary.sample_checks import as_labels
from undertow.adversary.scorer import Scorer
from undertow.core.errors import ConfigError, nearest
from undertow.core.inference import outside_inference_mode
from undertow.core.outputs import OutputChoice

__all__ = ["attack_cost", "robust_accuracy"]

_ENGINES = ("native", "pyautoattack")
_SMALL = 2**15  # entries of x below which Python's overhead, not arithmetic, is what a CPU spends its time on


@outside_inference_mode
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
    output: OutputChoice = None,
    extras: Mapping[str, Any] | None = None,
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
        output: which of the network's outputs are the scores, where it has several: a name, a place, a function.
        extras: what the network takes beside x, by name, a row for each sample; samples with different rows are
            attacked one by one.

    >>> line = lambda x: x.sum(1, keepdim=True)          # the boundary is at distance |x₁ + x₂|/√2
    >>> x, y = torch.tensor([[1.0, 1.0], [2.0, 2.0]]), torch.tensor([1, 1])
    >>> robust_accuracy(line, x, y, eps=[0, 1.4, 1.5, 3], attack="fab-t").value.tolist()
    [1.0, 1.0, 0.5, 0.0]
    """
    net, x = ready_to_attack(net, x, output=output, extras=extras)
    classifier = as_classifier(net, mean=mean, std=std, bounds=bounds, readout=readout)
    radii, names, length, y = check_radii(eps), sequence_of(attack), check_norm(norm), as_labels(y, x)
    _check_engine(engine, attack)
    apart = sample_by_sample(classifier, x, y)
    if apart is not None:
        options: dict[str, Any] = {"eps": eps, "norm": norm, "attack": attack, "engine": engine}
        options |= {"certify": certify, "seed": seed, "chunk": chunk, "progress": progress or False}
        return joined_accuracies([robust_accuracy(own, x[part], y[part], **options) for own, part in apart])
    parts: list[AttackedPart] = []
    with ExitStack() as stack:
        each = _parts(classifier, x)
        for part in each:
            with part.scoring(x, y) as scorer:
                search = begin(scorer, x, y, norm=length, seed=seed, chunk=chunk)
                if not parts:  # one bar for all of them
                    shown = progress if engine == "native" else False
                    watcher = stack.enter_context(watching(shown, search, names, _positive(radii), len(each)))
                parts.append(_attacked(part, search, x, names, radii, engine, certify, watcher))
    return accuracy_result(classifier, x, radii, length, engine, eps, parts)


def _attacked(
    part: Classifier,
    search: Search,
    x: Tensor,
    names: Sequence[str],
    radii: Sequence[float],
    engine: str,
    certify: bool,
    watcher: Watcher,
) -> AttackedPart:
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
    output: OutputChoice = None,
    extras: Mapping[str, Any] | None = None,
) -> AttackCost:
    """What `robust_accuracy` with these arguments would ask of the networks at most, and about how long it would take.

    Args:
        net, x, y, eps, norm, attack, output, extras: as in `robust_accuracy`.
        bounds, readout: as in `Classifier`.

    >>> line, x, y = lambda x: x.sum(1, keepdim=True), torch.ones(3, 2), torch.tensor([1, 1, 1])
    >>> cost = attack_cost(line, x, y, eps=0.1, attack="fast")
    >>> cost.forward, cost.backward
    (153, 129)
    """
    net, x = ready_to_attack(net, x, output=output, extras=extras)
    classifier, y = as_classifier(net, bounds=bounds, readout=readout), as_labels(y, x)
    radii, names, length = check_radii(eps), sequence_of(attack), check_norm(norm)
    apart = sample_by_sample(classifier, x, y)
    if apart is not None:
        return joined_costs(
            [attack_cost(own, x[part], y[part], eps=eps, norm=norm, attack=attack) for own, part in apart]
        )
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
