"""The stable-rank study: its claims on made-up records with known answers, and a small run of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars
import pytest

from undertow.core.errors import ConfigError, InputError
from undertow.execution.engines.here import Here
from undertow.execution.sweep import sweep
from undertow.models import TwoLayerModel
from undertow.report.figures import draw
from undertow.store.store import Store
from undertow.studies import STUDIES, find
from undertow.studies.kit.claim import Verdict
from undertow.studies.kit.ledger import ledger
from undertow.studies.kit.patients import with_outcome
from undertow.studies.kit.reproduction import reproductions
from undertow.studies.stable_rank import STUDY
from undertow.studies.stable_rank.genes.claims import down_up_down
from undertow.studies.stable_rank.starts import INIT_SCALES

CLAIMS = {claim.id: claim.test for claim in STUDY.claims}


def made_up(
    rank: Callable[[float, int, float], float], *, loss: float = 0.001, seeds: int = 10
) -> polars.DataFrame:
    """Records of a stable rank that is a function of progress, seed and init scale."""
    rows = [
        {
            "measure": measure,
            "key": key,
            "epoch": epoch,
            "value": rank(epoch / 100, seed, init) if measure == "stable-rank" else loss,
            "activation": activation,
            "seed": seed,
            "std": init,
        }
        for activation in ("relu", "leaky-relu")
        for seed in range(seeds)
        for init in INIT_SCALES
        for epoch in range(0, 101, 10)
        for measure, key in (
            ("stable-rank", "hidden.weight"),
            ("stable-rank", "output.weight"),
            ("loss", "mean"),
        )
    ]
    return polars.DataFrame(rows)


def test_falling_holds_with_either_head() -> None:
    frame = made_up(lambda t, seed, _: 1.5 + 50 * (1 - t) ** 20 + 0.01 * seed)
    for claim in ("R-a.falls", "R-a.fixed-falls-leaky"):
        assert CLAIMS[claim](frame).verdict is Verdict.HOLDS
        assert CLAIMS[claim](frame).effect == pytest.approx(1.545 / 51.545, abs=1e-3)


def test_one_init_that_rises_is_enough_against_falling() -> None:
    frame = made_up(lambda t, seed, init: 50 + (5 + 0.1 * seed) * t * (1 if init == 1e-3 else -1))
    assert CLAIMS["R-a.falls"](frame).verdict is Verdict.FAILS
    assert CLAIMS["R-a.order"](frame).verdict is not Verdict.FAILS


@pytest.mark.parametrize(("sign", "verdict"), [(1, Verdict.HOLDS), (-1, Verdict.FAILS)])
def test_order(sign: int, verdict: Verdict) -> None:
    frame = made_up(lambda t, seed, init: 20 - 5 * t + sign * 1000 * init * t + 0.1 * seed)
    found = CLAIMS["R-a.order"](frame)
    assert found.verdict is verdict
    assert found.effect == pytest.approx(sign)
    assert (
        CLAIMS["R-a.order"](made_up(lambda t, _, init: 20 + init * t, seeds=3)).verdict is Verdict.UNDECIDED
    )


@pytest.mark.parametrize("variant", ["paper", "authors"])
@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
def test_grids_follow_the_report(scale: str, variant: str) -> None:
    study = STUDY.grids(scale, variant, parts=["main"])[0]
    trial = study.points[0].trial
    assert isinstance(trial.model, TwoLayerModel)
    assert trial.model.head == "mean"
    assert len({point.columns["seed"] for point in study.points}) >= 10
    # In seconds all seeds share their points, and are one batch for each activation.
    assert {len(group.trials) for group in study.groups} == {30 if scale == "smoke" else 5}
    key = "std" if variant == "paper" else "variance"
    starts = {1e-5, 1e-4, 1e-3} if scale == "smoke" else {1e-5, 5e-5, 1e-4, 5e-4, 1e-3}
    assert {point.columns[key] for point in study.points} == starts
    if scale != "smoke":
        assert trial.training.learning_rate == 1e-4
        assert (trial.model.width, trial.training.epochs, trial.data.model_dump()["d"]) == (100, 5000, 784)


def test_unknown_names_are_told() -> None:
    with pytest.raises(ConfigError, match="did you mean 'authors'"):
        STUDY.grids("smoke", "author")[0]
    with pytest.raises(ConfigError, match="did you mean 'laptop'"):
        STUDY.grids("laptp", "paper")[0]
    assert [find(name).name for name in STUDIES] == list(STUDIES)


def test_a_smaller_run_ends_in_figures_and_verdicts(tmp_path: Path) -> None:
    (main,) = STUDY.grids("smoke", "authors", parts=["main"])
    study = main.model_copy(update={"grid": {**main.grid, "activation": ("relu",), "seed": (0, 1)}})
    store = Store(tmp_path)
    outcome = sweep(store, study, engine=Here())
    assert outcome.complete
    pictures = draw(*reproductions(store))
    assert [path.name for path in pictures] == ["fig1-left.svg", "fig1-right.svg"]
    assert all(path.read_text().startswith("<svg") for path in pictures)
    shown = json.loads(pictures[0].with_suffix(".vl.json").read_text())
    assert "$schema" in shown
    entries = [entry.row() for entry in ledger(store)]
    assert {entry["id"] for entry in entries} <= set(CLAIMS)
    assert entries[0]["id"] == "R-a.falls"
    assert {"id", "text", "source", "study", "variant", "verdict", "effect", "interval", "n"} <= set(
        entries[0]
    )
    assert entries[0]["verdict"] == "undecided"
    assert "too few" in entries[0]["note"]
    # With a trial missing there is evidence, but no verdict.
    store.folder(study.points[0].trial.id).rename(tmp_path / "gone")
    of_main = {claim.id for claim in STUDY.claims if claim.parts == ("main",)}
    notes = {entry.claim.id: entry.finding.note for entry in ledger(store)}
    assert all("1 of 6 trials are missing" in notes[id] for id in of_main if "leaky" not in id)


def test_a_table_of_ones_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [
        f"{('ill', 'well', '')[i % 3]},{a:.3f},{100 * b:.3f}"
        for i, (a, b) in enumerate(rng.normal(size=(30, 2)))
    ]
    (tmp_path / "my.csv").write_text("\n".join(["outcome,a,b", *rows]))
    table = {"path": str(tmp_path / "my.csv"), "label": "outcome", "unlabelled_as": "ill"}
    whole = STUDY.grid_on(table, "smoke", "paper")
    assert len(whole.points) == 60
    fewer = {
        "training": whole.training.model_copy(update={"epochs": 20}),
        "grid": {**whole.grid, "seed": (0, 1)},
    }
    store = Store(tmp_path / "runs")
    assert sweep(store, whole.model_copy(update=fewer), engine=Here()).complete
    assert [path.name for path in draw(*reproductions(store))] == ["fig2-table.svg"]
    assert [entry.claim.id for entry in ledger(store)] == ["R-e.table"]
    assert store.trial(whole.model_copy(update=fewer).points[0].trial.id).provenance["data"]["samples"] == 24
    with pytest.raises(ConfigError, match="path"):  # a table, but which one?
        STUDY.grids("smoke", "paper", parts=["table"])
    assert "table" not in {grid.part for grid in STUDY.grids("smoke", "paper")}
    with pytest.raises(ConfigError, match="margin does not run on tables"):
        find("margin").grid_on(table, "smoke", "paper")


def test_a_part_without_its_data_says_which_and_whence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERTOW_DATA", str(tmp_path))
    monkeypatch.setenv("UNDERTOW_CACHE", str(tmp_path))
    with pytest.raises(
        ConfigError,
        match=r"neuroblastoma of stable-rank needs data: .* Put neuroblastoma.csv into .*E-TABM-38",
    ):
        STUDY.settings("smoke", "paper", parts=["neuroblastoma"])
    with pytest.raises(ConfigError, match="`undertow data fetch cifar10` brings it"):
        STUDY.settings("laptop", "paper", parts=["main", "cifar10"])
    assert "neuroblastoma" not in STUDY.settings("smoke", "paper")


def test_patients_lost_from_sight_can_be_put_into_either_class(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERTOW_DATA", str(data_folder))
    whole = STUDY.grids("smoke", "paper", parts=["main", "dlbcl"])
    main, patients = with_outcome(whole, "event-free")
    assert main == whole[0]
    assert patients.data.model_dump()["unlabelled_as"] == "event-free"
    assert len(patients.points[0].trial.data.build()) == 192  # of all 240, not of 227
    with pytest.raises(ConfigError, match="did you mean 'event-free'"):
        with_outcome(whole, "event-fre")
    with pytest.raises(ConfigError, match="or --part dlbcl too"):
        with_outcome(whole[:1], "event")


def rows_at(
    moments: dict[tuple[str, str], Callable[[int, float], float]], **axes: object
) -> list[dict[str, object]]:
    """Records of ten seeds at five moments: value of (seed, progress) for each (measure, key)."""
    return [
        {
            "trial": f"{axes}{seed}",
            "measure": measure,
            "key": key,
            "step": step,
            "epoch": step,
            "value": value(seed, step / 4),
            "seed": seed,
            "variant": "paper",
            **axes,
        }
        for seed in range(10)
        for step in range(5)
        for (measure, key), value in moments.items()
    ]


def at_rest(
    rank: float, *, spread: float = 0.0, ratio: float = -1.0, least: float = 2.0, reached: float = -100.0
) -> polars.DataFrame:
    """Made-up records of the part ``rest``: a final rank, margins that spread by so much per log 1/L."""
    rows: list[dict[str, object]] = []
    for activation in ("relu", "leaky-relu"):
        for init in (1e-5, 1e-3):
            moments: dict[tuple[str, str], Callable[[int, float], float]] = {
                ("stable-rank", "hidden.weight"): lambda seed, _: rank + 0.001 * seed,
                ("steps", "log10_loss"): lambda _, t: reached * t,
                ("rank-proof", "log10_loss"): lambda _, t: (
                    reached * t**4
                ),  # one moment after the start is early
                ("rank-proof", "spread"): lambda seed, t: (
                    1 + 0.01 * seed - spread * reached * t**4 * 2.302585
                ),
                ("rank-proof", "ratio"): lambda seed, _: ratio - 0.01 * seed,
                ("rank-proof", "least"): lambda seed, _: least + 0.01 * seed,
                ("rank-proof", "residual"): lambda *_: 0.1,
                ("neuron-alignment", "rank_positive"): lambda seed, _: rank / 2 + 0.001 * seed,
                ("neuron-alignment", "rank_negative"): lambda seed, _: rank / 2 + 0.002 * seed,
            }
            rows += rows_at(moments, activation=activation, std=init, part="rest", scale="smoke")
    return polars.DataFrame(rows)


@pytest.mark.parametrize(
    ("claim", "for_it", "against"),
    [
        ("R-a.limit", {"rank": 1.5}, {"rank": 2.5}),
        ("R-a.limit-leaky", {"rank": 1.5}, {"rank": 2.5}),
        ("R-a.rest", {"rank": 1.5}, {"rank": 2.5}),
        ("R-a.rest-leaky", {"rank": 1.5}, {"rank": 2.5}),
        ("R-a.rest-one", {"rank": 1.01}, {"rank": 1.5}),
        ("R-a.halves", {"rank": 2.0}, {"rank": 2.5}),
        ("R-b", {"spread": 0.001}, {"spread": 0.1}),
        ("R-c.positive", {"least": 0.5}, {"least": -0.5}),
        ("R-c.bound", {"least": 1.5}, {"least": 0.5}),
        ("R-d.early", {"ratio": 0.5}, {"ratio": 2.0}),
        ("R-d.early-leaky", {"ratio": 0.5}, {"ratio": 2.0}),
        ("R-d.late", {"ratio": 0.5}, {"ratio": 1e100}),
        ("R-d.late-leaky", {"ratio": 0.5}, {"ratio": 1e100}),
    ],
)
def test_limits_and_conditions(claim: str, for_it: dict[str, float], against: dict[str, float]) -> None:
    assert CLAIMS[claim](at_rest(**{"rank": 1.5, **for_it})).verdict is Verdict.HOLDS
    assert CLAIMS[claim](at_rest(**{"rank": 1.5, **against})).verdict is Verdict.FAILS


def test_the_start_alone_decides_nothing_about_training() -> None:
    """Where the next reading is 25 decades further down, before 10⁻³ there is the start, which meets any inequality."""
    frame = at_rest(rank=1.5, ratio=0.5).filter(
        (polars.col("measure") != "rank-proof") | (polars.col("step") == 0)
    )
    with pytest.raises(InputError, match="nothing was read but the start"):
        CLAIMS["R-d.early"](frame)


def test_the_law_on_the_mixture() -> None:
    def frame(off: float) -> polars.DataFrame:
        value: dict[tuple[str, str], Callable[[int, float], float]] = {
            ("stable-rank", "hidden.weight"): lambda seed, _: 3.0 * (1 + off) + 0.001 * seed,
            ("neuron-alignment", "predicted"): lambda *_: 3.0,
        }
        rows = [rows_at(value, activation=each, std=1e-3) for each in ("relu", "leaky-relu")]
        return polars.DataFrame([row for own in rows for row in own])

    for claim in ("R-n.mixture", "R-n.mixture-leaky"):
        assert CLAIMS[claim](frame(0.02)).verdict is Verdict.HOLDS
        failed = CLAIMS[claim](frame(-0.2))
        assert failed.verdict is Verdict.FAILS
        assert "on average it is -19." in failed.note


def test_a_limit_needs_runs_that_came_to_rest() -> None:
    with pytest.raises(InputError, match="20 of 20 networks"):
        CLAIMS["R-a.rest"](at_rest(1.5, reached=-20.0))
    falling = at_rest(2.5).with_columns(
        polars.when(polars.col("step") < 4).then(1.1).otherwise(1.0).mul(polars.col("value")).alias("value")
    )
    found = CLAIMS["R-a.rest"](falling.filter(polars.col("measure") != "rank-proof"))
    assert found.verdict is Verdict.UNDECIDED
    assert "falling still" in found.note


def test_starts_from_variances_have_to_come_further_down() -> None:
    moments: dict[tuple[str, str], Callable[[int, float], float]] = {
        ("stable-rank", "hidden.weight"): lambda seed, _: 1.5 + 0.001 * seed,
        ("steps", "log10_loss"): lambda _, t: -10_000.0 * t,
    }
    there = {"part": "rest-trained", "scale": "laptop", "activation": "relu"}
    assert CLAIMS["R-a.limit"](polars.DataFrame(rows_at(moments, **there))).verdict is Verdict.HOLDS
    with pytest.raises(InputError, match="10 of 10 networks did not come to rest"):
        CLAIMS["R-a.limit"](polars.DataFrame(rows_at(moments, **there, variant="authors")))


@pytest.mark.parametrize(("sign", "verdict"), [(1, Verdict.HOLDS), (-1, Verdict.FAILS)])
def test_the_order_at_rest_and_the_fall_from_a_glorot_start(sign: int, verdict: Verdict) -> None:
    def rows(steep: float, **axes: object) -> list[dict[str, object]]:
        moments: dict[tuple[str, str], Callable[[int, float], float]] = {
            ("stable-rank", "hidden.weight"): lambda seed, t: 2.0 + 0.001 * seed + steep * t,
            ("steps", "log10_loss"): lambda _, t: -100.0 * t,
        }
        return rows_at(moments, **axes, part="rest-trained", scale="smoke")

    starts = [row for init in INIT_SCALES for row in rows(sign * 100 * init, activation="relu", std=init)]
    assert CLAIMS["R-a.rest-order"](polars.DataFrame(starts)).verdict is verdict
    assert CLAIMS["R-m.falls"](polars.DataFrame(rows(-sign * 1.0))).verdict is verdict


def test_a_glorot_start_without_its_neighbours_is_a_sentence() -> None:
    rank = {("stable-rank", "hidden.weight"): lambda seed, t: 60.0 + seed - t}
    gaussian = [
        {**row, "epoch": row["step"], "part": "fixed-head"}
        for init in INIT_SCALES
        for row in rows_at(rank, activation="leaky-relu", std=init)
    ]
    glorot = [{**row, "epoch": row["step"], "part": "glorot", "value": 70.0} for row in rows_at(rank)]
    together = polars.DataFrame(gaussian + glorot, infer_schema_length=None)
    assert CLAIMS["R-m.beside"](together).verdict is Verdict.HOLDS
    with pytest.raises(InputError, match="no record of the stable rank of leaky-relu networks"):
        CLAIMS["R-m.beside"](polars.DataFrame(glorot))
    with pytest.raises(InputError, match="no record of the stable rank from Frei"):
        CLAIMS["R-m.beside"](polars.DataFrame(gaussian))


def test_readings_within_an_epoch_are_drawn_over_steps() -> None:
    def shown(steps_an_epoch: int) -> tuple[str, list[float]]:
        moments = {
            ("stable-rank", "hidden.weight"): lambda seed, t: 3.0 + seed - t,
            ("stable-rank", "output.weight"): lambda *_: 1.0,
            ("accuracy", ""): lambda *_: 0.5,
            ("loss", "mean"): lambda *_: 0.1,
        }
        rows = rows_at(moments, activation="relu", std=1e-5)
        frame = polars.DataFrame(rows).with_columns(epoch=polars.col("step") // steps_an_epoch)
        figure = next(each for each in STUDY.figures if each.name == "fig4").draw(frame).to_dict()
        top = figure["vconcat"][0]
        field = top["spec"]["layer"][0]["encoding"]["x"]["field"]
        return field, sorted({row[field] for row in figure["datasets"][top["data"]["name"]]})

    assert shown(1)[0] == "epoch"
    field, steps = shown(1000)
    assert field == "step"
    assert 0 not in steps, "a logarithmic axis has no place for it"
    assert len(steps) > 1, "and not all at one epoch"


def test_the_law_is_judged_by_networks_alone() -> None:
    def networks(off: float) -> polars.DataFrame:
        rows: list[dict[str, object]] = []
        for slope in (0.0, 0.1):
            moments: dict[tuple[str, str], Callable[[int, float], float]] = {
                ("stable-rank", "hidden.weight"): lambda seed, _: 3.0 * (1 + off) + 0.001 * seed,
                ("neuron-alignment", "predicted"): lambda *_: 3.0,
            }
            rows += rows_at(moments, n=10, positive=5, width=20, slope=slope)
        return polars.DataFrame(rows)

    for claim in ("R-n.pattern", "R-n.leaky"):
        assert CLAIMS[claim](networks(0.01)).verdict is Verdict.HOLDS
        assert CLAIMS[claim](networks(0.1)).verdict is Verdict.FAILS


def test_claims_of_pictures_that_are_not_here() -> None:
    long = {("stable-rank", "hidden.weight"): lambda seed, t: 2 + 0.01 * seed + 20 * t}
    frame = polars.DataFrame([{**row, "epoch": row["step"] * 500} for row in rows_at(long, std=1e-5)])  # type: ignore[operator]
    assert CLAIMS["R-k"](frame).verdict is Verdict.HOLDS
    falling = frame.with_columns(value=50 - polars.col("value"))
    assert CLAIMS["R-k"](falling).verdict is Verdict.FAILS
    up = made_up(lambda t, seed, init: 20 - 5 * t + 1000 * init * t + 0.1 * seed)
    down = made_up(lambda t, seed, init: 20 - 5 * t - 1000 * init * t + 0.1 * seed)
    for claim in ("R-i.fashion", "R-i.fashion-leaky", "R-j", "R-j.leaky"):
        assert CLAIMS[claim](up).verdict is Verdict.HOLDS
        assert CLAIMS[claim](down).verdict is Verdict.FAILS
    for claim in ("R-e", "R-e.leaky", "R-e.table", "R-e.dlbcl", "R-e.dlbcl-leaky"):
        assert CLAIMS[claim](down).verdict is Verdict.HOLDS
        assert CLAIMS[claim](up).verdict is Verdict.FAILS
    lower = up.with_columns(
        value=polars.col("value") * (1 + 0.1 * (polars.col("activation") == "leaky-relu"))
    )
    for claim in ("R-f", "R-f.dlbcl"):
        assert CLAIMS[claim](lower).verdict is Verdict.HOLDS
        other = lower.with_columns(
            activation=polars.col("activation").replace({"relu": "leaky-relu", "leaky-relu": "relu"})
        )
        assert CLAIMS[claim](other).verdict is Verdict.FAILS
    assert CLAIMS["R-h"](up).verdict is Verdict.HOLDS
    assert CLAIMS["R-h"](lower).verdict is Verdict.FAILS
    waves = made_up(lambda t, seed, _: 10 + 0.01 * seed + np.cos(3 * np.pi * t))
    for claim in ("R-g", "R-g.leaky"):
        assert CLAIMS[claim](waves).verdict is Verdict.HOLDS
        assert CLAIMS[claim](down).verdict is Verdict.FAILS


def test_the_order_over_cosines_dimensions_and_data() -> None:
    def frame(order: Callable[[int, float], float]) -> polars.DataFrame:
        """Final ranks that follow the starts to a share ``order`` of d and cosine, and else turn around."""
        rows: list[dict[str, object]] = []
        for cosine in (0.0, 0.1, 0.3, 0.9):
            for d in (16, 200):
                for place, init in enumerate(INIT_SCALES):
                    share = order(d, cosine)
                    swapped = place if place < 5 * share else 5 - place
                    value = {("stable-rank", "hidden.weight"): lambda *_, v=swapped: 2.0 + v}
                    rows += rows_at(value, cosine=cosine, d=d, std=init)  # type: ignore[arg-type]
        return polars.DataFrame(rows)

    worse = frame(lambda _, cosine: 1 - cosine)
    assert CLAIMS["R-l.change"](worse).verdict is Verdict.HOLDS
    assert "below 0.9 from a cosine of 0.3 on" in CLAIMS["R-l.change"](worse).note
    assert "below 0.9 nowhere" in CLAIMS["R-l.change"](frame(lambda *_: 1.0)).note
    assert CLAIMS["R-l.change"](frame(lambda _, cosine: 0.1 + cosine)).verdict is Verdict.FAILS
    assert CLAIMS["R-l.dimension"](worse).verdict is Verdict.HOLDS
    assert CLAIMS["R-l.dimension"](frame(lambda d, _: float(d > 100))).verdict is Verdict.FAILS

    def data_sets(sign: dict[str, int]) -> polars.DataFrame:
        frames = [
            made_up(lambda t, seed, init, s=s: 20 + s * 1000 * init * t + 0.1 * seed).with_columns(  # type: ignore[misc]
                part=polars.lit(part)
            )
            for part, s in sign.items()
        ]
        return polars.concat(frames)

    samples = {"main": 1, "dlbcl": 1, "autism": -1, "mnist": -1}
    features = {"main": -1, "dlbcl": 1, "autism": -1, "mnist": 1}
    more = {"fashion-mnist": -1, "cifar10": -1}
    for claim, near in (
        ("R-l.data", samples),
        ("R-l.data-all", {**samples, **more}),
        ("R-l.data-cosine", samples),
        ("R-l.data-cosine-all", {**samples, "fashion-mnist": -1, "cifar10": 1}),
        ("R-l.features", features),
        ("R-l.features-all", {**features, **more}),
    ):
        assert CLAIMS[claim](data_sets(near)).verdict is Verdict.HOLDS
        assert CLAIMS[claim](data_sets({key: -s for key, s in near.items()})).verdict is Verdict.FAILS
    alike = CLAIMS["R-l.data"](data_sets(dict.fromkeys(samples, 1)))
    assert (alike.verdict, alike.effect) == (Verdict.UNDECIDED, 0.0)  # followed everywhere: no relation
    six_of_cifar = data_sets({**samples, **more}).filter(
        (polars.col("part") != "cifar10") | (polars.col("seed") < 6)
    )
    assert CLAIMS["R-l.data-all"](six_of_cifar).n == 6


def test_the_formula_is_judged_at_the_largest_width() -> None:
    def networks(rank: float) -> polars.DataFrame:
        value: dict[tuple[str, str], Callable[[int, float], float]] = {
            ("stable-rank", "hidden.weight"): lambda seed, _: rank + 0.001 * seed,
            ("neuron-alignment", "predicted"): lambda *_: 3.0,
        }
        rows = rows_at(value, n=10, positive=5, width=100, slope=0.0)
        return polars.DataFrame([*rows, *rows_at(value, n=10, positive=5, width=20, slope=0.0)])

    assert CLAIMS["R-n.average"](networks(20 / 6)).verdict is Verdict.HOLDS
    assert CLAIMS["R-n.average"](networks(2.0)).verdict is Verdict.FAILS


@pytest.mark.parametrize(
    ("curve", "found"),
    [
        ([5, 4, 3, 4, 5, 4], True),
        ([5, 4, 3, 4, 5], False),
        ([3, 4, 5, 4], False),
        ([5, 4.99, 5, 4.99], False),
        ([3, 4, 3, 4, 3], True),
    ],
)
def test_down_up_down(curve: list[float], found: bool) -> None:
    for units in (1e-9, 1.0, 1e9):
        assert down_up_down(np.array(curve) * units) is found
