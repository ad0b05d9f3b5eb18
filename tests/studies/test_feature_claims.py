"""Every claim on synthetic clusters can hold and can fail, and looks where its sentence says: on made-up records."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import polars
import pytest

from tests.studies.test_feature_averaging import CLAIMS, COUNTS, by_clusters, by_dimension, jitter, rows
from undertow.studies.feature_averaging.cluster_grids import THRESHOLD
from undertow.studies.kit.claim import Verdict
from undertow.studies.kit.per_seed import per_seed

Frame = Callable[[], polars.DataFrame]
LARGEST = 3072


def largest(measure: str, key: str, there: float, elsewhere: float) -> Frame:
    """Records at four dimensions that differ at the largest: what a claim about large d must look at."""
    return lambda: by_dimension(measure, lambda d, _: {key: there if d == LARGEST else elsewhere})


def over(axis: str, values: dict[Any, float], key: str) -> Frame:
    """Coefficients of networks that differ in one axis alone."""
    return lambda: polars.DataFrame(
        row
        for value, reading in values.items()
        for seed in range(10)
        for row in rows(
            axis,
            "feature-coefficients",
            {key: reading * jitter(seed)},
            seed=seed,
            d=768,
            k=10,
            **{axis: value},
        )
    )


def one_size(key: str, worst: float) -> Frame:
    """Everything is broken within reach but a share of the points at the most clusters."""

    def frame() -> polars.DataFrame:
        few = by_dimension("cluster-radius", lambda *_: {key: 0.0, "accuracy": 1.0})
        many = by_clusters(
            "averaging",
            "cluster-radius",
            lambda k, seed: {key: worst * jitter(seed) if k == 40 else 0.0, "accuracy": 1.0},
        )
        return polars.concat([few, many])

    return frame


def by_k(measure: str, values: Callable[[int, int], dict[str, float]], kind: str = "averaging") -> Frame:
    return lambda: by_clusters(kind, measure, values)


def robust_by_k(exponent: float) -> Frame:
    return lambda: polars.DataFrame(
        row
        for threshold in (0.5, THRESHOLD)
        for k in COUNTS.values()
        for seed in range(10)
        for row in rows(
            "robust-by-k",
            "cluster-radius",
            {"certified": (k**exponent if threshold == 0.5 else k**-exponent) * jitter(seed)},
            seed=seed,
            d=1536,
            k=k,
            threshold=threshold,
        )
    )


def steepness(other: str, ours: float, theirs: float) -> Frame:
    """The other network's gradients, with others at another threshold and another d, which do not count."""

    def frame() -> polars.DataFrame:
        found = []
        for seed in range(10):
            found += rows("averaging", "cluster-radius", {"steepness": ours}, seed=seed, d=LARGEST, k=10)
            for d, value in ((LARGEST, theirs * jitter(seed)), (384, ours**2 / theirs)):
                for threshold in (THRESHOLD, 0.5) if other == "robust-by-d" else (None,):
                    values = {"steepness": value if threshold != 0.5 else ours**2 / value}
                    axes = {} if threshold is None else {"threshold": threshold}
                    found += rows(other, "cluster-radius", values, seed=seed, d=d, k=10, **axes)
        return polars.DataFrame(found, infer_schema_length=None)

    return frame


def optimal(ratio: float) -> Frame:
    return lambda: by_dimension(
        "cluster-radius",
        lambda d, seed: {
            "certified": 0.2,
            "exact": 0.3,
            "attacked": 0.3,
            "averaged": 0.3 * (ratio if d == LARGEST else 3 - ratio) * jitter(seed),
        },
    )


def decoupled(own: float, cross: float) -> Frame:
    return lambda: polars.DataFrame(
        row
        for seed in range(10)
        for row in rows(
            "decoupling",
            "feature-coefficients",
            {"own_least": own * jitter(seed), "cross_share": cross * jitter(seed)},
            seed=seed,
            d=LARGEST,
            k=10,
        )
    )


def biases(robust: float, anyhow: float) -> Frame:
    """At the most clusters; with fewer of them the answer is the opposite."""

    def values(k: int, seed: int) -> dict[str, float]:
        found = {"robust": robust, "robust_any": anyhow}
        here = {key: value if k == 40 else 1 - value for key, value in found.items()}
        return {"radius": 1.0, **{key: value * jitter(seed) for key, value in here.items()}}

    return by_k("bias-search", values)


CASES: dict[str, tuple[Frame, Frame]] = {
    "F-a": (
        largest("cluster-radius", "accuracy", 1.0, 0.5),
        largest("cluster-radius", "accuracy", 0.9, 1.0),
    ),
    "F-c.start": (
        over("std", {1e-5: 20.0, 0.02: 1.5}, "own_ratio"),
        over("std", {1e-5: 1.5, 0.02: 20.0}, "own_ratio"),
    ),
    "F-e": (
        largest("feature-cosines", "aligned", 0.99, 0.2),
        largest("feature-cosines", "aligned", 0.2, 0.99),
    ),
    "F-e.balance": (
        over("balance", {1.0: 0.99, 4.0: 0.98}, "aligned"),
        over("balance", {1.0: 0.98, 4.0: 0.5}, "aligned"),
    ),
    "F-e.noise": (
        over("noise", {"gaussian": 0.99, "sparse": 0.98}, "aligned"),
        over("noise", {"gaussian": 0.99, "sparse": 0.8}, "aligned"),
    ),
    "F-f": (one_size("attacked@reach", 0.0), one_size("attacked@reach", 0.2)),
    "F-g": (biases(0.0, 1.0), biases(0.5, 0.0)),
    "F-g.literal": (biases(1.0, 0.0), biases(0.0, 0.5)),
    "F-i": (one_size("averaged@reach", 0.0), one_size("averaged@reach", 0.2)),
    "F-i.optimal": (optimal(1.05), optimal(1.5)),
    "F-h.k": (robust_by_k(0.0), robust_by_k(-0.3)),
    "F-j": (steepness("robust-by-d", 2.0, 1.5), steepness("robust-by-d", 2.0, 3.0)),
    "F-j.decoupled": (steepness("decoupling", 2.0, 1.5), steepness("decoupling", 2.0, 3.0)),
    "F-k": (decoupled(2.0, 0.5), decoupled(0.0, 0.01)),
    "F-k.cross": (decoupled(0.0, 0.05), decoupled(2.0, 0.5)),
}


@pytest.mark.parametrize("claim", CASES)
def test_a_claim_can_hold_and_can_fail(claim: str) -> None:
    holds, fails = CASES[claim]
    assert CLAIMS[claim](holds()).verdict is Verdict.HOLDS
    assert CLAIMS[claim](fails()).verdict is Verdict.FAILS


def test_seeds_that_saw_one_size_do_not_dilute_the_worst_of_all() -> None:
    """The paper's scale has twenty seeds at one size and ten at the others: 0.08 at the most clusters is no 0.04."""
    for claim, key in (("F-f", "attacked@reach"), ("F-i", "averaged@reach")):
        more = [
            row
            for seed in range(10, 20)
            for row in rows(
                "averaging", "cluster-radius", {key: 0.0, "accuracy": 1.0}, seed=seed, d=LARGEST, k=10
            )
        ]
        found = CLAIMS[claim](polars.concat([one_size(key, 0.08)(), polars.DataFrame(more)]))
        assert (found.verdict, found.n) == (Verdict.FAILS, 10)


def test_accuracy_is_told_with_its_trend() -> None:
    note = CLAIMS["F-a"](CASES["F-a"][0]()).note
    assert "0.5 at 384, 0.5 at 768, 0.5 at 1536, 1 at 3072" in note


def test_a_collapse_says_how_many_errors_there_were_before() -> None:
    clean = by_dimension(
        "cluster-radius",
        lambda d, _: {"attacked@reach": 0.0, "averaged@reach": 0.0, "accuracy": 0.6 if d == 384 else 1.0},
    )
    for claim in ("F-f", "F-i"):
        assert "before any attack 0.6 or more" in CLAIMS[claim](clean).note


@pytest.mark.parametrize("how", ["max", "min"])
def test_one_network_without_a_number_leaves_its_seed_without_one(how: Any) -> None:
    table = polars.DataFrame({"seed": [0, 0, 1, 1], "share": [0.0, math.nan, 0.0, 0.1]})
    first, second = per_seed(table, "share", how)
    assert first is not None
    assert math.isnan(first)
    assert second == (0.1 if how == "max" else 0.0)
