"""Claims of a study judged together, on made-up records with known answers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars
import pytest

from tests.report.stores import publish
from undertow import studies
from undertow.cli.command import call as _call
from undertow.config.grid import StudyConfig
from undertow.config.seed_sets import refuse_overlap, replicated
from undertow.config.trial import validate
from undertow.core.errors import ConfigError
from undertow.probe.records import Record
from undertow.store.store import Store
from undertow.studies.kit.claim import Claim, Finding, Verdict, decide
from undertow.studies.kit.ledger import Entry, ledger
from undertow.studies.kit.reproduction import reproductions
from undertow.studies.kit.study import Scale, Study

Values = dict[str, Sequence[float]]
"""For each claim one value per seed."""

NINE = [-1.0, *[1.0] * 9]  # alone it holds, p = 0.0215
NONE = [-1.0, 1.0] * 5
ALL = [1.0 + 0.1 * seed for seed in range(10)]


def part(scale: Scale, variant: str) -> dict[str, Any]:  # noqa: ARG001
    return {
        "data": {"name": "kou-mixture", "n": 4, "d": 5},
        "model": {"name": "two-layer", "width": 2},
        "training": {"epochs": 1},
        "grid": {"seed": list(range(10))},
    }


def other_part(scale: Scale, variant: str) -> dict[str, Any]:
    return {**part(scale, variant), "training": {"epochs": 2}}


def reading(key: str) -> Callable[[polars.DataFrame], Finding]:
    def test(frame: polars.DataFrame) -> Finding:
        rows = frame.filter((polars.col("measure") == "made-up") & (polars.col("key") == key)).sort("seed")
        return decide(rows["value"].to_list(), above=0.0)

    return test


def study(keys: Sequence[str], **changes: Any) -> Study:
    claims = [Claim(key, f"{key} is above 0.", "here", reading(key), parts=("main",)) for key in keys]
    return Study(
        name="toy",
        title="A toy",
        source="nowhere",
        costs={},
        variants={"paper": "as printed"},
    ).but(
        parts={"main": part, "other": other_part} if changes.pop("two", False) else {"main": part},
        figures=(),
        claims=tuple(changes.pop("claims", claims)),
    )


STUDY = study(["T-a"])


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[Study], Study]:
    monkeypatch.setitem(studies.STUDIES, "toy", __name__)

    def chosen(made: Study) -> Study:
        monkeypatch.setattr(f"{__name__}.STUDY", made)
        return made

    return chosen


def put(
    path: Path, values: Values, *, first: int | None = None, name: str = "main", without: int = 0
) -> None:
    """Publish one trial per seed with the claims' values as its records."""
    (grid,) = STUDY.grids("smoke", "paper", parts=[name])
    if first is not None:
        (grid,), _ = replicated([grid], first=first)
    records = {
        point.trial.id: [
            Record(point.trial.id, 0, 0, "made-up", key, each[n]) for key, each in values.items()
        ]
        for n, point in enumerate(grid.points)
        if n >= without
    }
    publish(path, grid, records)


def judged(path: Path) -> dict[str, Entry]:
    return {entry.claim.id: entry for entry in ledger(Store(path))}


def test_what_holds_alone_may_not_hold_among_many(use: Callable[[Study], Study], tmp_path: Path) -> None:
    values: Values = {"T-a": NINE, **{f"T-{n}": NONE for n in range(9)}}
    use(study(list(values)))
    put(tmp_path, values)
    entry = judged(tmp_path)["T-a"]
    assert (entry.finding.verdict, entry.verdict) == (Verdict.HOLDS, Verdict.UNDECIDED)
    assert entry.finding.p == pytest.approx(22 / 1024)
    assert entry.p_adjusted == pytest.approx(220 / 1024)
    assert (entry.family.claims, entry.family.decided, entry.family.decided_alone) == (10, 0, 1)
    assert entry.family.expected_false == 0
    assert entry.family.expected_false_alone == pytest.approx(10 * 22 / 1024)
    row = entry.row()
    assert (row["verdict"], row["verdict_alone"], row["n"]) == ("undecided", "holds", 10)
    assert (row["p"], row["p_adjusted"]) == (entry.finding.p, entry.p_adjusted)
    assert row["family"]["complete"]
    needed = {"id", "text", "source", "study", "variant", "verdict", "effect", "interval", "n"}
    assert needed <= row.keys()


def test_among_many_that_hold_it_holds(use: Callable[[Study], Study], tmp_path: Path) -> None:
    values: Values = {"T-a": NINE, **{f"T-{n}": ALL for n in range(9)}}
    use(study(list(values)))
    put(tmp_path, values)
    entries = judged(tmp_path)
    assert {entry.verdict for entry in entries.values()} == {Verdict.HOLDS}
    assert entries["T-a"].p_adjusted == pytest.approx(22 / 1024)
    assert entries["T-a"].family.expected_false == pytest.approx(0.5)


def test_checks_are_in_no_family_and_one_seed_breaks_them(
    use: Callable[[Study], Study], tmp_path: Path
) -> None:
    claims = [
        Claim("T-a", "kept", "here", reading("T-a"), check="by construction"),
        Claim("T-b", "broken", "here", reading("T-b"), check=True),
        Claim("T-c", "attained", "here", reading("T-c"), check=True),
        Claim("T-d", "a claim", "here", reading("T-d"), hindsight="drawn at the laptop's scale"),
        Claim("T-e", "unknown", "here", reading("T-e"), check=True),
    ]
    use(study([], claims=claims))
    nan = [math.nan, *ALL[1:]]
    put(tmp_path, {"T-a": ALL, "T-b": NINE, "T-c": [0.0, *ALL[1:]], "T-d": ALL, "T-e": nan})
    entries = judged(tmp_path)
    verdicts = {name: str(entry.verdict) for name, entry in entries.items()}
    assert verdicts == {
        "T-a": "as it must be",
        "T-b": "violated",
        "T-c": "as it must be",
        "T-d": "holds",
        "T-e": "undecided",
    }
    assert {entry.family.claims for entry in entries.values()} == {1}
    assert entries["T-a"].p_adjusted is None
    assert entries["T-a"].row()["check"] == "by construction"
    assert entries["T-d"].row()["hindsight"] == "drawn at the laptop's scale"


def test_a_verdict_that_is_kept_back_makes_no_room_for_others(
    use: Callable[[Study], Study], tmp_path: Path
) -> None:
    def back(frame: polars.DataFrame) -> Finding:
        return replace(reading("T-b")(frame), verdict=Verdict.UNDECIDED, note="not at rest yet")

    plain = study(["T-a", "T-b"]).claims
    put_back = (plain[0], replace(plain[1], test=back))
    values: Values = {"T-a": [-1.0, *ALL[1:]], "T-b": ALL}
    use(study([], claims=plain))
    put(tmp_path, values)
    assert judged(tmp_path)["T-a"].verdict is Verdict.HOLDS  # 22/1024, both decided
    use(study([], claims=put_back))
    entries = judged(tmp_path)
    assert entries["T-a"].p_adjusted == pytest.approx(44 / 1024)
    assert (entries["T-b"].verdict, entries["T-b"].p_adjusted) == (Verdict.UNDECIDED, 1.0)


def test_claims_that_wait_for_trials_have_no_p_and_no_family(
    use: Callable[[Study], Study], tmp_path: Path
) -> None:
    first, second = study(["T-a", "T-b"]).claims
    use(study([], two=True, claims=[first, replace(second, parts=("other",))]))
    put(tmp_path, {"T-a": ALL})
    put(tmp_path, {"T-b": ALL}, name="other")
    assert {entry.verdict for entry in judged(tmp_path).values()} == {Verdict.HOLDS}
    for folder, without in (("half", 10), ("some", 3)):
        put(tmp_path / folder, {"T-a": ALL})
        put(tmp_path / folder, {"T-b": ALL}, name="other", without=without)
    for folder in ("half", "some"):
        entries = judged(tmp_path / folder)
        assert entries["T-a"].verdict is Verdict.HOLDS
        waiting = entries["T-b"]
        assert (waiting.verdict, waiting.finding.p, waiting.p_adjusted) == (Verdict.UNDECIDED, None, None)
        assert (waiting.family.claims, waiting.family.complete) == (1, False)
    assert judged(tmp_path / "some")["T-b"].finding.effect == 1.6  # the evidence so far is shown
    assert "3 of 10 trials are missing" in judged(tmp_path / "some")["T-b"].finding.note


def test_a_nan_that_a_test_overlooks_decides_nothing(use: Callable[[Study], Study], tmp_path: Path) -> None:
    """In polars NaN is larger than everything, and a filter drops it: both would decide."""

    def compared(frame: polars.DataFrame) -> Finding:
        rows = frame.filter(polars.col("key") == "T-a").with_columns(fine=polars.col("value") > 0)
        shares = rows.group_by("seed").agg(polars.col("fine").mean().cast(polars.Float64)).sort("seed")
        return decide(shares["fine"].to_list(), above=0.5)

    def filtered(frame: polars.DataFrame) -> Finding:
        kept = frame.filter((polars.col("key") == "T-a") & polars.col("value").is_finite())
        return decide(kept["value"].to_list(), above=0.0)

    claims = [
        Claim("T-compared", "by comparison", "here", compared),
        Claim("T-filtered", "by a filter", "here", filtered),
        Claim("T-b", "elsewhere", "here", reading("T-b")),
    ]
    use(study([], claims=claims))
    put(tmp_path, {"T-a": ALL, "T-b": ALL})
    assert {entry.verdict for entry in judged(tmp_path).values()} == {Verdict.HOLDS}
    put(tmp_path / "nan", {"T-a": [*ALL[:9], math.nan], "T-b": ALL})
    entries = judged(tmp_path / "nan")
    for name in ("T-compared", "T-filtered"):
        assert entries[name].verdict is Verdict.UNDECIDED
        assert entries[name].finding.p is None
        assert "1 of its readings are not known (made-up T-a)" in entries[name].finding.note
    assert entries["T-b"].verdict is Verdict.HOLDS  # which never looks at it


def test_each_set_of_seeds_is_judged_by_itself(use: Callable[[Study], Study], tmp_path: Path) -> None:
    use(study(["T-a"]))
    put(tmp_path, {"T-a": ALL})
    put(tmp_path, {"T-a": [-each for each in ALL]}, first=100)
    own, other = ledger(Store(tmp_path))
    assert (own.seed_set, own.verdict, own.finding.n, own.seeds) == (
        "own",
        Verdict.HOLDS,
        10,
        tuple(range(10)),
    )
    assert (other.seed_set, other.verdict, other.finding.n) == ("from-100", Verdict.FAILS, 10)
    assert other.seeds == tuple(range(100, 110))
    assert [each.label for each in reproductions(Store(tmp_path))] == [
        "toy.paper.smoke",
        "toy.paper.smoke.seeds-from-100",
    ]


def test_seeds_are_part_of_the_grid_and_of_the_name(use: Callable[[Study], Study]) -> None:
    toy = use(study(["T-a"]))
    grids = toy.grids("smoke", "paper")
    (more,), without = replicated(grids, count=12, first=100)
    assert (more.seeds, more.label, without) == (
        tuple(range(100, 112)),
        "toy.paper.smoke.seeds-100-111",
        (),
    )
    assert not {point.trial.id for point in more.points} & {point.trial.id for point in grids[0].points}
    (same,), _ = replicated(grids, count=10, first=0)
    assert (same.label, same.seeds) == ("toy.paper.smoke", tuple(range(10)))
    (fewer,), _ = replicated(grids, count=4)
    assert (fewer.label, fewer.seeds) == ("toy.paper.smoke.seeds-0-3", (0, 1, 2, 3))
    seedless = validate(StudyConfig, {**grids[0].model_dump(mode="json"), "part": "still", "grid": {}})
    assert replicated([*grids, seedless], first=7)[1] == ("still",)
    with pytest.raises(ConfigError, match="still has no axis of seeds"):
        replicated([seedless], first=7)
    with pytest.raises(ConfigError, match="--seeds 0"):
        replicated(grids, count=0)
    with pytest.raises(ConfigError, match="--first-seed -1"):
        replicated(grids, first=-1)


def test_seeds_that_overlap_with_others_are_refused(use: Callable[[Study], Study]) -> None:
    grids = use(study(["T-a"])).grids("smoke", "paper")
    more, _ = replicated(grids, count=20)
    with pytest.raises(ConfigError, match=r"seed 0 of .* is in this folder already.*--first-seed 10"):
        refuse_overlap(more, grids)
    others, _ = replicated(grids, first=10)
    refuse_overlap(others, grids)
    refuse_overlap(grids, grids)


def test_reproducing_on_other_seeds_and_comparing(
    use: Callable[[Study], Study], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the command line: real trials of a toy, its seeds and others in one folder, then both ledgers."""

    def last_loss(frame: polars.DataFrame) -> Finding:
        last = frame.filter((polars.col("measure") == "loss") & (polars.col("key") == "mean"))
        by_seed = last.sort("step").group_by("seed").agg(polars.col("value").last()).sort("seed")
        return decide(by_seed["value"].to_list(), above=0.0, note="effect: loss")

    use(study([], claims=[Claim("T-loss", "There is a loss.", "here", last_loss)]))
    place = str(tmp_path / "runs")
    command = ["reproduce", "toy", "--scale", "smoke", "--runs", place, "--engine", "here"]
    assert _call(command) == 0
    assert _call([*command, "--seeds", "12", "--first-seed", "100"]) == 0
    assert "toy.paper.smoke.seeds-100-111: 12 of 12 trials finished" in capsys.readouterr().out
    assert _call([*command, "--seeds", "20"]) == 2
    assert "judged alone, as a replication" in " ".join(capsys.readouterr().err.split())
    assert _call(command) == 0  # the study's own seeds are as they were
    capsys.readouterr()
    assert _call(["claims", place, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["seed_set"], row["n"], row["verdict"]) for row in rows] == [
        ("own", 10, "holds"),
        ("100-111", 12, "holds"),
    ]
    assert _call(["claims", place, "--against", place, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["judged"], found["opposite"], found["changes"], found["shared_seeds"]) == (1, 0, [], [])
    assert _call(["claims", place, "--against", place]) == 0
    assert "Of 1 verdict that both ledgers judged, 0 (0.0%) turned into the opposite" in " ".join(
        capsys.readouterr().out.split()
    )
    assert _call(["show", place]) == 0
    assert "toy (paper, smoke, seeds 100-111)" in capsys.readouterr().out
