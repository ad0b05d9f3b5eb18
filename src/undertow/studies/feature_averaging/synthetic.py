"""The grids of the feature-averaging study on synthetic clusters: rows F1–F5, F7 and F8.

Everything lives on D_binary: k orthogonal centres of norm √d, half of them in each class, N(0, I) around them; three
parts relax one of these each. Binary labels train the ±1/m network with biases, cluster labels one neuron per cluster
without; f_robust is constructed.

Between dimensions the training is kept comparable: n grows with d, and the step falls with it so that η‖μ‖² stays
(variant ``paper``: 0.001 at d = 3072; ``slides``: η = 1/√d). With more clusters each is seen more rarely, so ``paper``
takes T = 10 k steps, which is its T = 100 at k = 10. The slides say T = poly(d); here it is d/3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from undertow.studies.kit.study import Part, Scale

__all__ = ["BY_CLUSTERS", "BY_DIMENSION", "PARTS", "SIZES", "Size"]

HALF = 5
"""Neurons for each sign: the paper's m."""
FULL = 3072
"""The paper's dimension."""
THRESHOLD = 1 - 1 / math.sqrt(2)
"""The optimal one, as in ``undertow.theory.feature_averaging``; that needs torch, and configurations do not."""
BY_DIMENSION = {"averaging": 1, "averaging-half": 2, "averaging-quarter": 4, "averaging-eighth": 8}
"""Parts that differ in d, and with it in n and η, and by what each divides the largest d."""
BY_CLUSTERS = {"few": 0.4, "some": 1.0, "many": 2.0, "most": 4.0}
"""Endings of the parts that differ in k, at half the largest d, and k relative to the paper's."""


@dataclass(frozen=True)
class Size:
    """What a scale changes: the largest d with its n, seeds, points measured, and how many of them exactly.

    ``seeds`` are those of the part in which everything is measured, ``side_seeds`` those of the others. Without
    ``thorough`` the smaller axes have their first and last values alone. ``careful`` shortens adversarial examples in
    every part and not in those of the largest d alone: without it radii are up to 1 % longer there, which changes no
    exponent by more than 0.01, and cost a tenth.
    """

    d: int
    n: int
    seeds: int
    side_seeds: int
    points: int
    exact: int
    k: int = 10
    rounds: int = 300
    thorough: bool = True
    careful: bool = False

    def shorten(self, *, largest: bool) -> bool:
        """Whether the adversarial examples of a part are shortened."""
        return self.thorough and (largest or self.careful)

    def some(self, values: list[Any]) -> list[Any]:
        """The values of a smaller axis."""
        return values if self.thorough else [values[0], values[-1]]


SIZES: dict[Scale, Size] = {
    "smoke": Size(
        d=384,
        n=120,
        seeds=10,
        side_seeds=10,
        points=4,
        exact=1,
        k=4,
        rounds=10,
        thorough=False,
    ),
    "laptop": Size(d=FULL, n=1000, seeds=10, side_seeds=10, points=40, exact=6),
    "paper": Size(d=FULL, n=1000, seeds=20, side_seeds=10, points=400, exact=40, careful=True),
}
_EPS = tuple(round(0.05 * step, 2) for step in range(1, 17))


def size_of(scale: Scale, variant: str) -> Size:
    """The slides' training takes d/3 steps, which a laptop has time for up to half the paper's dimension."""
    size = SIZES[scale]
    if variant == "slides" and scale == "laptop":
        return replace(size, d=size.d // 2, n=size.n // 2)
    return size


def averaging(scale: Scale, variant: str, *, divide: int) -> dict[str, Any]:
    """Binary labels at d = largest/divide and the paper's k; at the largest d the whole course of λ as well."""
    size = size_of(scale, variant)
    whole = divide == 1
    d, n, exact = size.d // divide, size.n // divide, size.points if whole else size.exact
    course = {"every": max(1, steps(d, size.k, variant) // 20)} if whole else {}
    measures = [
        {"name": "feature-coefficients", "pairs": whole, **course},
        {"name": "feature-cosines", "pairs": whole},
        {"name": "cluster-radius", "eps": list(_EPS), "exact": exact, "shorten": size.shorten(largest=whole)},
        {"name": "bias-search", "rounds": size.rounds},
        "loss",
    ]
    followed = whole and scale != "laptop"  # as much work again as the training
    if followed:
        measures.append({"name": "feature-coefficients", "pairs": False, "method": "steps"})
    grid = {"data.d": [d], "data.n": [n], "data.k": [size.k]}
    settings = binary(d, n, size.k, variant, measures, size, grid)
    settings["grid"]["seed"] = list(range(size.seeds if whole else size.side_seeds))
    if followed:
        settings["training"]["dtype"] = "float64"  # see FeatureCoefficients: float32 may differ at a kink
    return settings


def averaging_by_clusters(scale: Scale, variant: str, *, count: str) -> dict[str, Any]:
    """Binary labels at half the largest d, for another number of clusters."""
    size = size_of(scale, variant)
    d, n, k = _cell(size, count)
    measures = [
        {"name": "feature-coefficients", "pairs": False},
        {"name": "feature-cosines", "pairs": False},
        {"name": "cluster-radius", "eps": [0.5], "exact": size.exact, "shorten": size.shorten(largest=False)},
        {"name": "bias-search", "rounds": size.rounds},
    ]
    return binary(d, n, k, variant, measures, size, {"data.d": [d], "data.n": [n], "data.k": [k]})


def decoupling(scale: Scale, variant: str) -> dict[str, Any]:
    """Cluster labels at the largest d: one neuron for each cluster."""
    size = size_of(scale, variant)
    grid = {"data.d": [size.d], "data.n": [size.n], "data.k": [size.k]}
    return by_label(size.d, size.n, size.k, variant, size, grid, pairs=True)


def decoupling_by_clusters(scale: Scale, variant: str, *, count: str) -> dict[str, Any]:
    """Cluster labels at half the largest d, for another number of clusters."""
    size = size_of(scale, variant)
    d, n, k = _cell(size, count)
    return by_label(d, n, k, variant, size, {"data.d": [d], "data.n": [n], "data.k": [k]}, pairs=False)


def constructed(scale: Scale, variant: str, *, axis: str) -> dict[str, Any] | None:
    """f_robust by dimension or by number of clusters, or what lies between it and averaging (``axis`` "group").

    Two thresholds: the optimal one, whose radius is half the distance between centres, and one half, whose radius
    linear bounds can prove.
    """
    if axis == "group" and variant != "paper":
        return None  # nothing is trained here: once is enough
    size = size_of(scale, variant)
    counts = size.some(list(BY_CLUSTERS))
    k = {"k": [_cell(size, count)[2] for count in counts], "group": [_cell(size, "many")[2]]}.get(
        axis, [size.k]
    )
    divisors = size.some(list(BY_DIMENSION.values())) if axis == "d" else [2]
    dimensions = [size.d // divide for divide in divisors]
    groups = [g for g in (1, 2, 5, 10) if 2 * g <= k[0]] if axis == "group" else [1]
    # Attacks find the way straight against one neuron. With the optimal threshold the shortest, which switches one
    # other on, is up to 5 % shorter, and neither gradients nor the certificate point there: ``exact`` tells.
    measures = [{"name": "cluster-radius", "eps": list(_EPS), "exact": size.exact, "shorten": False}]
    return {
        "data": {"name": "d-binary", "n": k[-1], "d": dimensions[0], "k": k[0]},
        "model": {"name": "grouped-centres"},
        "training": {"epochs": 0, "loss": "logistic", "dtype": "float64"},
        "probe": _probe(measures, size),
        "grid": {
            "data.d": dimensions,
            "data.k": k,
            "group": groups,
            "threshold": [THRESHOLD] if axis == "group" else [THRESHOLD, 0.5],
            "seed": list(range(size.side_seeds)),
        },
    }


def noise_kinds(scale: Scale, variant: str) -> dict[str, Any]:
    """Sub-Gaussian noise of four kinds, at a quarter of the largest d."""
    kinds = ["gaussian", "rademacher", "uniform", "sparse"]
    return _relaxed(scale, variant, {"data.noise": size_of(scale, variant).some(kinds)})


def angles(scale: Scale, variant: str) -> dict[str, Any]:
    """Centres that are only nearly orthogonal, at a quarter of the largest d."""
    return _relaxed(scale, variant, {"data.cosine": size_of(scale, variant).some([-0.05, 0.0, 0.1, 0.3])})


def balances(scale: Scale, variant: str) -> dict[str, Any]:
    """Up to four times as many clusters in one class as in the other, at a quarter of the largest d."""
    return _relaxed(scale, variant, {"data.balance": size_of(scale, variant).some([1.0, 1.5, 4.0])})


def starts(scale: Scale, variant: str) -> dict[str, Any] | None:
    """The paper's training from larger and larger starts, up to the slides' σ_w = 1/√d."""
    if variant != "paper":
        return None
    size = size_of(scale, variant)
    d, n = size.d // 2, size.n // 2
    measures = [
        {"name": "feature-coefficients", "pairs": False},
        {"name": "feature-cosines", "pairs": False},
    ]
    settings = binary(d, n, size.k, variant, measures, size, {"data.d": [d], "data.k": [size.k]})
    settings["training"]["dtype"] = "float64"  # from a large start what training adds would drown in rounding
    settings["grid"]["model.init.std"] = size.some([1e-5, 1e-4, 1e-3, 1e-2, round(1 / math.sqrt(d), 6)])
    return settings


def binary(
    d: int, n: int, k: int, variant: str, measures: list[Any], size: Size, grid: Mapping[str, Any]
) -> dict[str, Any]:
    """The ±1/m network with biases, logistic loss, full-batch gradient descent."""
    return {
        "data": {"name": "d-binary", "n": n, "d": d, "k": k},
        "model": {
            "name": "two-layer",
            "width": 2 * HALF,
            "init": _start(d, variant, bias=True),
            "bias": "hidden",
            "head": "balanced-signs",
        },
        "training": _training(d, k, variant, "logistic"),
        "probe": _probe(measures, size),
        "grid": {**grid, "seed": list(range(size.side_seeds))},
    }


def by_label(
    d: int, n: int, k: int, variant: str, size: Size, grid: Mapping[str, Any], *, pairs: bool
) -> dict[str, Any]:
    """One neuron for each cluster, no biases, cross-entropy over the clusters."""
    exact, shorten = size.points if pairs else size.exact, size.shorten(largest=pairs)
    measures = [
        {"name": "feature-coefficients", "pairs": pairs},
        {"name": "feature-cosines", "pairs": pairs},
        {"name": "cluster-radius", "eps": list(_EPS), "exact": exact, "shorten": shorten},
        {
            "name": "cluster-radius",
            "decision": "native",
            "eps": list(_EPS),
            "exact": exact,
            "shorten": shorten,
        },
        "accuracy",
    ]
    return {
        "data": {"name": "d-binary", "n": n, "d": d, "k": k, "labels": "clusters"},
        "model": {
            "name": "two-layer",
            "width": k,
            "init": _start(d, variant, bias=False),
            "head": "class-means",
        },
        "training": _training(d, k, variant, "cross-entropy"),
        "probe": _probe(measures, size),
        "grid": {**grid, "seed": list(range(size.side_seeds))},
    }


def steps(d: int, k: int, variant: str) -> int:
    """T."""
    return d // 3 if variant == "slides" else 10 * k


def _cell(size: Size, count: str) -> tuple[int, int, int]:
    """d, n and k of a part that differs in k."""
    return size.d // 2, size.n, round(BY_CLUSTERS[count] * size.k)


def _relaxed(scale: Scale, variant: str, axis: Mapping[str, list[Any]]) -> dict[str, Any]:
    size = size_of(scale, variant)
    d, n = size.d // 4, size.n // 4
    measures = [
        {"name": "feature-coefficients", "pairs": False},
        {"name": "feature-cosines", "pairs": False},
    ]
    return binary(d, n, size.k, variant, measures, size, {"data.d": [d], "data.k": [size.k], **axis})


def _start(d: int, variant: str, *, bias: bool) -> dict[str, Any]:
    std, bias_std = (1 / math.sqrt(d), 1 / d) if variant == "slides" else (1e-5, 1e-5)
    return {"name": "gaussian", "std": std, "bias": bias_std if bias else 0.0}


def _training(d: int, k: int, variant: str, loss: str) -> dict[str, Any]:
    slides = variant == "slides"
    return {
        "optimizer": "gd",
        "learning_rate": 1 / math.sqrt(d) if slides else 0.001 * FULL / d,
        "epochs": steps(d, k, variant),
        "loss": loss,
        # What training adds to the slides' start is smaller than the start: float32 would show in the residual.
        "dtype": "float64" if slides else "float32",
        "frozen": ["output.weight"],
    }


def _probe(measures: list[Any], size: Size) -> dict[str, Any]:
    return {"measures": measures, "every": "end", "split": "test", "limit": size.points}


PARTS: dict[str, Part] = {
    **{name: partial(averaging, divide=divide) for name, divide in BY_DIMENSION.items()},
    **{f"averaging-{count}": partial(averaging_by_clusters, count=count) for count in BY_CLUSTERS},
    "decoupling": decoupling,
    **{f"decoupling-{count}": partial(decoupling_by_clusters, count=count) for count in BY_CLUSTERS},
    "robust-by-d": partial(constructed, axis="d"),
    "robust-by-k": partial(constructed, axis="k"),
    "between": partial(constructed, axis="group"),
    "noise": noise_kinds,
    "angle": angles,
    "balance": balances,
    "start": starts,
}
