"""The kit's tables: curves, ends, levels, arms, slopes and numbers per seed, and what they do with hostile rows."""

from __future__ import annotations

import math

import polars
import pytest

from undertow.core.errors import InputError
from undertow.studies.kit.claim import Finding, Verdict, decide
from undertow.studies.kit.per_seed import by_value, exponents, per_seed, rank_correlation, slopes, verdict
from undertow.studies.kit.readings import (
    at_levels,
    before_and_after,
    compared,
    curves,
    interpolated,
    measured,
)
from undertow.studies.kit.statements import Claims


def training(seeds: int = 6) -> polars.DataFrame:
    """A margin that rises by 1 for each decade of the loss, at 10 steps a decade, slower for odd seeds."""
    return polars.DataFrame(
        [
            {"seed": seed, "step": 10 * k * (1 + seed % 2), "log10_loss": -1.0 * k, "margin": 1.0 * k}
            for seed in range(seeds)
            for k in range(6)
        ]
    )


def test_networks_are_compared_at_equal_loss_whatever_their_steps() -> None:
    table = at_levels(
        training().sample(fraction=1.0, shuffle=True, seed=1), [-0.5, -3.0], of="log10_loss", by=["seed"]
    )
    assert table.group_by("level").agg(polars.col("margin").unique()).sort("level").rows() == [
        (-3.0, [3.0]),
        (-0.5, [0.5]),
    ]
    assert set(table.filter(polars.col("level") == -3.0)["step"]) == {30.0, 60.0}


def test_a_level_that_some_do_not_reach_has_rows_of_the_others() -> None:
    short = training().filter((polars.col("seed") != 0) | (polars.col("log10_loss") > -2))
    assert 0 not in at_levels(short, [-4.0], of="log10_loss", by=["seed"])["seed"]
    with pytest.raises(InputError, match="train longer"):
        at_levels(short, [-40.0], of="log10_loss", by=["seed"])


def test_a_level_reached_at_the_start_is_the_start() -> None:
    table = at_levels(training(1), [2.0], of="log10_loss", by=["seed"])
    assert table.select("step", "margin").rows() == [(0.0, 0.0)]


def test_slopes_and_exponents_agree_with_their_formula_in_any_unit_and_order() -> None:
    for unit in (1e-9, 1.0, 1e9):
        rows = [
            {"seed": seed, "d": d, "radius": unit * (seed + 1) * d**-0.5, "line": unit * (3.0 * d + 7)}
            for d in (80, 10, 20, 40)
            for seed in (1, 0)
        ]
        table = polars.DataFrame(rows)
        assert exponents(table, "d", "radius") == pytest.approx([-0.5, -0.5])
        assert (slopes(table, "d", "line")["value"] / unit).to_list() == pytest.approx([3.0, 3.0])


def test_slopes_know_what_they_cannot_know() -> None:
    rows = [
        (0, 1, 2.0),
        (0, 2, -1.0),
        (1, 1, 1.0),
        (1, 2, None),
        (2, 1, 1.0),
        (2, 2, math.nan),
        (3, 1, 1.0),
        (3, 2, 2.0),
    ]
    table = polars.DataFrame(rows, schema=["seed", "x", "y"], orient="row")
    found = dict(slopes(table, "x", "y", log=True).rows())
    assert found.keys() == {0, 2, 3}  # seed 1 has one point
    assert math.isnan(found[0])
    assert math.isnan(found[2])
    assert found[3] == pytest.approx(1.0)
    with pytest.raises(InputError, match="two values of x"):
        slopes(table.filter(polars.col("x") == 1), "x", "y")
    with pytest.raises(InputError, match="no record of z"):
        slopes(table, "x", "z")


def test_a_seed_is_as_good_as_its_worst_row_and_unknown_with_an_unknown_one() -> None:
    table = polars.DataFrame({"seed": [1, 0, 0, 2, 3], "value": [5.0, 1.0, 3.0, math.nan, None]})
    for over, first in (("mean", 2.0), ("min", 1.0), ("max", 3.0)):
        found = per_seed(table, over=over)  # type: ignore[arg-type]
        assert found[:2] == [first, 5.0]
        assert math.isnan(found[2] or 0.0)
        assert found[3] is None
    assert verdict(table, above=0.0, note="").verdict is Verdict.UNDECIDED
    with pytest.raises(InputError, match="no network"):
        per_seed(table.filter(polars.col("seed") > 9))


def test_phrases_of_a_note_are_joined_and_empty_ones_left_out() -> None:
    table = polars.DataFrame({"seed": range(6), "width": [16, 64] * 3, "value": [1.0] * 6})
    found = verdict(table, above=0.0, note=("effect: a number", "", by_value(table, "width")))
    assert found.note == "effect: a number; 16: +1.00, 64: +1.00"


def test_ranks_of_few_constant_or_unknown_numbers_are_none() -> None:
    rows = [
        (0, 1, 1.0),
        (0, 2, 2.0),
        (0, 3, 3.0),
        (1, 1, 1.0),
        (1, 2, 1.0),
        (1, 3, 1.0),
        (2, 1, 1.0),
        (2, 2, 2.0),
    ]
    rows += [(3, 1, 1.0), (3, 2, math.nan), (3, 3, 2.0)]
    table = polars.DataFrame(rows, schema=["seed", "x", "y"], orient="row")
    found = dict(rank_correlation(table, "x", "y", by=["seed"]).rows())
    assert (found[0], found[1], found[2]) == (pytest.approx(1.0), None, None)
    assert math.isnan(found[3])


def test_ends_are_those_of_networks_that_got_there() -> None:
    table = polars.DataFrame({"seed": [0, 0, 1, 1], "epoch": [4, 0, 0, 2], "value": [3.0, 1.0, 1.0, 9.0]})
    assert before_and_after(table, by=["seed"])["rise"].to_list() == [2.0, None]
    assert interpolated(table, [1, 3], by=["seed"])["value"].to_list()[:3] == [1.5, 2.5, 5.0]


def test_arms_are_compared_seed_by_seed() -> None:
    table = polars.DataFrame({"rule": ["gd", "adam", "gd"], "seed": [0, 0, 1], "radius": [2.0, 4.0, 5.0]})
    both = compared(table, "rule", "adam", "gd", value="radius", on=["seed"])
    assert both.select("seed", "difference", "ratio").rows() == [(0, 2.0, 2.0)]
    with pytest.raises(InputError, match="no pair of networks"):
        compared(table, "rule", "sam", "gd", value="radius", on=["seed"])


def test_what_was_not_recorded_is_said() -> None:
    frame = polars.DataFrame(
        {"measure": ["loss"], "key": ["mean"], "epoch": [0], "value": [1.0], "seed": [0]}
    )
    assert len(measured(frame, "loss", "mean", seed=0)) == 1
    with pytest.raises(InputError, match="no record of the margin"):
        curves(frame, "margin", "smallest", by=["seed"], what="the margin")


def test_claims_stand_as_they_are_written_with_what_is_given_to_each() -> None:
    claims = Claims("A paper", parts=("one",), figure="a", hindsight="seen")

    def large(frame: polars.DataFrame, line: float) -> Finding:
        return decide(frame["value"].to_list(), above=line)

    for line in (1.0, 2.0):
        claims.add(f"T-a.{line:g}", "in a loop", line=line)(large)

    @claims.add("T-b", "first", "§1", check="always", source="Another", parts=("two",), figure="b")
    @claims.add("T-c", "second", hindsight="")
    def positive(frame: polars.DataFrame) -> Finding:
        return large(frame, 0.0)

    frame = polars.DataFrame({"value": [5.0] * 6})
    assert [claim.id for claim in claims] == ["T-a.1", "T-a.2", "T-b", "T-c"]
    assert [claim.test(frame).line for claim in claims] == [1.0, 2.0, 0.0, 0.0]
    assert [claim.hindsight for claim in claims] == ["seen", "seen", "", ""]
    assert [(claim.source, claim.parts, claim.figure) for claim in claims[2:]] == [
        ("Another, §1", ("two",), "b"),
        ("A paper", ("one",), "a"),
    ]


def test_a_finding_left_open_keeps_its_evidence() -> None:
    found = decide([3.0] * 6, below=2.0, note="effect: a limit")
    still = found.left_open("not at rest yet")
    assert (found.verdict, still.verdict) == (Verdict.FAILS, Verdict.UNDECIDED)
    assert (still.effect, still.p, still.note) == (3.0, found.p, "effect: a limit; not at rest yet")
