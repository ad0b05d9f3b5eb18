"""The feature-averaging study's other rows: claims on made-up records with known answers, and small runs of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import polars
import pytest
import torch

from undertow.config.grid import StudyConfig
from undertow.config.trial import validate
from undertow.core.errors import InputError
from undertow.data.dataset import Dataset
from undertow.data.tasks import relabel
from undertow.execution.engines.here import Here
from undertow.execution.sweep import sweep
from undertow.store.store import Store
from undertow.studies import find
from undertow.studies.feature_averaging.images.figures import FIGURES as IMAGES
from undertow.studies.feature_averaging.images.parts import PARTS as IMAGE_PARTS
from undertow.studies.feature_averaging.li2022.parts import PARTS as LI2022_PARTS
from undertow.studies.kit.claim import Claim, Verdict
from undertow.studies.kit.readings import after_training
from undertow.studies.kit.statements import Figure
from undertow.studies.kit.study import SCALES, Part

STUDY = find("feature-averaging")
TOPICS = ("min_vidal", "kkt", "simplicity", "manifold", "li2022", "images", "frozen_features")
SEEDS = range(10)


def claim(name: str) -> Claim:
    return next(each for each in STUDY.claims if each.id == name)


def parts_of(topic: str) -> dict[str, Part]:
    parts: dict[str, Part] = import_module(f"{STUDY.home}.{topic}.parts").PARTS
    return parts


def figures_of(topic: str) -> list[Figure]:
    return list(import_module(f"{STUDY.home}.{topic}.figures").FIGURES)


def claims_of(topic: str) -> list[Claim]:
    return list(import_module(f"{STUDY.home}.{topic}.claims").CLAIMS)


def records(measure: str, rows: Iterable[dict[str, Any]], **columns: Any) -> polars.DataFrame:
    """Records at the end of training, one trial for each set of grid values."""
    tidy = [{"measure": measure, "step": 100, **columns, **row} for row in rows]
    frame = polars.DataFrame(tidy)
    grid = [name for name in frame.columns if name not in ("measure", "step", "key", "value")]
    return frame.with_columns(trial=polars.concat_str(grid, separator="/"))


def distances(averaged: float, decoupled: float, *, farther: float = 0.0) -> polars.DataFrame:
    """Distances to both targets, ``farther`` for the larger noise of the highest power."""
    return records(
        "feature-distance",
        (
            {"power": power, "sigma": sigma, "seed": seed, "key": f"{target}:{side}", "value": value}
            for power in (1.0, 3.0, 4.0)
            for sigma in (0.01, 0.1)
            for seed in SEEDS
            for target, near in (("averaged", averaged), ("decoupled", decoupled))
            for relative in [near + 0.001 * seed + farther * (power == 4 and sigma == 0.1)]
            for side, value in (("lower", relative), ("upper", 2.0 * relative), ("relative", relative))
        ),
    )


def test_min_vidal_is_about_the_target_of_its_power() -> None:
    near = distances(averaged=0.1, decoupled=0.9)
    assert claim("F-o").test(near).verdict is Verdict.HOLDS
    assert claim("F-o").test(near).effect == pytest.approx(0.1045)
    assert "proved is no more than 0.22" in claim("F-o").test(near).note
    assert claim("F-p").test(near).verdict is Verdict.FAILS
    assert claim("F-p").test(distances(0.9, 0.1)).verdict is Verdict.HOLDS
    one = distances(0.1, 0.1, farther=0.5)  # one power at one noise is enough against it
    assert claim("F-o").test(one).verdict is Verdict.HOLDS
    assert claim("F-p").test(one).verdict is Verdict.FAILS
    assert "p = 3, 4;" in claim("F-p").test(one).note
    with pytest.raises(InputError, match="no record"):
        claim("F-o").test(near.with_columns(measure=polars.lit("loss")))


@pytest.mark.parametrize(("gain", "verdict"), [(0.3, Verdict.HOLDS), (-0.3, Verdict.FAILS)])
def test_more_robust_with_a_higher_power(gain: float, verdict: Verdict) -> None:
    frame = records(
        "robust-accuracy",
        (
            {
                "power": p,
                "sigma": 0.1,
                "seed": s,
                "key": key,
                "value": 0.4 + (gain if p == 3 else 0.0) + 0.01 * s * p,
            }
            for p in (1.0, 3.0)
            for s in SEEDS
            for key in ("0.1", "0.5")
        ),
    )
    assert claim("F-p.robust").test(frame).verdict is verdict


def kkt_records(residual: float, slope: float, survive: float, *, margin: float = 1.0) -> polars.DataFrame:
    rows = []
    for seed in SEEDS:
        for step in (0, 1, 10, 20, 40, 100):
            value = residual + slope * step / 100 + 0.001 * seed
            rows += [
                {"seed": seed, "step": step, "key": k, "value": value} for k in ("residual", "slackness")
            ]
            rows.append({"seed": seed, "step": step, "key": "misalignment", "value": value})
            rows.append({"seed": seed, "step": step, "key": "margin", "value": margin})
    network = [
        {"seed": seed, "key": key, "value": value + 0.001 * seed}
        for seed in SEEDS
        for key, value in (("likeness", 0.9), ("universal@2.0", survive))
    ]
    both = [records("kkt", rows), records("kkt-network", network)]
    return polars.concat([each.select(sorted(each.columns)) for each in both])


def test_kkt_claims() -> None:
    good, bad = kkt_records(0.2, -0.1, 0.0), kkt_records(0.2, 0.4, 0.9)
    wanted = {"F-q.kkt": 0.1045, "F-q.trend": -1.0, "F-q.fragile": 0.0045}
    for name, effect in wanted.items():
        found = claim(name).test(good)
        assert found.verdict is Verdict.HOLDS, name
        assert found.effect == pytest.approx(effect)
        assert claim(name).test(bad).verdict is Verdict.FAILS, name


def test_the_trend_is_that_of_the_later_training() -> None:
    early = (polars.col("key") == "residual") & (polars.col("step") == 1)
    frame = kkt_records(0.2, -0.1, 0.0).with_columns(value=polars.when(early).then(0.0).otherwise("value"))
    assert claim("F-q.trend").test(frame).effect == pytest.approx(-1.0)


def test_every_trial_ends_at_its_own_last_step() -> None:
    short = records("accuracy", [{"seed": 0, "key": "", "value": 1.0}])
    long = records("accuracy", [{"seed": 1, "step": step, "key": "", "value": 2.0} for step in (100, 400)])
    last = after_training(polars.concat([short, long.select(short.columns)]), "accuracy")
    assert last.sort("seed")["step"].to_list() == [100, 400]


def test_networks_that_misclassify_a_point_are_no_kkt_points() -> None:
    wrong = kkt_records(0.2, -0.1, 0.0, margin=-0.1)
    for name in ("F-q.kkt", "F-q.fragile"):
        with pytest.raises(InputError, match="10 of 10 networks misclassify"):
            claim(name).test(wrong)


def slab_records(simple: float, complex_: float, *, none: float = 1.0) -> polars.DataFrame:
    return records(
        "randomised-features",
        (
            {"std": std, "seed": seed, "key": key, "value": value + 0.001 * seed * (key != "none")}
            for std in (0.01, 0.2)
            for seed in SEEDS
            for key, value in (("none", none), ("simple", simple), ("complex", complex_))
        ),
    )


def test_slab_claims() -> None:
    frame = slab_records(simple=0.5, complex_=0.99)
    assert claim("F-t.complex").test(frame).verdict is Verdict.HOLDS
    assert claim("F-t.simple").test(frame).verdict is Verdict.HOLDS
    other = slab_records(simple=0.9, complex_=0.6)
    assert claim("F-t.complex").test(other).verdict is Verdict.FAILS
    assert claim("F-t.simple").test(other).verdict is Verdict.FAILS


def test_networks_that_learned_nothing_do_not_show_what_is_learned() -> None:
    chance = slab_records(simple=0.5, complex_=0.5, none=0.5)
    for name in ("F-t.complex", "F-t.simple"):
        with pytest.raises(InputError, match="20 of 20 networks have not learned"):
            claim(name).test(chance)


def test_one_start_that_uses_the_slabs_is_enough_against_the_bias() -> None:
    usual = slab_records(simple=0.5, complex_=0.99)
    other = slab_records(simple=0.9, complex_=0.6)
    for name, low, high in (("F-t.complex", usual, other), ("F-t.simple", other, usual)):
        mixed = polars.concat([low.filter(polars.col("std") == 0.01), high.filter(polars.col("std") == 0.2)])
        assert claim(name).test(mixed).verdict is Verdict.FAILS, name


def likeness(linearity: float, accuracy: float = 0.9) -> polars.DataFrame:
    rows = [
        {"seed": seed, "step": step, "key": key, "value": value}
        for seed in SEEDS
        for step, now, right in ((1, 1.0, 0.5), (10, linearity + 0.001 * seed, accuracy), (100, 0.4, 0.99))
        for key, value in (
            ("agree", 0.9),
            ("linearity", now),
            ("accuracy", right),
            ("linear_accuracy", 0.9),
        )
    ]
    return records("linear-likeness", rows, data_name="digits")


def test_early_is_when_the_linear_models_accuracy_is_reached() -> None:
    early = claim("F-t.early").test
    assert early(likeness(0.98)).verdict is Verdict.HOLDS
    assert early(likeness(0.98)).effect == pytest.approx(0.9845)
    assert early(likeness(0.5)).verdict is Verdict.FAILS
    # Reached only at the end, where the network is not linear any more.
    assert early(likeness(0.98, accuracy=0.7)).effect == pytest.approx(0.4)


def splits(off: float) -> polars.DataFrame:
    rows = [
        {"seed": seed, "key": key, "value": value}
        for seed in SEEDS
        for key, value in (
            ("off", off + 0.001 * seed),
            ("chance", 0.7),
            ("data", 0.2),
            ("off_local", off + 0.001 * seed),
            ("chance_local", 0.7),
            ("stretch", 1.5),
        )
    ]
    he = records("off-manifold", rows, std=0.1)
    tiny = records(
        "off-manifold", [{**row, "value": 0.0} if row["key"] == "off" else row for row in rows], std=1e-4
    )
    return polars.concat([tiny, he])


def test_manifold_claims_are_judged_against_a_random_direction() -> None:
    """59 % of a perturbation off a plane is more than half, and far less than the 70 % of a random direction."""
    beyond, below = splits(0.8), splits(0.59)
    assert claim("F-r.he").test(beyond).verdict is Verdict.HOLDS
    assert claim("F-r.he").test(beyond).effect == pytest.approx(0.1, abs=0.005)
    assert claim("F-r.he").test(below).verdict is Verdict.FAILS
    assert claim("F-r.tiny").test(beyond).verdict is Verdict.FAILS  # its share is 0
    on_digits = [
        each.filter(polars.col("std") == 0.1).drop("std").with_columns(data_name=polars.lit("digits"))
        for each in (beyond, below)
    ]
    for name in ("F-r.pca-chance", "F-r.local-chance"):
        assert claim(name).test(on_digits[0]).verdict is Verdict.HOLDS
        assert claim(name).test(on_digits[1]).verdict is Verdict.FAILS
        assert "random direction (0.7)" in claim(name).test(on_digits[1]).note
    leaving = claim("F-r.pca-data")
    assert [leaving.test(each).verdict for each in on_digits] == [Verdict.HOLDS] * 2
    assert "random direction" in str(leaving.check)


def test_li2022_claims() -> None:
    def frame(linear: float, nearest: float) -> polars.DataFrame:
        clean = [{"part": p, "seed": s, "key": "", "value": 1.0} for p in LI2022_PARTS for s in SEEDS]
        robust = [
            {"part": part, "seed": seed, "key": "0.5", "value": value}
            for part, value in (("li2022-linear", linear), ("li2022-nearest", nearest), ("li2022-relu", 0.0))
            for seed in SEEDS
        ]
        return polars.concat([records("accuracy", clean), records("robust-accuracy", robust)])

    assert claim("F-s.linear").test(frame(0.0, 1.0)).verdict is Verdict.HOLDS
    assert claim("F-s.robust").test(frame(0.0, 1.0)).verdict is Verdict.HOLDS
    assert claim("F-s.linear").test(frame(0.5, 1.0)).verdict is Verdict.FAILS
    assert claim("F-s.robust").test(frame(0.0, 0.5)).verdict is Verdict.FAILS


def test_a_seed_without_clean_accuracy_is_not_left_out() -> None:
    rows = [{"part": "li2022-linear", "seed": seed, "key": "", "value": 1.0} for seed in SEEDS]
    robust = [{**row, "key": "0.5", "value": 0.0} for row in rows]
    frame = polars.concat([records("accuracy", rows[1:]), records("robust-accuracy", robust)])
    found = claim("F-s.linear").test(frame)
    assert (found.verdict, found.n) == (Verdict.UNDECIDED, 10)
    assert "1 of 10 seeds have no such number" in found.note


def supervision(gains: dict[str, float]) -> polars.DataFrame:
    ways = ("sum:gradient", "sum:pgd", "sum:autoattack", "max:gradient", "native")
    rows = []
    for part in ("images-two", "images-ten"):
        for how in ways:
            if part == "images-two" and how == "max:gradient":
                continue
            for seed in SEEDS:
                gain = gains[how] if part == "images-ten" else 0.0
                radii = {"native": (0.5, 1.0), "sum:autoattack": (0.5,)}.get(how, (0.0, 0.5, 1.0))
                rows += [
                    {
                        "part": part,
                        "seed": seed,
                        "key": f"{how}@{eps}",
                        "value": 0.5 + gain * (eps > 0) + 0.001 * seed,
                    }
                    for eps in radii
                ]
    return records("supervision", rows, data_name="digits")


def test_the_attack_decides_the_verdict_on_ten_classes() -> None:
    gains = {
        "sum:gradient": -0.2,
        "sum:pgd": -0.1,
        "sum:autoattack": -0.2,
        "max:gradient": 0.1,
        "native": 0.2,
    }
    frame = supervision(gains)
    keys = {
        "readout": "sum:gradient",
        "pgd": "sum:pgd",
        "autoattack": "sum:autoattack",
        "argmax": "max:gradient",
    }
    for way, how in {**keys, "native": "native"}.items():
        found = claim(f"F-n.{way}").test(frame)
        # The area of a gain that is 0 at ε = 0 and the same from 0.5 to 1; all of AutoAttack ran at 0.5 alone.
        share = 1.0 if way == "autoattack" else 0.75
        assert found.effect == pytest.approx(share * gains[how]), way
        assert found.verdict is (Verdict.HOLDS if gains[how] > 0 else Verdict.FAILS)
        assert "on digits" in found.note


def test_an_area_needs_every_radius_of_both_kinds_of_networks() -> None:
    ways = ("sum:gradient", "sum:pgd", "sum:autoattack", "max:gradient", "native")
    frame = supervision(dict.fromkeys(ways, 0.1))
    ten, one = polars.col("part") == "images-ten", polars.col("seed") == 3
    for how, way in (("max:gradient", "argmax"), ("sum:pgd", "pgd"), ("native", "native")):
        lost = ten & one & (polars.col("key") == f"{how}@1.0")
        with pytest.raises(InputError, match=f"{how} has records of one kind"):
            claim(f"F-n.{way}").test(frame.filter(~lost))
    attacked = polars.col("key").str.starts_with(
        "native@"
    )  # before any attack there is no evidence on the attack
    with pytest.raises(InputError, match="no record of native: not every scale"):
        claim("F-n.native").test(frame.filter(~attacked))


def test_what_is_claimed_of_all_of_autoattack_is_measured() -> None:
    for figure in IMAGES:
        claimed = any("autoattack" in each.id for each in STUDY.claims if each.parts == figure.parts)
        for part in figure.parts:
            settings = IMAGE_PARTS[part]("paper", "paper")
            assert settings is not None
            (measure,) = settings["probe"]["measures"]
            assert bool(measure.get("square")) is claimed, part


def heat(
    two: tuple[float, float],
    ten: tuple[float, float],
    *,
    of: str = "digits",
    positive: Sequence[bool] = (False, True) * 5,
) -> polars.DataFrame:
    rows = []
    for neuron in range(30):
        for feature in range(10):
            own = (neuron < 15) == positive[feature]
            rows.append(
                {"part": "features-two", "key": f"{neuron}:{feature}", "value": two[0] if own else two[1]}
            )
            own = neuron // 3 == feature
            rows.append(
                {"part": "features-ten", "key": f"{neuron}:{feature}", "value": ten[0] if own else ten[1]}
            )
    rows.append({"part": "features-two", "key": "own_mean", "value": 9.0})
    several = [{**row, "seed": seed, "centred": c} for row in rows for seed in SEEDS for c in (False, True)]
    return records("feature-cosines", several, of=of)


def test_heat_map_claims() -> None:
    frame = heat((0.4, 0.0), (0.9, 0.1))
    for name in ("F-m.blocks", "F-m.diagonal", "F-m.blocks.centred", "F-m.diagonal.centred"):
        assert claim(name).test(frame).verdict is Verdict.HOLDS, name
    assert claim("F-m.blocks").test(frame).effect == pytest.approx(0.4)
    frame = heat((0.0, 0.4), (0.1, 0.9))
    for name in ("F-m.blocks", "F-m.diagonal"):
        assert claim(name).test(frame).verdict is Verdict.FAILS, name
    # One class that the positive side does not follow is enough against two blocks.
    alone = (polars.col("part") == "features-two") & polars.col("key").str.contains(r"^(\d|1[0-4]):1$")
    frame = heat((0.4, 0.0), (0.9, 0.1)).with_columns(value=polars.when(alone).then(-0.1).otherwise("value"))
    assert claim("F-m.blocks").test(frame).effect == pytest.approx(-0.1)
    dead = heat((0.0, 0.0), (0.0, 0.0))  # the same cosine with every class is a diagonal of none
    assert claim("F-m.diagonal").test(dead).effect == 0.0


def test_heat_maps_know_which_classes_are_positive() -> None:
    """As the tasks label them: odd digits, and the last five classes of CIFAR-10."""
    for of, task in (("digits", "parity"), ("cifar10", "first-last")):
        classes = Dataset.of(torch.zeros(10, 1), torch.arange(10), name=of, classes=10)
        positive = relabel(classes, task).y == 1
        frame = heat((0.4, 0.0), (0.9, 0.1), of=of, positive=positive.tolist())
        assert claim("F-m.blocks").test(frame).effect == pytest.approx(0.4)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("topic", TOPICS)
def test_every_part_is_a_configuration(topic: str, scale: Any) -> None:
    for name, part in parts_of(topic).items():
        settings = part(scale, "paper")
        assert part(scale, "slides") is None
        if settings is None:
            assert name.startswith("cifar")
            assert scale != "paper"
            continue
        study = validate(StudyConfig, {"name": "feature-averaging", "part": name, **settings})
        assert study.points
        if scale != "smoke":
            assert len(study.grid["seed"]) >= 5
    figures = {figure.name for figure in figures_of(topic)}
    for each in claims_of(topic):
        assert each.figure in figures
        assert set(each.parts) <= set(parts_of(topic))


def run(tmp_path: Path, topic: str) -> polars.DataFrame:
    store = Store(tmp_path)
    for part, make in parts_of(topic).items():
        settings = make("smoke", "paper")
        if settings is None:
            continue
        grid = {**settings["grid"], "seed": [0]}
        study = validate(StudyConfig, {"name": "feature-averaging", "part": part, **settings, "grid": grid})
        outcome = sweep(store, study, engine=Here())
        assert outcome.complete, outcome
    frames = store.frame(*store.studies())
    assert isinstance(frames, polars.DataFrame)
    return frames


def chosen(frame: polars.DataFrame, parts: Sequence[str]) -> polars.DataFrame:
    """What a figure or a claim is given: the records of its parts, without columns that none of them has."""
    own = frame.filter(polars.col("part").is_in(list(parts)))
    return own.select([column for column in own if column.null_count() < len(column)])


@pytest.mark.parametrize("topic", ["kkt", "simplicity", "frozen_features"])
def test_a_small_run_ends_in_figures_and_evidence(tmp_path: Path, topic: str) -> None:
    frame = run(tmp_path, topic)
    for figure in figures_of(topic):
        assert '"$schema"' in figure.draw(chosen(frame, figure.parts)).to_json()
    for each in claims_of(topic):
        found = each.test(chosen(frame, each.parts))
        assert found.n <= 1
        assert found.verdict is Verdict.UNDECIDED


@pytest.mark.full
@pytest.mark.parametrize("topic", ["min_vidal", "manifold", "li2022", "images"])
def test_the_other_small_runs_too(tmp_path: Path, topic: str) -> None:
    frame = run(tmp_path, topic)
    for figure in figures_of(topic):
        own = chosen(frame, figure.parts)
        if not own.is_empty():
            assert '"$schema"' in figure.draw(own).to_json()
