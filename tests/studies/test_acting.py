"""Acting on ϱ and S: the fronts are what they say, each claim holds in one world and fails in another, parts run."""

from __future__ import annotations

from pathlib import Path

import polars
import pytest

from undertow.execution.engines.here import Here
from undertow.execution.sweep import sweep
from undertow.store.store import Store
from undertow.studies import find
from undertow.studies.co_correlation.acting.claims import ALLOWED, best_on_front, networks
from undertow.studies.co_correlation.acting.parts import EPS, METHODS, PLACES, STRENGTHS, parts_of
from undertow.studies.kit.claim import Claim, Verdict

CLAIMS = [claim for claim in find("co-correlation").claims if claim.id.startswith("C-z.")]
_AXIS = {"decay": "weight_decay", "adversary": "eps"}
_DATA = {"digits": "digits", "mnist": "mnist", "cifar": "cifar10"}


def records(place: str, gains: dict[str, float], *, cost: float = 0.0, seeds: int = 10) -> polars.DataFrame:
    """Fronts on which the method's gain is reached at its third strength, and clean accuracy falls with strength."""
    rows = []
    for method in METHODS:
        for step, strength in enumerate(STRENGTHS[method]):
            for seed in range(seeds):
                plain = method == "decay" and strength == 0
                gain = 0.0 if plain else gains[method] * (1 - abs(step - 2) / 4)
                readings = {
                    ("accuracy", ""): 0.9 - (0.0 if plain else cost + 0.002 * step),
                    ("robust-accuracy", repr(EPS[place])): 0.5 + gain + 0.001 * seed,
                    ("certified-accuracy", repr(EPS[place])): 0.3 + gain + 0.001 * seed,
                    ("collaboration", "a:co_correlation"): 0.5,
                    ("collaboration", "a:energy"): 2.0,
                }
                rows += [
                    {
                        "trial": f"{method}{strength}{seed}",
                        "part": f"acting-{place}-{method}",
                        "variant": "paper",
                        "data_name": _DATA[place],
                        **dict.fromkeys(("weight", "weight_decay", "eps")),
                        _AXIS.get(method, "weight"): strength,
                        "seed": seed,
                        "step": 10,
                        "epoch": 1,
                        "measure": measure,
                        "key": key,
                        "value": value,
                    }
                    for (measure, key), value in readings.items()
                ]
    return polars.DataFrame(rows, infer_schema_length=None)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_each_claim_holds_in_one_world_and_fails_in_another(claim: Claim) -> None:
    place = claim.id.rsplit("-", 1)[1]
    good = dict(zip(METHODS, (0.02, 0.05, 0.1, 0.1, 0.2), strict=True))
    bad = dict(zip(METHODS, (0.2, 0.05, 0.1, 0.1, 0.02), strict=True))
    assert claim.test(records(place, good)).verdict is Verdict.HOLDS
    assert claim.test(records(place, bad)).verdict is Verdict.FAILS


def test_a_gain_that_costs_more_than_a_point_of_clean_accuracy_does_not_count() -> None:
    gains = dict.fromkeys(METHODS, 0.2)
    table = networks(records("digits", gains, cost=2 * ALLOWED))
    best = best_on_front(table, "energy", "attacked")
    assert best["strength"].to_list() == [0.0] * 10  # the plain network
    free = best_on_front(networks(records("digits", gains)), "energy", "attacked")
    assert free["strength"].to_list() == [STRENGTHS["energy"][2]] * 10
    assert len(table) == 26 * 10


@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
def test_the_grids_are_valid_and_fronts_have_as_many_strengths_as_each_other(scale: str) -> None:
    study = find("co-correlation")
    parts = [part for place in PLACES for part in parts_of(place)]
    grids = study.grids(scale, "paper", parts=parts)  # type: ignore[arg-type]
    for place in PLACES:  # the best of more strengths would be better by chance
        fronts = [grid for grid in grids if grid.part.startswith(f"acting-{place}")]
        assert len({len(grid.points) + 10 * (not grid.part.endswith("decay")) for grid in fronts}) <= 1
    assert all(len(set(grid.seeds)) == 10 for grid in grids)
    assert not {grid.part for grid in study.grids(scale, "authors")} & set(parts)  # type: ignore[arg-type]


def test_a_part_runs_and_is_read(tmp_path: Path) -> None:
    grids = find("co-correlation").grids("smoke", "paper", parts=["acting-digits-collaboration"])
    few = [
        grid.model_copy(
            update={
                "grid": {**grid.grid, "training.penalty.weight": (0.0, 30.0), "seed": (0, 1)},
                "training": grid.training.model_copy(update={"epochs": 4}),
            }
        )
        for grid in grids
    ]
    store = Store(tmp_path)
    assert sweep(store, *few, engine=Here()).finished == 4
    table = networks(store.frame())
    free, held = (
        table.filter(polars.col("strength") == weight)["ϱ"].to_numpy().mean() for weight in (0.0, 30.0)
    )
    assert held < free
    assert table.height == 4
