"""The margin study: every claim holds in one made-up world and fails in another; some parts are run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import polars
import pytest

from undertow.config.grid import StudyConfig
from undertow.core.errors import InputError
from undertow.core.validation import validate
from undertow.execution.engines.here import Here
from undertow.execution.sweep import sweep
from undertow.store.store import Store
from undertow.studies.kit.claim import Claim, Verdict
from undertow.studies.kit.made_up import faults
from undertow.studies.margin import STUDY
from undertow.studies.margin.table.claims import radii_of_models

GRIDS = {grid.part: grid for grid in STUDY.grids("smoke", "paper")}
Values = dict[tuple[str, str], float]
_DISORDER = ((2.0, 3.0), (3.0, 1.0), (1.0, 2.0))
"""Margin and radius in the thirds of training, lower at the end than at the start and in opposite orders."""


def world(good: bool) -> Callable[[str, dict[str, Any], float], Values]:
    """Numbers of one network at a moment from 0 to 1, as theory has them, or as it has them not."""

    def values(part: str, axes: dict[str, Any], time: float) -> Values:
        seed, std = axes["seed"], axes.get("std", 0.1)
        order = int(part[-1]) if part.startswith("rates-") else 3 if part == "deep-linear" else 2
        log_time = 5.0 * 40**time  # from 5 to 200
        exponent = 2 - 2 / order if good else 5.0
        lost = log_time + exponent * math.log(log_time)
        if part.startswith("slab"):
            lost = -0.3 + 1.2 * 10 * time**3
        level, third = -8 - 14 * time, _DISORDER[min(int(3 * time), 2)]
        rising = math.log(lost + 3) if good else 1 / (1 + time)
        wobble = 1 + 0.001 * seed
        smoothed = 0.1 * rising * wobble
        norm = math.exp(math.log(log_time) / order) if good else math.exp(2 * math.log(log_time) / order)
        start = {"log10-loss": -lost / math.log(10), "order": float(order), "norm": norm}
        margin = (-level if "table" in part else 20 / std) ** (1 if good else -1)
        if part == "table" and not good:
            margin = third[0]
        if part.startswith("slab"):
            margin = 1 + (std if good else -0.5 * (std > 0.5))
        normalised = margin * wobble if part in ("table", "starts") or part.startswith("slab") else smoothed
        if part == "mixed":
            normalised = (1 + axes["share"]) ** (-1 if good else 1)
        if part.startswith("clusters"):
            normalised = 2.0 if good else 0.01
        if part == "adversarial":
            normalised = 0.001 if good else 1e6
        if part.startswith("rule"):
            normalised = (1.0 if (part == "rule-loss-based") == good else 0.1) * (1 + time)
        if part in ("monotone", "stationary", "deep-linear", "biased", *(f"rates-{i}" for i in range(1, 5))):
            gap = 0.5 if good else 3.0
            normalised = smoothed + gap * math.log(axes.get("n", 10)) / norm**order
        if part == "biased":
            start["norm"] = lost**0.4 if good else lost * (2 + math.sin(9 * time))
        shallow = axes["learning_rate"] ** 2 if part == "monotone" else 0.0
        found: Values = {("margins", key): value for key, value in start.items()}
        found |= {
            ("margins", "smoothed"): smoothed,
            ("margins", "normalised"): normalised,
            ("margins", "by-layers"): normalised,
            ("steps", "log_time"): log_time,
            ("steps", "log10_loss"): level if part in ("table", "longest") else start["log10-loss"],
            ("coordinate-margin", "normalised"): 3.0 if good else 0.1,
            ("hard-margin", "angle"): 1 / log_time if good else 0.2 * log_time**0.1,
            ("hard-margin", "duals"): (1e-3 if good else 0.5) * wobble,
            ("margin-falls", "total"): 0.0 if good else 0.1 * wobble,
            ("margin-falls", "deepest"): shallow if good else 0.1 * wobble,
            ("margin-falls", "count"): 7.0,
            ("direction", "since-start"): 1.0 + time,
            ("direction", "since-last"): (0.05 / (1 + 9 * time) if good else 5.0 * 3**time) * (time > 0),
            ("accuracy", ""): 0.9 - 0.4 * axes.get("share", std),
            ("feature-coefficients", "aligned"): 0.99 if good else 0.1,
            ("feature-coefficients", "cross_share"): 0.1,
            ("linear-likeness", "linearity"): 0.99 if good else 0.5,
            ("margin-basin", "back"): 1.0 * wobble if good else 0.1,
        }
        residual = (0.5 * 0.01**time * 0.5 if good else 0.1 + 0.3 * time) * wobble
        if part == "lazy":
            residual = 0.9 if good else 0.1
        if part.startswith("clusters"):
            residual = 0.05 if good else 0.5
        found |= {
            ("kkt", "residual"): residual,
            ("kkt", "slackness"): residual,
            ("kkt", "misalignment"): residual,
        }
        for power in (-1, -3, -10, -30, -100):
            found["l2-path", f"angle@1e{power}"] = 1 / abs(power) if good else 0.2 * abs(power) ** 0.1
        radius = 0.1 * (2 + time) if good else 0.9 / (1 + time) * (0.3 if axes.get("k") == 2 else 1.0)
        if part == "robust":
            radius = 0.8
        if part == "adversarial":
            radius = 10.0 if good else 0.01
        if "table" in part:
            radius = (-level) ** 0.1 if good else third[1]
        for i in range(3):
            found |= {
                ("point-radii", f"exact:{i}"): radius * wobble,
                ("point-radii", f"attacked:{i}"): radius * wobble,
                ("point-radii", f"half:{i}"): 10.0 if good else 0.1,
                ("point-radii", f"product:{i}"): 0.01 if good else 5.0,
                ("point-radii", f"ball:{i}"): 0.02 if good else 5.0,
                ("point-radii", f"margin:{i}"): 1.0,
            }
        return found

    return values


def made_up(grid: StudyConfig, values: Callable[[str, dict[str, Any], float], Values]) -> polars.DataFrame:
    names = [*grid.probe.names, "steps"]
    rows: Iterator[dict[str, Any]] = (
        {
            "trial": point.trial.id,
            "part": grid.part,
            "measure": name,
            "key": key,
            **{name: value for name, value in point.columns.items() if not isinstance(value, list)},
            "step": moment,
            "epoch": (moment + 1) // 2,
            "value": value,
        }
        for point in grid.points
        for moment in range(25)
        for (measure, key), value in values(grid.part, point.columns, moment / 24).items()
        for name in names
        if measure == name.split("@")[0]
    )
    return polars.DataFrame(list(rows), infer_schema_length=None)


@cache
def frame_of(part: str, good: bool) -> polars.DataFrame:
    return made_up(GRIDS[part], world(good))


def judged(claim: Claim, good: bool) -> Verdict:
    frame = polars.concat([frame_of(part, good) for part in claim.parts], how="diagonal_relaxed")
    return claim.test(frame).verdict


@pytest.mark.parametrize("claim", STUDY.claims, ids=lambda claim: claim.id)
def test_a_claim_holds_in_one_world_and_fails_in_the_other(claim: Claim) -> None:
    assert judged(claim, True) == Verdict.HOLDS
    assert judged(claim, False) == Verdict.FAILS


@pytest.mark.parametrize("claim", STUDY.claims, ids=lambda claim: claim.id)
def test_nothing_is_decided_where_half_of_the_seeds_are_of_either_world(claim: Claim) -> None:
    seed = polars.col("seed")
    halves = [
        frame_of(part, good).filter(seed % 2 == 0 if good else seed % 2 == 1)
        for part in claim.parts
        for good in (True, False)
    ]
    assert claim.test(polars.concat(halves, how="diagonal_relaxed")).verdict is Verdict.UNDECIDED


def test_the_study_names_what_it_has() -> None:
    assert faults(STUDY) == []


@pytest.mark.parametrize(
    "figure",
    [figure for figure in STUDY.figures if set(figure.parts) <= set(GRIDS)],
    ids=lambda figure: figure.name,
)
def test_figures_are_drawn_from_made_up_records(figure: Any) -> None:
    frame = polars.concat([frame_of(part, True) for part in figure.parts], how="diagonal_relaxed")
    if figure.name == "svm-plane":
        with pytest.raises(InputError):
            figure.draw(frame)  # no coordinates in these records; the run below has them
    else:
        assert figure.draw(frame).to_dict()


def drawn(name: str, frame: polars.DataFrame) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A figure's picture, and the rows that it draws."""
    picture = next(each for each in STUDY.figures if each.name == name).draw(frame).to_dict()
    (rows,) = picture["datasets"].values()
    return picture, rows


@pytest.mark.parametrize(("name", "law"), [("svm-angle", "c/log t"), ("l2-path", "c/log(1/λ)")])
def test_theory_is_dashed_and_counts_as_no_seed_of_its_own(name: str, law: str) -> None:
    picture, rows = drawn(name, frame_of("svm", True))
    line = picture["layer"][1]["encoding"]["strokeDash"]["scale"]
    dashes = dict(zip(line["domain"], line["range"], strict=True))
    assert dashes.pop(law) != [1, 0]
    assert set(map(tuple, dashes.values())) == {(1, 0)}
    seeds = len(set(frame_of("svm", True)["seed"]))
    assert f"mean of {seeds} seeds" in str(picture["title"])
    points = [row for row in rows if row["kind"] == law]
    fallen = [row["fallen"] * row["mean"] for row in points]
    assert fallen == pytest.approx([fallen[0]] * len(points))


def test_no_mean_is_of_those_seeds_that_are_left() -> None:
    whole = frame_of("slab-margin", True)
    ends = 10 + polars.col("seed") + (100 * polars.col("std")).cast(polars.Int64) % 7
    _, left = drawn("slab-linearity", whole.filter(polars.col("step") <= ends))
    assert len({row["seeds"] for row in left}) == 1
    for std, end in whole.select("std", ends.min().over("std").alias("end")).unique().iter_rows():
        assert max(row["step"] for row in left if float(row["std"]) == std) == end


def test_slopes_are_of_the_normalised_network_beside_its_margins() -> None:
    readings = []
    # Twice as long with L = 2 the margins would be four times as large by that alone: they are six times as large.
    for step, loss, norm, margin, radius in ((5, -10.0, 3.0, 0.9, 0.3), (90, -100.0, 6.0, 5.4, 0.36)):
        own = {"margin:0": margin, "attacked:0": 2 * radius, "half:0": 1.0, "product:0": radius}
        points = [(measure, *each) for measure in ("point-radii", "point-radii@test") for each in own.items()]
        about = [("margins", "norm", norm), ("margins", "order", 2.0), ("steps", "log10_loss", loss)]
        readings += [("a", "table", 0, step, step, *each) for each in (*points, *about)]
    names = ["trial", "part", "seed", "step", "epoch", "measure", "key", "value"]
    _, rows = drawn("bound-apart", polars.DataFrame(readings, schema=names, orient="row"))
    for panel in ("training points", "test points"):
        last = {row["curve"]: row["mean"] for row in rows if row["panel"] == panel and row["fallen"] == 100}
        assert last == pytest.approx({"margin q/ρ^L": 1.5, "β, layers' norms": 1.25, "radius": 1.2})


def test_networks_at_two_losses_are_not_called_the_table_s_first_two_models() -> None:
    shares = [
        (name, eps, 0.5) for name in ("robust-accuracy", "robust-accuracy@test") for eps in ("0.1", "0.2")
    ]
    rows = [
        (f"{seed}", "carlini", seed, step, step, *reading)
        for seed in (0, 1)
        for step, loss in ((5, -10.4), (90, -100.4))
        for reading in [("steps", "log10_loss", loss), *shares]
    ]
    names = ["trial", "part", "seed", "step", "epoch", "measure", "key", "value"]
    frame = polars.DataFrame(rows, schema=names, orient="row")
    _, curves = drawn("robust-curves-cw", frame)
    assert {row["name"] for row in curves} == {"10^-10", "10^-100"}


def test_decreases_are_judged_where_steps_vanish_and_not_where_they_are_long() -> None:
    """Totals that go to 0 with η hold, totals that keep their size fail, whatever long steps do."""
    claim = next(claim for claim in STUDY.claims if claim.id == "M-c")
    found = {}
    for name, total in {"vanish": lambda eta: 5 * eta, "stay": lambda eta: 2e-4 + 0 * eta}.items():
        rows = [
            {
                "trial": f"{seed}{eta}",
                "seed": seed,
                "learning_rate": eta,
                "step": 9,
                "measure": "margin-falls",
                "key": key,
            }
            | {"value": total(eta) if eta < 0.1 else 3.0}
            for seed in range(10)
            for eta in (0.01, 0.02, 0.05, 0.2)
            for key in ("total", "count")
        ]
        found[name] = claim.test(polars.DataFrame(rows))
    assert found["vanish"].verdict == Verdict.HOLDS
    assert found["stay"].verdict == Verdict.FAILS
    assert found["stay"].effect == pytest.approx(2e-4)


def test_printed_numbers_are_found_where_a_network_was_trained_so_far() -> None:
    frame = polars.concat([frame_of(part, True) for part in ("table", "longest")], how="diagonal_relaxed")
    first = next(
        number for number in STUDY.published if number.what.startswith("normalised margin of model-1")
    )
    assert len(first.ours(frame)) == len(GRIDS["table"].points)
    last = next(number for number in STUDY.published if "model-5" in number.what)
    with pytest.raises(InputError, match="no network was trained"):
        last.ours(frame)


def readings(levels: list[float], part: str = "longest") -> list[dict[str, Any]]:
    """One network looked at at these losses, its margin a millionth and its epoch eight times the depth."""
    about = [
        {"trial": part, "part": part, "seed": 0, "step": i, "epoch": int(8 * e)} for i, e in enumerate(levels)
    ]
    return [
        {**row, "measure": measure, "key": key, "value": value}
        for row, level in zip(about, levels, strict=True)
        for measure, key, value in (("steps", "log10_loss", -level), ("margins", "normalised", 1e-6 * level))
    ]


def test_a_printed_number_stands_beside_the_reading_nearest_to_its_loss() -> None:
    """Not beside a mean of readings around it, nor beside a network that stopped short of it."""
    tens = [10.2, 20.1, *map(float, range(30, 120, 10)), 119.4, 120.1]
    numbers = {number.what: number for number in STUDY.published}
    model_4 = numbers["normalised margin of model-4, by ρ^L"]
    assert model_4.ours(polars.DataFrame(readings(tens))) == pytest.approx([120.1e-6])
    assert numbers["epochs of model-4"].ours(polars.DataFrame(readings(tens))) == [960.0]
    with pytest.raises(InputError, match=r"10\^-120.01"):
        model_4.ours(polars.DataFrame(readings(tens[:-2])))  # as far as 10^-110
    first = numbers["normalised margin of model-1, by ρ^L"]
    both = readings([10.1, 15.2], "table") + readings(tens)
    assert first.ours(polars.DataFrame(both)) == pytest.approx([10.15e-6])  # the nearest of each network


def rules(constant: Callable[[int], tuple[float, float]]) -> polars.DataFrame:
    """Ten seeds by both rules: log₁₀ 𝓛 and γ̄ by epoch, the loss-based one's fitted from epoch 10 on."""
    both = {"rule-loss-based": lambda epoch: (5.0 - epoch, 0.1 * epoch), "rule-constant": constant}
    rows = [
        {
            "trial": f"{part}{seed}",
            "part": part,
            "seed": seed,
            "step": epoch,
            "epoch": epoch,
            "measure": "margins",
        }
        | {"key": key, "value": value}
        for seed in range(10)
        for part, numbers in both.items()
        for epoch in (0, 10, 20, 40)
        for key, value in zip(("log10-loss", "normalised"), numbers(epoch), strict=True)
    ]
    return polars.DataFrame(rows)


def test_a_network_that_has_not_fitted_says_nothing_about_how_fast_its_margin_grows() -> None:
    claim = next(claim for claim in STUDY.claims if claim.id == "M-j")
    with pytest.raises(InputError, match="train longer"):
        claim.test(rules(lambda epoch: (1.0, -0.5 - epoch)))
    # From epoch 20 on: 20 epochs, in which the other margin grows by 2, whatever stood before t0.
    late = claim.test(rules(lambda epoch: (1.0, -9.0) if epoch < 20 else (-1.0, 3.0 + 0.01 * (epoch - 20))))
    assert late.verdict == Verdict.HOLDS
    assert late.effect == pytest.approx((2.0 - 0.2) / 2.0)
    as_fast = claim.test(rules(lambda epoch: (5.0 - epoch, 7.0 + 0.1 * epoch)))
    assert as_fast.verdict == Verdict.FAILS


def radii(part: str, measure: str, models: int, points: int) -> list[dict[str, Any]]:
    """Rows of one seed: every model's radius is its number, what is proved a tenth of it."""
    rows = []
    for model in range(1, models + 1):
        about = {"trial": part, "part": part, "seed": 0, "step": model, "epoch": model}
        rows.append({**about, "measure": "steps", "key": "log10_loss", "value": -10.0 * model})
        for i in range(points):
            sides = {"attacked": model + i, "product": model / 10, "margin": 1.0, "half": 9.0}
            rows += [
                {**about, "measure": measure, "key": f"{side}:{i}", "value": float(value)}
                for side, value in sides.items()
            ]
    return rows


def test_the_longest_training_gives_the_models_after_the_table_s() -> None:
    rows = radii("table", "point-radii", 3, 2) + radii("longest", "point-radii", 5, 2)
    found = radii_of_models(polars.DataFrame(rows), "point-radii")
    assert found["model"].to_list() == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert found["fallen"].unique().sort().to_list() == [10.0, 20.0, 30.0, 40.0, 50.0]
    alone = radii_of_models(polars.DataFrame(radii("longest", "point-radii", 5, 2)), "point-radii")
    assert alone.equals(found)


def test_linear_networks_turn_to_the_machine_and_narrow_ones_have_radii(tmp_path: Path) -> None:
    """Two parts as they are, on two seeds: what measures write is what claims and figures read."""
    store = Store(tmp_path)
    for part in ("svm", "orthogonal-fixed", "robust"):
        settings = STUDY.settings("smoke", "paper", parts=[part])[part]
        small = validate(StudyConfig, {**settings, "grid": {**settings["grid"], "seed": [0, 1]}})
        assert sweep(store, small, engine=Here()).complete
    frame = store.frame()
    for claim in STUDY.claims:
        if set(claim.parts) <= {"svm", "orthogonal-fixed"}:
            finding = claim.test(frame.filter(polars.col("part").is_in(claim.parts)))
            assert finding.n == 2, claim.id
            assert finding.effect is not None, claim.id
    plane = next(figure for figure in STUDY.figures if figure.name == "svm-plane")
    assert plane.draw(frame.filter(polars.col("part") == "svm")).to_dict()
    angles = frame.filter(polars.col("measure") == "hard-margin", polars.col("key") == "angle")
    ends = (
        angles.sort("step")
        .group_by("trial")
        .agg(polars.col("value").first().alias("a"), polars.col("value").last().alias("b"))
    )
    assert (ends["b"] < ends["a"]).all()
