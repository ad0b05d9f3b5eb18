"""What a verdict rests on: ten seeds in every part that is judged, one number of each, and no line below chance."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.studies.test_co_correlation_claims import records
from tests.studies.test_co_correlation_risk_bound import made_up
from undertow.data.loading import load
from undertow.data.tasks import relabel
from undertow.measures.off_manifold import off_share, principal_plane
from undertow.studies import STUDIES, find
from undertow.studies.co_correlation import STUDY
from undertow.studies.kit.study import SCALES

CHECKS = {
    "co-correlation": {
        "C-t.ninth",
        *("C-b.first-order", "C-c", "C-c.chain", "C-m.update", "C-n.slopes"),
        *("C-m.bound", "C-n.bound", "C-n.bound-others", "C-o.early", "C-o.throughout"),
    },
    "feature-averaging": {
        *("F-b.lemma", "F-f.d", "F-h", "F-h.d", "F-h.k", "F-r.pca-data", "F-s.robust", "F-t.early"),
        "F-u.own",
    },
    "stable-rank": set[str](),
    "margin": {"M-d", "M-i", "M-i.ball", "M-i.exact", "M-i.exact-ball"},
    "optimisers": set[str](),
    "other-biases": set[str](),
}
"""Claims that are true by construction or that chance alone would keep, with the reason in each of them."""


FEWER: dict[tuple[str, str], dict[str, int]] = {
    ("optimisers", "smoke"): {"": 6},
    ("margin", "smoke"): {"table": 6, "adversarial": 6},
    ("margin", "paper"): {"table": 6, "adversarial": 6, "rule-": 1},
    **{("stable-rank", scale): {"cifar10": 6} for scale in SCALES},
    **{
        ("co-correlation", scale): {
            "deep-networks": 6,
            "deep-start": 6,
            "deep-wide": 2,
            "deep-statistics": 2 if scale == "smoke" else 6,
        }
        for scale in SCALES
    },
}
"""Seeds of parts, by what their names contain, where a seed costs as much as the first, being no member of a batch.

One or two are shown, and leave a claim undecided.
"""


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", STUDIES)
def test_every_part_that_is_judged_has_ten_seeds(name: str, scale: str) -> None:
    study = find(name)
    judged = {part for claim in study.claims for part in claim.parts}
    for variant in study.variants:
        for grid in study.grids(scale, variant):
            seeds = {point.columns["seed"] for point in grid.points}
            fewer = FEWER.get((name, scale), {})
            least = next((count for words, count in fewer.items() if words in grid.part), 10)
            assert len(seeds) >= least or grid.part not in judged, (variant, grid.part)


@pytest.mark.parametrize("name", STUDIES)
def test_checks_say_why_they_are_none_of_the_verdicts(name: str) -> None:
    found = {claim.id: claim.check for claim in find(name).claims if claim.check}
    assert set(found) == CHECKS[name]
    assert all(isinstance(why, str) and len(why) > 20 for why in found.values())


def test_lines_that_were_drawn_after_a_look_say_so() -> None:
    said = {claim.id for claim in find("feature-averaging").claims if claim.hindsight}
    assert {"F-a", "F-c", "F-c.limit", "F-e.angle", "F-f", "F-k", "F-n.readout"} <= said
    assert not said & {
        "F-j",
        "F-l.readout",
        "F-l.native",
        "F-r.he",
    }  # parity and chance are no choice of ours


@pytest.mark.parametrize(
    "claim", [each for each in STUDY.claims if each.parts == ("grid",)], ids=lambda c: c.id
)
def test_a_seed_of_the_grid_is_one_number(claim: Any) -> None:
    """Widths, q and epochs make no further evidence: with three times as many of them n is the number of seeds."""
    frame = records(
        rho=lambda n, t: 0.2 + t * (0.3 + n.q) * (1 + n.width / 4096) + n.noise,
        energy=lambda n: 1 + n.q + n.width / 1024,
        robust=lambda n: 0.5 - n.q + n.width / 8192 + n.noise,
        accuracy=lambda n: 0.8 + n.q / 100 + n.noise,
        widths=(16, 32, 64, 128, 256, 512, 1024, 2048),
        seeds=10,
    )
    assert claim.test(frame).n == 10


def test_a_seed_of_the_risk_bound_is_one_number() -> None:
    frame = made_up(lambda r, _, seed: 0.4 - r + 0.01 * seed, seeds=10)
    for claim in (each for each in STUDY.claims if each.parts == ("risk-bound",)):
        assert claim.test(frame).n == 10


def test_first_order_cannot_fail_in_any_network() -> None:
    """E‖∇L‖ ≤ √E‖∇L‖², whatever the slopes are: nothing but a mistake would make the share negative."""
    slopes = torch.rand(1000, 50, generator=torch.Generator().manual_seed(0)) ** 5
    assert bool((1 - slopes.mean(1) / slopes.square().mean(1).sqrt() >= 0).all())


@pytest.mark.parametrize("task", ["parity", "low-high"])
def test_residuals_of_the_right_signs_are_at_acute_angles_by_chance(task: str) -> None:
    """x̃ = Σ (y_i − p_i) x_i with any p_i in (0, 1): what C-o asks for says nothing of training."""
    data = relabel(load("digits", limit=200, flatten=True), task)
    signs = 2 * data.y.double() - 1
    sizes = torch.rand(50, len(data), generator=torch.Generator().manual_seed(0)).double()
    sums = torch.nn.functional.normalize((sizes * signs) @ data.x.double(), dim=1)
    assert float((sums @ sums.T).min()) > 0


def test_a_random_direction_leaves_the_plane_of_the_data_more_than_they_do() -> None:
    x = load("digits", flatten=True).x
    plane = principal_plane(x, dimension=16)
    data = off_share(x - plane.centre, plane.basis).mean()
    random = off_share(torch.randn(100, 64, generator=torch.Generator().manual_seed(0)), plane.basis).mean()
    assert float(random) > 0.7 > 0.3 > float(data)
    assert float(random) == pytest.approx(plane.chance, abs=0.05)
