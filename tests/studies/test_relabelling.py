"""F-v on made-up accuracies: each claim holds in one world, fails in another, and the control decides."""

from __future__ import annotations

import polars
import pytest

from undertow.studies import find
from undertow.studies.feature_averaging.useful_features.parts import RADII, SOURCES
from undertow.studies.kit.claim import Claim, Verdict

CLAIMS = [claim for claim in find("feature-averaging").claims if claim.id.startswith("F-v.")]


def records(source: str, *, moved: float, control: float) -> polars.DataFrame:
    radii = RADII.get(source, [0.0, 5.0, 10.0])
    return polars.DataFrame(
        [
            {
                "trial": f"{targets}{eps}{seed}",
                "part": f"relabelled-{source}",
                "targets": targets,
                "eps": eps,
                "seed": seed,
                "step": 100,
                "measure": "accuracy",
                "key": "",
                "value": (control if eps == 0 else moved) + 0.001 * seed * (eps + 1),
            }
            for targets in ("random", "deterministic")
            for eps in radii
            for seed in range(10)
        ]
    )


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_each_claim_holds_in_one_world_and_fails_in_another(claim: Claim) -> None:
    source = claim.id.rsplit("-", 1)[1]
    assert claim.test(records(source, moved=0.8, control=0.1)).verdict is Verdict.HOLDS
    assert claim.test(records(source, moved=0.01, control=0.6)).verdict is Verdict.FAILS


def test_accuracy_that_the_control_has_too_is_nothing_for_random_targets() -> None:
    claims = {claim.id: claim for claim in CLAIMS}
    both = records("digits", moved=0.5, control=0.52)
    assert claims["F-v.random-digits"].test(both).verdict is not Verdict.HOLDS
    assert claims["F-v.deterministic-digits"].test(both).verdict is Verdict.HOLDS
    assert len(CLAIMS) == 2 * len(SOURCES)


@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
def test_the_grids_are_valid(scale: str) -> None:
    parts = ["useful-features", *(f"relabelled-{source}" for source in SOURCES)]
    grids = find("feature-averaging").grids(scale, "paper", parts=parts)  # type: ignore[arg-type]
    assert {grid.part for grid in grids} >= set(parts[:3])
    for grid in grids[1:]:
        assert len(grid.points) == 2 * 3 * 10
