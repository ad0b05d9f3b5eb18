"""Theorem 4.1 on records: its claims on made-up records with known answers."""

from __future__ import annotations

from collections.abc import Callable

import polars
import pytest

from undertow.core.errors import InputError
from undertow.studies.co_correlation.risk_bound.claims import CLAIMS as FOUND
from undertow.studies.co_correlation.risk_bound.claims import both_sides, reaches
from undertow.studies.co_correlation.risk_bound.parts import RADII
from undertow.studies.kit.claim import Verdict

CLAIMS = {claim.id: claim.test for claim in FOUND}
ENERGY, RISK = 0.5, 0.7


def made_up(left: Callable[[float, int, int], float], *, seeds: int = 10) -> polars.DataFrame:
    """Records in which the share of r·S left over is a function of radius, seed and width."""
    rows = []
    for activation in ("linear", "relu"):
        for width in (16, 64):
            for seed in range(seeds):
                network = {
                    "measure": "risk-bound",
                    "activation": activation,
                    "width": width,
                    "q": 0.25,
                    "seed": seed,
                    "data_name": "digits",
                    "variant": "paper",
                }
                for step in (0, 100):
                    readings = {"risk": RISK, "energy": ENERGY, "holds_up_to": 0.0}
                    for r in RADII:
                        share = left(r, seed, width) if step else -1.0
                        readings[f"gap@{r!r}"] = share * r * ENERGY
                        readings[f"bound@{r!r}"] = RISK + r * ENERGY
                        readings[f"adversarial@{r!r}"] = RISK + (1 - share) * r * ENERGY
                    rows += [{**network, "step": step, "key": k, "value": v} for k, v in readings.items()]
    return polars.DataFrame(rows)


def test_the_table_holds_both_sides_before_and_after_training() -> None:
    frame = made_up(lambda r, _, __: 0.2 - r)
    sides = both_sides(frame)
    assert len(sides) == 2 * 2 * 10 * len(RADII)
    assert sides["left"].to_list() == pytest.approx((0.2 - sides["r"]).to_list())
    rise = (sides["bound"] - sides["adversarial"]).to_list()
    assert rise == pytest.approx(sides["gap"].to_list())
    assert both_sides(frame, trained=False)["left"].to_list() == pytest.approx([-1.0] * len(sides))
    with pytest.raises(InputError, match="no record of the adversarial risk"):
        both_sides(frame.filter(polars.col("measure") == "accuracy"))


def test_records_with_an_upper_bound_say_how_far_the_inequality_is_proved() -> None:
    frame = made_up(lambda r, _, __: 0.9 - r)
    assert "proved" not in CLAIMS["C-b.relu"](frame).note
    attacked = frame.filter(polars.col("key").str.starts_with("adversarial@"))
    radius = polars.col("key").str.split("@").list.last().cast(polars.Float64)
    upper = attacked.with_columns(
        key=polars.col("key").str.replace("adversarial", "upper"),
        value=polars.col("value") + polars.when(radius > 0.05).then(1.0).otherwise(0.0),
    )
    assert "proved up to r = 0.03 … 0.03" in CLAIMS["C-b.relu"](polars.concat([frame, upper])).note


def test_an_inequality_with_room_everywhere_holds() -> None:
    frame = made_up(lambda r, seed, _: 0.9 - r + 0.01 * seed)
    for claim in CLAIMS.values():
        assert claim(frame).verdict is Verdict.HOLDS
    assert CLAIMS["C-b.linear"](frame).effect == pytest.approx(0.445)
    assert CLAIMS["C-b.first-order"](frame).effect == pytest.approx(0.945)
    assert "holds up to r = 0.5 … 0.5" in CLAIMS["C-b.linear"](frame).note
    assert CLAIMS["C-b.linear"](made_up(lambda *_: 0.5, seeds=3)).verdict is Verdict.UNDECIDED


def test_one_width_that_breaks_it_far_out_is_enough_against_it() -> None:
    frame = made_up(lambda r, seed, width: 0.09 + 0.001 * seed - (r if width == 64 else 0.0))
    found = CLAIMS["C-b.relu"](frame)
    assert found.verdict is Verdict.FAILS
    assert found.effect == pytest.approx(0.0945 - 0.5)
    assert "holds up to r = 0.03 … 0.5" in found.note
    assert "on digits" in found.note
    assert CLAIMS["C-b.first-order"](frame).verdict is Verdict.HOLDS


def test_to_first_order_the_limit_counts_and_not_the_smallest_radius() -> None:
    """With a share of 1e-4 − r the inequality fails at every measured r, and holds as r → 0."""
    frame = made_up(lambda r, seed, _: 1e-4 + 1e-6 * seed - r)
    assert CLAIMS["C-b.linear"](frame).verdict is Verdict.FAILS
    assert reaches(both_sides(frame))["reach"].to_list() == [0.0] * 40
    found = CLAIMS["C-b.first-order"](frame)
    assert found.verdict is Verdict.HOLDS
    assert found.effect == pytest.approx(1.045e-4)
    assert CLAIMS["C-b.first-order"](made_up(lambda r, seed, _: -0.1 - r * seed)).verdict is Verdict.FAILS


def test_reach_stops_at_the_first_failure() -> None:
    frame = made_up(lambda r, *_: -0.1 if r == 0.03 else 0.1)
    assert set(reaches(both_sides(frame))["reach"]) == {0.01}
