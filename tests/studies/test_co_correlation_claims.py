"""The claims about the grid, on made-up records with known answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars
import pytest

from undertow.core.errors import InputError
from undertow.studies.co_correlation import STUDY
from undertow.studies.co_correlation.estimators.claims import deviations
from undertow.studies.co_correlation.outcomes import outcomes
from undertow.studies.co_correlation.rise.claims import shares_of_rise
from undertow.studies.co_correlation.rise.figures import fig_3_width
from undertow.studies.co_correlation.robustness.claims import matched_pairs
from undertow.studies.kit.claim import Verdict

CLAIMS = {claim.id: claim.test for claim in STUDY.claims}
EPOCHS = 10


@dataclass(frozen=True)
class Network:
    """One network of a made-up grid; ``noise`` differs between seeds and is small."""

    activation: str
    width: int
    q: float
    seed: int

    @property
    def noise(self) -> float:
        return 0.003 * (self.seed - 4.5) / 2.5


Of = Callable[[Network], float]


def records(
    *,
    rho: Callable[[Network, float], float] = lambda n, t: 0.4 + 0.3 * t + n.noise,
    accuracy: Of = lambda n: 0.9 + n.noise,
    robust: Of = lambda n: 0.5 + n.noise,
    energy: Of = lambda n: 1.0,  # noqa: ARG005
    spread: Of = lambda n: 0.01 + 0.1 * abs(n.noise),
    gap: float = 1e-12,
    widths: tuple[int, ...] = (16, 64, 256, 1024),
    seeds: int = 10,
    variant: str = "paper",
) -> polars.DataFrame:
    """Records of a grid in which everything is a function of the network, and ϱ of the time t in [0, 1] too."""
    rows: list[dict[str, Any]] = []
    grid = [
        Network(activation, width, q, seed)
        for activation in ("linear", "relu")
        for width in widths
        for q in (-0.15, -0.05, 0.05, 0.15, 0.25)
        for seed in range(seeds)
    ]
    for net in grid:
        own = {"activation": net.activation, "width": net.width, "q": net.q, "seed": net.seed}
        own |= {"variant": variant, "data_name": "digits"}
        for epoch in range(EPOCHS + 1):
            readings = {
                ("collaboration", "activation:co_correlation"): rho(net, epoch / EPOCHS),
                ("collaboration", "activation:energy"): energy(net),
                ("collaboration", "activation:identity_gap"): gap,
                ("collaboration", "activation:relative_std"): spread(net),
                ("collaboration", "activation:linear_correlation"): 1.0 - 0.01 * spread(net),
                ("accuracy", ""): accuracy(net),
            }
            if epoch == EPOCHS:
                readings["robust-accuracy", "0.5"] = robust(net)
            rows += [
                {**own, "epoch": epoch, "measure": m, "key": k, "value": v} for (m, k), v in readings.items()
            ]
    return polars.DataFrame(rows)


def verdict(claim: str, frame: polars.DataFrame) -> Verdict:
    return CLAIMS[claim](frame).verdict


def test_outcomes_are_one_row_per_network_that_was_trained_to_the_end() -> None:
    frame = records()
    table = outcomes(frame)
    assert len(table) == 2 * 4 * 5 * 10
    assert table["rise"].to_list() == pytest.approx([0.3] * len(table))
    diverged = (polars.col("width") == 16) & (polars.col("seed") == 0) & (polars.col("epoch") > 4)
    assert len(outcomes(frame.filter(~diverged))) == len(table) - 10


def test_a_rise_holds_and_a_fall_fails() -> None:
    rising = records()
    falling = records(rho=lambda n, t: 0.9 - 0.3 * t + n.noise)
    for claim in ("C-e", "C-f.rise"):
        assert verdict(claim, rising) is Verdict.HOLDS
        assert verdict(claim, falling) is Verdict.FAILS
    one_width = records(rho=lambda n, t: 0.5 + (-0.1 if n.width == 256 else 0.3) * t + n.noise * t)
    assert verdict("C-e", one_width) is Verdict.FAILS  # one width that falls is enough
    assert CLAIMS["C-e"](one_width).effect == pytest.approx(-0.1)


def test_flatter_is_about_the_difference_between_linear_and_relu() -> None:
    frame = records(rho=lambda n, t: 0.3 + (0.5 if n.activation == "linear" else 0.2 + n.noise) * t)
    found = CLAIMS["C-f.flatter"](frame)
    assert found.verdict is Verdict.HOLDS
    assert found.effect == pytest.approx(0.3)
    assert verdict("C-f.flatter", records(rho=lambda n, t: 0.3 + (0.1 + n.noise) * t)) is Verdict.UNDECIDED


def test_narrow_networks_are_judged_by_their_own_rise_and_by_the_others() -> None:
    frame = records(rho=lambda n, t: 0.5 + (0.05 + n.noise if n.width <= 32 else 0.3) * t)
    assert verdict("C-g.exception", frame) is Verdict.FAILS  # they do rise
    assert verdict("C-g.less", frame) is Verdict.HOLDS
    falling = records(rho=lambda n, t: 0.5 + (n.noise - 0.05 if n.width <= 32 else 0.3) * t)
    assert verdict("C-g.exception", falling) is Verdict.HOLDS


def test_early_growth_is_measured_against_the_whole_rise() -> None:
    concave = records(rho=lambda n, t: 0.3 + 0.4 * min(1.0, 4 * t) + n.noise * t)
    shares = shares_of_rise(concave)
    assert shares["early"].to_list() == pytest.approx([0.8] * len(shares), abs=0.02)
    assert shares["late"].to_list() == pytest.approx([0.0] * len(shares), abs=0.02)
    assert verdict("C-h.early", concave) is Verdict.HOLDS
    assert verdict("C-h.saturates", concave) is Verdict.HOLDS
    even = records(rho=lambda n, t: 0.3 + (0.4 + n.noise) * t + 0.01 * n.noise * (t == 0.2))
    assert verdict("C-h.early", even) is Verdict.FAILS
    assert CLAIMS["C-h.saturates"](even).effect == pytest.approx(0.2, abs=0.01)
    diverged = (polars.col("width") == 16) & (polars.col("epoch") > 7)
    assert set(shares_of_rise(even.filter(~diverged))["width"]) == {64, 256, 1024}
    with pytest.raises(InputError, match="no network with q > 0 has a rise"):
        CLAIMS["C-h.early"](records(rho=lambda n, t: 0.5 + 0.01 * t))  # noqa: ARG005


def test_flat_below_zero_looks_at_the_worst_network() -> None:
    flat = records(rho=lambda n, t: 0.5 + (0.4 if n.q > 0 else 0.02) * t + n.noise * t)
    assert verdict("C-k.flat", flat) is Verdict.HOLDS
    assert verdict("C-k.contrast", flat) is Verdict.HOLDS
    assert "first above 0.05 at q = 0.05" in CLAIMS["C-k.flat"](flat).note
    one = records(rho=lambda n, t: 0.5 + (0.4 if n.q > 0 or n.width == 1024 else 0.02) * t + n.noise * t)
    assert verdict("C-k.flat", one) is Verdict.FAILS


def test_the_rise_with_width_and_with_q() -> None:
    frame = records(rho=lambda n, t: 0.2 + t * (n.width / 4096 + n.q + 0.2) + n.noise)
    for claim in ("C-i.linear", "C-i.relu", "C-j.linear", "C-j.relu"):
        found = CLAIMS[claim](frame)
        assert (found.verdict, found.effect, found.interval) == (Verdict.HOLDS, 1.0, (1.0, 1.0))
    reverse = records(rho=lambda n, t: 0.9 - t * (n.width / 4096 + n.q + 0.2))
    assert verdict("C-i.relu", reverse) is Verdict.FAILS
    assert verdict("C-j.relu", reverse) is Verdict.FAILS


def test_widths_never_stand_in_for_seeds() -> None:
    """Ten widths of one seed are one draw: they decide nothing, whatever they agree on."""
    widths = tuple(2**k for k in range(4, 14))
    rising = records(rho=lambda n, t: 0.2 + t * (n.q + 0.2 + n.width / 40960), widths=widths, seeds=1)
    for claim in ("C-e", "C-f.rise", "C-j.linear", "C-j.relu", "C-k.flat"):
        found = CLAIMS[claim](rising)
        assert (found.verdict, found.n, found.p) == (Verdict.UNDECIDED, 1, None), claim
        assert "1 seed is too few, 6 are needed" in found.note
    few = CLAIMS["C-e"](records(widths=widths, seeds=5))
    assert (few.verdict, few.n, few.p) == (Verdict.UNDECIDED, 5, None)
    assert CLAIMS["C-e"](records(widths=widths, seeds=6)).verdict is Verdict.HOLDS


def test_a_number_that_is_not_known_decides_nothing() -> None:
    """One network of one seed without a known ϱ: it is neither dropped nor taken for a number."""
    lost = (polars.col("width") == 64) & (polars.col("seed") == 3) & (polars.col("q") == 0.25)
    nan = polars.when(lost & polars.col("key").str.ends_with("co_correlation")).then(float("nan"))
    frame = records(rho=lambda n, t: 0.2 + t * (n.width / 4096 + n.q + 0.2) + n.noise)
    blank = frame.with_columns(value=nan.otherwise("value"))
    for claim in ("C-e", "C-f.rise", "C-i.linear", "C-j.relu"):
        assert verdict(claim, frame) is Verdict.HOLDS
        found = CLAIMS[claim](blank)
        assert (found.verdict, found.effect, found.p) == (Verdict.UNDECIDED, None, None), claim
        assert "1 of 10 seeds have no such number" in found.note


def test_a_seed_without_any_correlation_is_not_left_out() -> None:
    """Of a constant column no rank correlation is known: nine other seeds do not decide for the tenth."""
    flat = records(energy=lambda n: 1 + n.q, robust=lambda n: 0.5 - (n.q if n.seed else 0.0) + n.noise)
    found = CLAIMS["C-a.grid"](flat)
    assert (found.verdict, found.n) == (Verdict.UNDECIDED, 10)
    assert "1 of 10 seeds have no such number" in found.note


def test_energy_and_robustness_over_the_grid_within_a_width_and_at_equal_accuracy() -> None:
    """Accuracy moves both: over the grid the sign is one, within a width and among equals it is the other."""
    frame = records(
        energy=lambda n: n.width + n.q,
        accuracy=lambda n: 0.62 + n.width / 4096,
        robust=lambda n: n.width / 4096 + 0.1 * n.q + n.noise,
    )
    for claim in ("C-a.grid", "C-a.within-width", "C-a.matched"):
        assert verdict(claim, frame) is Verdict.FAILS
    frame = records(energy=lambda n: 1 + n.q, robust=lambda n: 0.5 - n.q + n.noise)
    for claim in ("C-a.grid", "C-a.within-width", "C-a.matched"):
        found = CLAIMS[claim](frame)
        assert found.verdict is Verdict.HOLDS
    assert "near chance left out" in CLAIMS["C-a.matched"](frame).note


def test_networks_at_chance_give_no_verdict_on_robustness() -> None:
    lazy = records(accuracy=lambda n: 0.52, energy=lambda n: n.q, robust=lambda n: -n.q)  # noqa: ARG005
    for claim in ("C-a.grid", "C-a.within-width", "C-a.matched", "C-r", "C-r.matched"):
        with pytest.raises(InputError, match="not a tenth above chance"):
            CLAIMS[claim](lazy)
    for claim in ("C-p", "C-q", "C-s.accuracy", "C-s.robust"):
        with pytest.raises(InputError, match="is a tenth above chance"):
            CLAIMS[claim](lazy)
    wide = records(accuracy=lambda n: 0.52, robust=lambda n: n.width / 4096, variant="authors")  # noqa: ARG005
    assert verdict("C-r", wide) is Verdict.HOLDS  # of ten classes 0.52 is far above chance


def test_width_and_robustness_also_among_networks_of_equal_accuracy() -> None:
    frame = records(robust=lambda n: 0.3 + n.width / 4096 + n.noise)
    assert verdict("C-r", frame) is Verdict.HOLDS
    assert verdict("C-r.matched", frame) is Verdict.HOLDS
    by_accuracy = records(accuracy=lambda n: 0.65 + n.width / 4096, robust=lambda n: n.width / 4096)
    assert verdict("C-r", by_accuracy) is Verdict.HOLDS
    pairs = matched_pairs(
        outcomes(by_accuracy).filter(polars.col("activation") == "relu"), same=("seed", "q")
    )
    assert set(zip(pairs["width"], pairs["width_b"], strict=True)) == {
        (16, 64)
    }  # 0.012 apart, the others more


def test_a_seed_without_a_matched_pair_leaves_the_claim_open() -> None:
    """Left out, the seeds that remain would be those that happen to have one."""
    frame = records(
        accuracy=lambda n: 0.65 + (n.width / 4096 + 0.3 * (n.q + 0.15) if n.seed == 0 else 0.0),
        robust=lambda n: 0.3 + n.width / 4096 + n.noise,
    ).filter((polars.col("seed") > 0) | polars.col("width").is_in([16, 1024]))
    found = CLAIMS["C-r.matched"](frame)
    assert (found.verdict, found.n) == (Verdict.UNDECIDED, 10)
    assert "1 of 10 seeds have no such number" in found.note


def test_accuracy_against_co_correlation_along_q() -> None:
    """Widest networks: accuracy falls as ϱ rises; narrow ones: both rise."""
    frame = records(
        rho=lambda n, t: 0.4 + t * (0.3 + n.q),
        accuracy=lambda n: 0.8 + (n.q if n.width <= 32 else -n.q),
    )
    assert (verdict("C-p", frame), verdict("C-q", frame)) == (Verdict.HOLDS, Verdict.HOLDS)
    assert "ϱ goes from 0.55 to 0.95 and accuracy from 0.95 to 0.55" in CLAIMS["C-p"](frame).note
    swapped = records(rho=lambda n, t: 0.4 + t * (0.3 + n.q), accuracy=lambda n: 0.8 - n.q)
    assert verdict("C-q", swapped) is Verdict.FAILS


def test_the_best_cell_is_found_by_its_rank() -> None:
    best = records(accuracy=lambda n: 0.7 + n.width / 8192 - n.q / 10, robust=lambda n: n.width / 2048 - n.q)
    for claim in ("C-s.accuracy", "C-s.robust"):
        found = CLAIMS[claim](best)
        assert (found.verdict, found.effect) == (Verdict.HOLDS, 0.0)
    worst = records(accuracy=lambda n: 0.9 - n.width / 8192 + n.q / 10)
    found = CLAIMS["C-s.accuracy"](worst)
    assert (found.verdict, found.effect) == (Verdict.FAILS, 1.0)


def test_the_most_robust_cell_is_sought_among_networks_that_learned() -> None:
    """Those that always say the same survive every attack, and would beat all others."""
    lazy = records(
        accuracy=lambda n: 0.5 if n.width == 16 else 0.9,
        robust=lambda n: 0.5 if n.width == 16 else 0.3 + n.width / 8192 - n.q / 10,
    )
    found = CLAIMS["C-s.robust"](lazy)
    assert (found.verdict, found.effect) == (Verdict.HOLDS, 0.0)
    assert "50 of 200 networks near chance left out" in found.note
    corner = records(accuracy=lambda n: 0.5 if (n.width, n.q) == (1024, -0.15) else 0.9)
    with pytest.raises(InputError, match=r"no network of width 1024, q = -0\.15 has learned"):
        CLAIMS["C-s.robust"](corner)
    once = records(
        accuracy=lambda n: 0.5 if (n.width, n.q, n.seed) == (1024, -0.15, 0) else 0.9,
        robust=lambda n: 0.9 - n.width / 2048,
    )
    assert CLAIMS["C-s.robust"](once).n == 9  # the seed without it does not count as a win


def test_the_identity_and_the_other_factors() -> None:
    assert verdict("C-c", records()) is Verdict.HOLDS
    assert verdict("C-c", records(gap=0.01)) is Verdict.FAILS
    assert verdict("C-d", records()) is Verdict.HOLDS
    scattered = records(spread=lambda n: 1.0 + n.noise if n.q < 0 else 0.01)
    assert verdict("C-d", scattered) is Verdict.HOLDS  # q = 0.25 alone
    assert verdict("C-d.all-q", scattered) is Verdict.FAILS


def test_figure_3_takes_the_papers_widths_where_it_can() -> None:
    assert [fig_3_width([2**k for k in range(4, 14)], panel) for panel in range(4)] == [32, 512, 2048, 8192]
    assert [fig_3_width([16, 64], panel) for panel in range(4)] == [16, 16, 64, 64]


def test_estimators_are_compared_with_equation_9() -> None:
    rows = [
        {
            "measure": "printed-collaboration",
            "key": key,
            "value": 0.5 * (1 + off) * (1 + 0.1 * seed),
            "width": 64,
            "seed": seed,
            "epoch": epoch,
            "data_name": "digits",
        }
        for key, off in (
            ("equation-9:auto", 0.0),
            ("algorithm-1:auto", -0.02),
            ("equation-9:power", 0.001),
            ("equation-9:power-authors", 0.005),
            ("algorithm-1:power", -0.019),
        )
        for seed in range(10)
        for epoch in (0, 1)
    ]
    frame = polars.DataFrame(rows)
    assert len(deviations(frame)) == 4 * 10 * 2
    plain_means = CLAIMS["C-u.algorithm-1"](frame)
    assert plain_means.verdict is Verdict.FAILS
    assert plain_means.effect == pytest.approx(0.02)
    assert CLAIMS["C-u.algorithm-2"](frame).verdict is Verdict.HOLDS
