"""F-o and F-p: close to averaged features for p = 1, to one feature each for p ≥ 3, and more robust then."""

from __future__ import annotations

import polars

from undertow.studies.kit.claim import SHARE, Finding
from undertow.studies.kit.per_seed import verdict
from undertow.studies.kit.readings import after_training, compared, split_key
from undertow.studies.kit.statements import Claims

__all__ = ["CLAIMS", "SMALL", "distances"]

SMALL = 0.25
"""What "much smaller than 1" is read as."""

CLAIMS = Claims(
    "Min & Vidal 2024, Conjecture 1; Li 2024 talk, GD learns Average Features",
    parts=("min-vidal",),
    figure="min-vidal",
)


@CLAIMS.add(
    "F-o",
    "For p = 1 the trained network is close to the averaged-feature function F.",
    target="averaged",
)
@CLAIMS.add(
    "F-p",
    "For p ≥ 3 the trained network is close to F^(p), one feature per cluster.",
    target="decoupled",
)
def is_close(frame: polars.DataFrame, target: str) -> Finding:
    """Per seed the relative distance of the conjecture's networks to the target, the largest over powers and noises."""
    power, aim = polars.col("power"), polars.col("target")
    table = distances(frame).filter(power == 1 if target == "averaged" else power >= 3)
    chosen, other = table.filter(aim == target), table.filter(aim != target)
    # Both ends of the bracket have one unit: upper/lower is the same relative to sup |F|.
    proved = max((chosen["upper"] * chosen["relative"] / chosen["lower"]).drop_nans().to_list(), default=1.0)
    note = (
        f"effect: distance to the {target} features relative to sup |F|, largest over the noises and p = "
        f"{', '.join(f'{p:g}' for p in table['power'].unique().sort())}; to the other kind it is "
        f"{min(other['relative'].to_list()):.2g} or more; a lower bound, found by ascent; proved is no more than "
        f"{proved:.2g}"
    )
    return verdict(chosen, "relative", over="max", below=SMALL, within=SHARE, note=note)


@CLAIMS.add(
    "F-p.robust",
    "pReLU networks with p = 3 are more robust than ReLU networks on the same data.",
    source="Min & Vidal 2024, abstract",
    figure="min-vidal-robust",
)
def more_robust(frame: polars.DataFrame) -> Finding:
    """Per seed the mean over radii and noises of robust accuracy, p = 3 less p = 1."""
    by_power = after_training(frame, "robust-accuracy").group_by("seed", "power")
    means = by_power.agg(polars.col("value").mean())
    both = compared(means, "power", 3.0, 1.0, value="value", on=["seed"])
    note = "effect: robust accuracy of p = 3 less that of p = 1, mean over ε up to 0.7"
    return verdict(both, "difference", above=0.0, note=note)


def distances(frame: polars.DataFrame) -> polars.DataFrame:
    """After training: power, sigma, seed, target (averaged, decoupled), lower, upper and relative distance."""
    table = split_key(after_training(frame, "feature-distance"), ["target", "side"])
    index = ["power", "sigma", "target", "seed"]
    return table.pivot("side", index=index, values="value").sort(index)
