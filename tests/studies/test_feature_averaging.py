"""The feature-averaging study on synthetic clusters: claims on made-up records, small runs, and the paper's numbers."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars
import pytest

from undertow.core.errors import InputError
from undertow.data.clusters import ClustersData
from undertow.execution.engines.here import Here
from undertow.execution.sweep import sweep
from undertow.models import TwoLayerModel
from undertow.report.figures import draw
from undertow.store.store import Store
from undertow.studies import find
from undertow.studies.feature_averaging.averaging import parts as averaging
from undertow.studies.feature_averaging.cluster_grids import BY_CLUSTERS, BY_DIMENSION, THRESHOLD
from undertow.studies.feature_averaging.cluster_tables import networks
from undertow.studies.feature_averaging.decoupling import parts as decoupling
from undertow.studies.feature_averaging.radius import parts as radius
from undertow.studies.kit.claim import Verdict
from undertow.studies.kit.per_seed import exponents
from undertow.studies.kit.reproduction import reproductions

STUDY = find("feature-averaging")
CLAIMS = {claim.id: claim.test for claim in STUDY.claims}
PARTS = {**averaging.PARTS, **radius.PARTS, **decoupling.PARTS}
DIMENSIONS = {"averaging": 3072, "averaging-half": 1536, "averaging-quarter": 768, "averaging-eighth": 384}
COUNTS = dict(zip(BY_CLUSTERS, (4, 10, 20, 40), strict=True))


def rows(
    part: str, measure: str, values: dict[str, float], *, seed: int, **axes: Any
) -> list[dict[str, Any]]:
    """Records of one network after training."""
    trial = f"{part}/{seed}/{sorted(axes.items())}"
    about = {"trial": trial, "part": part, "seed": seed, "step": 100, "measure": measure, **axes}
    return [{**about, "key": key, "value": value} for key, value in values.items()]


def by_dimension(measure: str, values: Any) -> polars.DataFrame:
    """Records of a measure at four dimensions, ten seeds; ``values(d, seed)`` gives the readings."""
    return polars.DataFrame(
        row
        for part, d in DIMENSIONS.items()
        for seed in range(10)
        for row in rows(part, measure, values(d, seed), seed=seed, d=d, k=10)
    )


def by_clusters(kind: str, measure: str, values: Any) -> polars.DataFrame:
    return polars.DataFrame(
        row
        for count, k in COUNTS.items()
        for seed in range(10)
        for row in rows(f"{kind}-{count}", measure, values(k, seed), seed=seed, d=1536, k=k)
    )


def jitter(seed: int) -> float:
    return 1 + 0.01 * (seed - 4.5) / 2.25


class TestCoefficients:
    def test_averaging_holds(self) -> None:
        frame = by_dimension(
            "feature-coefficients",
            lambda d, seed: {
                "own_least": 2 * jitter(seed),
                "own_ratio": 1 + 10 * jitter(seed) / d**0.5,
                "cross_share": jitter(seed) / d**0.5,
                "cross_largest": jitter(seed) / d**0.5,
                "aligned": 0.99 * min(jitter(seed), 1.0),
                "residual": 1e-8 * jitter(seed),
            },
        )
        for claim in ("F-b", "F-b.lemma", "F-c", "F-c.limit", "F-d", "F-d.limit", "F-e.change"):
            assert CLAIMS[claim](frame).verdict is Verdict.HOLDS, claim
        assert CLAIMS["F-c.limit"](frame).effect == pytest.approx(-0.5, abs=1e-6)
        assert "2 at 384" in CLAIMS["F-b"](frame).note

    def test_one_neuron_that_learned_one_feature_is_enough_against_it(self) -> None:
        frame = by_dimension(
            "feature-coefficients",
            lambda d, seed: {
                "own_least": -0.1 * jitter(seed),
                "own_ratio": math.inf,
                "cross_share": 0.5 * jitter(seed),
                "cross_largest": d * jitter(seed),
                "aligned": 0.5,
                "residual": 1e-3 * jitter(seed),
            },
        )
        for claim in ("F-b", "F-b.lemma", "F-c", "F-c.limit", "F-d", "F-d.limit", "F-e.change"):
            assert CLAIMS[claim](frame).verdict is Verdict.FAILS, claim

    def test_angles_beyond_nearly_orthogonal_are_shown_and_not_judged(self) -> None:
        frame = polars.DataFrame(
            row
            for cosine, value in ((0.0, 0.99), (0.1, 0.98), (0.3, -0.2))
            for seed in range(10)
            for row in rows(
                "angle",
                "feature-coefficients",
                {"aligned": value * jitter(seed)},
                seed=seed,
                d=768,
                k=10,
                cosine=cosine,
            )
        )
        found = CLAIMS["F-e.angle"](frame)
        assert found.verdict is Verdict.HOLDS
        assert "-0.200 at 0.3" in found.note


class TestRadii:
    def test_exponents_tell_the_orders_apart(self) -> None:
        averaged = by_clusters(
            "averaging", "cluster-radius", lambda k, seed: {"attacked": jitter(seed) / k**0.5}
        )
        assert CLAIMS["F-f.k"](averaged).verdict is Verdict.HOLDS
        decoupled = by_clusters(
            "decoupling",
            "cluster-radius",
            lambda k, seed: {"attacked": jitter(seed) / k**0.5, "native:attacked": 0.7 * jitter(seed)},
        )
        assert CLAIMS["F-l.readout-order"](decoupled).verdict is Verdict.FAILS
        assert CLAIMS["F-l.native-order"](decoupled).verdict is Verdict.HOLDS
        steady = by_clusters("averaging", "cluster-radius", lambda _, seed: {"attacked": jitter(seed)})
        assert CLAIMS["F-f.k"](steady).verdict is Verdict.FAILS

    def test_lengths_grow_with_the_unit(self) -> None:
        frame = by_dimension("cluster-radius", lambda _, seed: {"attacked": 0.3 * jitter(seed)})
        found = CLAIMS["F-f.d"](frame)
        assert found.verdict is Verdict.HOLDS
        assert found.effect == pytest.approx(0.5)
        frame = by_dimension("cluster-radius", lambda d, seed: {"attacked": d**0.5 * jitter(seed)})
        assert CLAIMS["F-f.d"](frame).verdict is Verdict.FAILS

    def test_only_thresholds_of_one_half_are_proved(self) -> None:
        frame = polars.DataFrame(
            row
            for threshold, certified in ((0.5, 0.49), (THRESHOLD, 0.2))
            for d in DIMENSIONS.values()
            for seed in range(10)
            for row in rows(
                "robust-by-d",
                "cluster-radius",
                {"certified": certified * jitter(seed), "attacked": 0.7},
                seed=seed,
                d=d,
                k=10,
                threshold=threshold,
            )
        )
        assert CLAIMS["F-h"](frame).verdict is Verdict.HOLDS
        assert "0.700√d" in CLAIMS["F-h"](frame).note
        assert CLAIMS["F-h.d"](frame).effect == pytest.approx(0.5)

    def test_both_decisions_get_their_own_verdict(self) -> None:
        frame = polars.DataFrame(
            row
            for seed in range(10)
            for part, values in (
                ("averaging", {"exact": 0.31 * jitter(seed), "attacked": 0.32}),
                (
                    "decoupling",
                    {"exact": 0.25, "attacked": 0.5, "native:exact": 0.68, "native:attacked": 0.7},
                ),
            )
            for row in rows(part, "cluster-radius", values, seed=seed, d=3072, k=10)
        )
        assert CLAIMS["F-l.readout"](frame).verdict is Verdict.FAILS  # by exact radii, not by attacks
        assert CLAIMS["F-l.native"](frame).verdict is Verdict.HOLDS

    def test_networks_without_any_accurate_biases_do_not_speak_for_the_claim(self) -> None:
        def values(k: int, seed: int) -> dict[str, float]:
            found = {"robust": 0.0, "radius": 1.0, "robust_any": 0.5}
            return found if seed < 3 or k < 40 else {"robust_any": 0.5}

        found = CLAIMS["F-g"](by_clusters("averaging", "bias-search", values))
        assert (found.verdict, found.n) == (Verdict.UNDECIDED, 3)
        none = by_clusters("averaging", "bias-search", lambda *_: {"robust_any": 0.5})
        with pytest.raises(InputError, match="no record of robust"):
            CLAIMS["F-g"](none)
        assert CLAIMS["F-g.literal"](none).verdict is Verdict.FAILS

    def test_what_is_missing_is_told(self) -> None:
        frame = by_dimension("cluster-radius", lambda *_: {"accuracy": 1.0})
        with pytest.raises(InputError, match="no record of attacked@reach"):
            CLAIMS["F-f"](frame)
        with pytest.raises(InputError, match="two values of k"):
            exponents(networks(frame, "cluster-radius"), "k", "accuracy")


class TestPublished:
    def test_ours_is_one_number_per_seed_at_the_papers_size(self) -> None:
        ours = {number.what.partition(",")[0]: number.ours for number in STUDY.published}
        frame = by_dimension("feature-cosines", lambda d, seed: {"own_mean": d + 0.1 * seed})
        cosines = ours["cosine of a neuron with a feature of its class"](frame)
        assert cosines == pytest.approx([3072 + 0.1 * seed for seed in range(10)])
        built = polars.DataFrame(
            row
            for threshold, value in ((0.5, 0.1), (THRESHOLD, 0.7))
            for d in DIMENSIONS.values()
            for row in rows(
                "robust-by-d", "cluster-radius", {"attacked": value}, seed=0, d=d, k=10, threshold=threshold
            )
        )
        assert ours["radius of f_robust"](built) == pytest.approx([0.7 * 3072**0.5])

    def test_another_size_has_no_such_number(self) -> None:
        small = polars.DataFrame(rows("averaging", "cluster-radius", {"attacked": 0.3}, seed=0, d=384, k=4))
        number = next(each for each in STUDY.published if each.what.startswith("radius of averaged"))
        with pytest.raises(InputError, match="no network at d = 3072, k = 10"):
            number.ours(small)

    def test_numbers_are_those_of_the_formulas(self) -> None:
        exact = {1.0, 1 / math.sqrt(5), math.sqrt(3072 / 10), math.sqrt(3072 / 2)}
        assert {number.printed for number in STUDY.published} == {f"{number:.3g}" for number in exact}


@pytest.mark.parametrize("variant", ["paper", "slides"])
@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
def test_grids_follow_the_paper(scale: str, variant: str) -> None:
    grids = {grid.part: grid for grid in STUDY.grids(scale, variant, parts=[*PARTS]) if grid.part in PARTS}
    assert set(PARTS) - set(grids) == ({"start", "between"} if variant == "slides" else set())
    for part in BY_DIMENSION:
        trial = grids[part].points[0].trial
        assert isinstance(trial.data, ClustersData)
        assert isinstance(trial.model, TwoLayerModel)
        assert trial.model.head == "balanced-signs"
        d, init = trial.data.d, trial.model.init.model_dump()
        if variant == "slides":
            assert init["std"] == pytest.approx(1 / math.sqrt(d))
            assert init["bias"] == pytest.approx(1 / d)
            assert trial.training.learning_rate == pytest.approx(1 / math.sqrt(d))
        else:
            assert (init["std"], init["bias"]) == (1e-5, 1e-5)
            assert trial.training.learning_rate * d == pytest.approx(0.001 * 3072)
    assert all(len({p.columns["seed"] for p in grid.points}) >= 10 for grid in grids.values())
    if scale == "paper":
        trial = grids["averaging"].points[0].trial
        assert isinstance(trial.data, ClustersData)
        assert (trial.data.d, trial.data.k, trial.data.n, trial.model.model_dump()["width"]) == (
            3072,
            10,
            1000,
            10,
        )
        if variant == "paper":
            assert (trial.training.epochs, trial.training.learning_rate) == (100, 0.001)


def test_settings_need_neither_tables_nor_drawing() -> None:
    code = (
        "import sys; from undertow.studies import find; find('feature-averaging').settings('smoke', 'paper'); "
        "print({'polars', 'altair', 'torch'} & set(sys.modules))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "set()"


def test_a_small_run_ends_in_figures(tmp_path: Path) -> None:
    store = Store(tmp_path)
    parts = ("averaging", "decoupling", "robust-by-d", "start")
    for grid in STUDY.grids("smoke", "paper", parts=parts):
        small = grid.model_copy(update={"grid": {**grid.grid, "seed": (0,)}})
        assert sweep(store, small, engine=Here()).complete
    (found,) = reproductions(store)
    pictures = {path.stem for path in draw(found)}
    assert {"cosines", "coefficients", "robust-accuracy", "start"} <= pictures


@pytest.mark.full
def test_the_papers_setting_gives_the_cosines_of_the_theory(tmp_path: Path) -> None:
    """k = 10, d = 3072, n = 1000, m = 5, σ = 1e-5, η = 0.001, T = 100: 1/√5 in the class, nothing across."""
    store = Store(tmp_path)
    for grid in STUDY.grids("paper", "paper", parts=("averaging", "decoupling")):
        measures: list[Any] = ["feature-cosines", "feature-coefficients"]
        if grid.part == "averaging":
            measures.append({"name": "feature-coefficients", "method": "steps"})
        probe = grid.probe.model_validate(
            {"measures": measures, "every": "end", "split": "test", "limit": 50}
        )
        few = grid.model_copy(update={"probe": probe, "grid": {**grid.grid, "seed": (0, 1, 2)}})
        assert sweep(store, few, engine=Here()).complete
    frame = store.frame()
    cosines = networks(frame, "feature-cosines")
    binary = cosines.filter(polars.col("part") == "averaging")
    assert binary.height == 3
    assert all(abs(value - 1 / math.sqrt(5)) < 0.015 for value in binary["own_mean"])
    assert all(value <= 0.05 for value in binary["cross_largest"])
    assert all(value < 1e-6 for value in networks(frame, "feature-coefficients")["residual"])
    found = {
        (trial, key): value
        for trial, key, value in frame.filter(
            (polars.col("measure") == "feature-coefficients") & (polars.col("part") == "averaging")
        )
        .select("trial", "key", "value")
        .iter_rows()
    }
    added_up = {key: value for key, value in found.items() if key[1].startswith("steps:")}
    assert len(added_up) == 3 * (10 * 10 + 9)
    for (trial, key), value in added_up.items():
        solved = found[trial, key.removeprefix("steps:")]
        assert value == pytest.approx(solved, rel=1e-9, abs=1e-12), key
    clusters = cosines.filter(polars.col("part") == "decoupling")
    # a neuron may be dead from the start (chance 1/101 for each): its cosine is no diagonal entry to speak of
    assert sum(value >= 0.97 for value in clusters["own_least"]) >= 2
    assert all(value >= 0.88 for value in clusters["own_mean"])
