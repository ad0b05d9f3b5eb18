"""The study of optimisers: claims on records made for them, and its grids."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import polars
import pytest

from undertow.core.errors import InputError
from undertow.execution.engines.here import Here
from undertow.execution.sweep import sweep
from undertow.store.store import Store
from undertow.studies import find
from undertow.studies.kit.claim import Finding, Verdict
from undertow.studies.optimisers.linear.claims import at_equal_progress
from undertow.studies.optimisers.margin_tables import end_and_half, progress
from undertow.studies.optimisers.rules import RULES

SEEDS, STEPS = range(8), (0, 10, 50, 100)


def asked(claim: str, rows: Iterable[dict[str, Any]]) -> Finding:
    (found,) = [each for each in find("optimisers").claims if each.id == claim]
    return found.test(polars.DataFrame(list(rows), infer_schema_length=None))


def row(part: str, seed: int, step: int, measure: str, key: str, value: float, **axes: Any) -> dict[str, Any]:
    trial = f"{part}{seed}{axes}"
    return {
        "trial": trial, "part": part, "seed": seed, "step": step, "epoch": step,
        "measure": measure, "key": key, "value": value, **axes,
    }  # fmt: skip


def margins(part: str, share: Callable[[str, int], float]) -> list[dict[str, Any]]:
    """Margins that are a share of the largest, which is 2, in every norm and at every step."""
    found = []
    for seed in SEEDS:
        for norm in ("1", "2", "inf", "spectral"):
            found += [
                row(part, seed, step, "norm-margins", f"margin:{norm}", 2 * share(norm, step) + 1e-4 * seed)
                for step in STEPS
            ]
            found += [row(part, seed, 100, "linear-optimum", f"optimum:{norm}", 2.0)]
            found += [row(part, seed, 100, "linear-optimum", f"cosine:{norm}", 1.0 if norm == "2" else 0.5)]
    return found


def test_a_margin_is_judged_in_its_own_norm() -> None:
    own = margins("binary-sign", lambda norm, _: 0.99 if norm == "inf" else 0.5)
    assert asked("O-b.two", own).verdict is Verdict.HOLDS
    other = margins("binary-sign", lambda norm, _: 0.99 if norm == "2" else 0.5)
    assert asked("O-b.two", other).verdict is Verdict.FAILS


def test_a_margin_that_still_grows_is_left_open() -> None:
    growing = margins("classes-spectral", lambda _, step: 1 - 1 / (1 + step))
    found = asked("O-d.spectral", growing)
    assert found.verdict is Verdict.HOLDS
    slower = margins("classes-spectral", lambda _, step: 1 - 1 / (2 + step) ** 0.5)
    found = asked("O-d.spectral", slower)
    assert found.verdict is Verdict.UNDECIDED
    assert "while steps doubled" in found.note
    _, shrunk = end_and_half(progress(polars.DataFrame(slower)), "spectral")
    assert shrunk == pytest.approx((52 / 102) ** 0.5, rel=0.02)


def test_five_steps_are_as_good_as_exact_factors_or_they_are_not() -> None:
    def rows(share: float) -> list[dict[str, Any]]:
        exact = margins("classes-polar", lambda *_: 0.9)
        return exact + margins("classes-muon", lambda *_: share)

    assert asked("O-d.steps", rows(0.9)).verdict is Verdict.HOLDS
    assert asked("O-d.steps", rows(0.8)).verdict is Verdict.FAILS
    assert asked("O-d.steps", rows(0.95)).verdict is Verdict.FAILS


@pytest.mark.parametrize(
    ("size", "meant"), [(10.0, Verdict.HOLDS), (7.0, Verdict.FAILS), (12.0, Verdict.FAILS)]
)
def test_adamw_fills_a_box_of_one_over_its_decay(size: float, meant: Verdict) -> None:
    """q_min is size times its margin 1.8 in L∞, and λ is 0.1."""
    rows = margins("binary-adamw", lambda *_: 0.9)
    rows += [
        row("binary-adamw", seed, step, "norm-margins", "smallest", 1.8 * size)
        for seed in SEEDS
        for step in STEPS
    ]
    assert asked("O-b.adamw", rows).verdict is meant


def residuals(part: str, own: str, value: Callable[[int], float]) -> list[dict[str, Any]]:
    return [
        row(part, seed, step, "norm-kkt", f"total:{own}", value(step) + 1e-4 * seed)
        for seed in SEEDS
        for step in STEPS
    ]


@pytest.mark.parametrize("rule", ["gd", "sign", "coordinate", "spectral", "adam"])
def test_a_kkt_point_is_one_of_the_rules_own_norm(rule: str) -> None:
    part, own = f"long-{rule}", RULES[rule].norm
    assert asked(f"O-g.{rule}", residuals(part, own, lambda _: 0.05)).verdict is Verdict.HOLDS
    assert asked(f"O-g.{rule}", residuals(part, own, lambda _: 0.3)).verdict is Verdict.FAILS
    falling = asked(f"O-g.{rule}", residuals(part, own, lambda step: 3 / (10 + step) ** 0.5))
    assert falling.verdict is Verdict.UNDECIDED
    assert "fell by" in falling.note
    with pytest.raises(InputError, match="no network classifies every point"):
        asked(f"O-g.{rule}", [row(part, 0, 0, "norm-kkt", "slackness:2", 0.0)])


def test_networks_are_compared_at_equal_progress() -> None:
    """Radii grow with the margin: at 90 % they are 0.9 r, whenever that is, where r is the rule's own."""
    rows = []
    for rule, pace in (("gd", 1.0), ("sign", 0.5), ("coordinate", 2.0)):

        def share(_: str, step: int, pace: float = pace) -> float:
            return min(step * pace / 100, 1.0)

        part = f"binary-{rule}"
        rows += margins(part, share)
        for seed in SEEDS:
            for step in STEPS:
                for attacker in ("1", "2", "inf"):
                    best = 3.0 if RULES[rule].norm == {"1": "inf", "2": "2", "inf": "1"}[attacker] else 1.0
                    rows.append(
                        row(part, seed, step, "attacker-radii", f"{attacker}:exact", best * share("", step))
                    )
    frame = polars.DataFrame(rows, infer_schema_length=None)
    with pytest.raises(InputError, match="not every network came"):  # sign descent is at a half
        asked("O-h.l1-two", rows)
    reached = at_equal_progress(frame)
    assert set(reached["rule"]) == {"gd", "coordinate"}
    assert set(reached.filter(polars.col("rule") == "gd")["2:exact"].round(2)) == {2.7}


def test_adam_turns_where_gradients_are_as_small_as_epsilon() -> None:
    def rows(turn: float) -> list[dict[str, Any]]:
        found = []
        for seed in SEEDS:
            for step in range(10):
                below = 4.0 - step + 0.01 * seed
                values = {"sign": 0.9 if below > turn else 0.5, "gradient": 0.7, "log10-steepest": below - 4}
                found += [
                    row("epsilon-adam", seed, step, "step-geometry", key, value, epsilon=1e-4)
                    for key, value in values.items()
                ]
        return found

    assert asked("O-e.crossing", rows(0.5)).verdict is Verdict.HOLDS
    assert asked("O-e.crossing", rows(2.5)).verdict is Verdict.FAILS
    with pytest.raises(InputError, match="have not turned yet"):
        asked("O-e.crossing", rows(-9.0))


def test_rules_that_remember_keep_their_memory_in_units_of_the_loss() -> None:
    for scale in ("laptop", "paper"):
        for grid in find("optimisers").grids(scale, "paper"):
            training = grid.training
            remembers = (training.optimizer.forgetting or 0) > 0
            assert (training.objective == "framed-loss") == remembers, grid.part
            assert training.dtype == "float64" or grid.part.startswith("resnet")
            assert training.rate.name == "power"


def pictures(part: str, rise: float, loss: float) -> list[dict[str, Any]]:
    found = []
    for seed in SEEDS:
        for step, gained in ((0, 0.0), (40 + seed, rise)):  # every network ends at a step of its own
            values = {
                ("collaboration", "pool:co_correlation"): 0.5 + gained + 1e-4 * seed,
                ("collaboration", "pool:energy"): 2.0,
                ("stable-rank", "stem.0.weight"): 3.0,
                ("stable-rank", "output.weight"): 1.0,
                ("sharpness", ""): 4.0,
                ("accuracy", ""): 0.9,
                ("loss", "mean"): loss,
                ("loss", "log10"): -0.7,
            }
            found += [row(part, seed, step, *name, value) for name, value in values.items()]
    return found


@pytest.mark.parametrize("name", ["mnist", "resnet"])
def test_co_correlation_is_compared_at_equal_loss(name: str) -> None:
    part, claim = f"{name}-sign", f"O-j.{name}-sign"
    found = asked(claim, pictures(part, 0.2, 0.19))
    assert found.verdict is Verdict.HOLDS
    assert "stable rank 3.0" in found.note
    assert asked(claim, pictures(part, -0.2, 0.19)).verdict is Verdict.FAILS
    with pytest.raises(InputError, match="did not come to a loss"):
        asked(claim, pictures(part, 0.2, 0.4))


@pytest.mark.parametrize("rule", ["gd", "sign", "coordinate", "spectral", "adam"])
def test_three_layers_are_judged_beside_two(rule: str) -> None:
    part, own = f"deep-{rule}", RULES[rule].norm
    assert asked(f"O-g.deep-{rule}", residuals(part, own, lambda _: 0.05)).verdict is Verdict.HOLDS
    assert asked(f"O-g.deep-{rule}", residuals(part, own, lambda _: 0.3)).verdict is Verdict.FAILS


@pytest.mark.full
def test_smoke_trains_measures_and_judges(tmp_path: Path) -> None:
    study, store = find("optimisers"), Store(tmp_path)
    for grid in study.grids("smoke", "paper", parts=["classes-spectral", "single-adam", "long-sign"]):
        assert sweep(store, grid, engine=Here()).complete
    frame = store.frame()
    alone = frame.filter(polars.col("part") == "single-adam")
    assert set(alone["seed"]) == set(range(6))
    for claim in ("O-d.spectral", "O-f.adam"):
        (found,) = [each for each in study.claims if each.id == claim]
        own = frame.filter(polars.col("part").is_in(found.parts))
        assert found.test(own).n == 6
