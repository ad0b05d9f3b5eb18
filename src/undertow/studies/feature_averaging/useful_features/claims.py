"""F-u: centres are robust features and their average is not, by two readings; F-v: adversarial labels suffice."""

from __future__ import annotations

import polars

from undertow.studies.feature_averaging.useful_features.parts import SOURCES, STRENGTH
from undertow.studies.kit.claim import SHARE, Finding
from undertow.studies.kit.per_seed import by_value, mean, verdict
from undertow.studies.kit.readings import after_training, compared, largest, side_by_side
from undertow.studies.kit.statements import Claims

__all__ = ["CLAIMS", "accuracies"]

CLAIMS = Claims("Ilyas et al. 2019; Li 2024 talk", parts=("useful-features",), figure="useful-features")
_NAMED = {"clusters": "D_binary", "digits": "digits", "mnist": "MNIST"}
_CHANCE = {"clusters": 0.5, "digits": 0.1, "mnist": 0.1}


@CLAIMS.add(
    "F-u.all",
    "Cluster centres are robust features and their average is not, with E[y f] over all points, as they write it.",
    "§2 (Definitions)",
    points="all",
)
@CLAIMS.add(
    "F-u.own",
    "Cluster centres are robust features and their average is not, with E[y f] given the feature's own cluster.",
    "§2 (Definitions), conditioned",
    check="orthogonal centres give E[y f] of √d and √(d/k) in closed form, and ε was put between them",
    points="own",
)
def centres_not_averages(frame: polars.DataFrame, points: str) -> Finding:
    """Per seed the smaller of γ of a centre and −γ of the average at ε = ¾√d: positive where both parts are so."""
    table = side_by_side(frame, "useful-features", by=["seed"])
    centre, average = (table[f"{feature}:{points}:robust"] for feature in ("centre", "average"))
    both = polars.min_horizontal(f"centre:{points}:robust", -polars.col(f"average:{points}:robust"))
    useful = ", ".join(
        f"{feature} {mean(table[f'{feature}:{points}:useful']):.3f}"
        for feature in ("centre", "average", "neuron")
    )
    note = (
        f"effect: smaller of γ of centres and −γ of the average, in √d, at ε = {STRENGTH:g} √d",
        f"γ of centres {mean(centre):+.3f}, of the average {mean(average):+.3f}",
        f"E[y f] without attack: {useful}",
    )
    return verdict(table.with_columns(value=both), above=0.0, note=note)


def accuracies(frame: polars.DataFrame) -> polars.DataFrame:
    """Clean test accuracy of networks trained on relabelled points: targets, eps, seed, value."""
    return (
        after_training(frame, "accuracy")
        .select("targets", "eps", "seed", "value")
        .sort("targets", "eps", "seed")
    )


def learns_from_noise(frame: polars.DataFrame, where: str, targets: str) -> Finding:
    """Per seed clean accuracy at the largest ε: less the control's (random targets), or itself (deterministic ones)."""
    table = accuracies(frame).filter(polars.col("targets") == targets)
    by_eps = by_value(table, "eps", form="{place:.3g}: {mean:.3f}")
    told = f"clean accuracy by ε: {by_eps} (0 is the control, chance {_CHANCE[where]:g})"
    if targets == "deterministic":
        note = ("effect: accuracy on clean points, where only wrong labels were seen", told)
        return verdict(largest(table, "eps"), above=_CHANCE[where], within=SHARE, note=note)
    most = float(table["eps"].to_numpy().max())
    pairs = compared(table, "eps", most, 0.0, value="value", on=["seed"])
    note = ("effect: accuracy on clean points less that of the control, labels at random", told)
    return verdict(pairs, "difference", above=0.0, note=note)


for _source in SOURCES:
    for _targets in ("random", "deterministic"):
        CLAIMS.add(
            f"F-v.{_targets}-{_source}",
            f"A network trained on adversarial points with the adversary's labels alone ({_targets} targets) "
            f"classifies clean points ({_NAMED[_source]}).",
            "§3.2",
            source="Ilyas et al. 2019",
            parts=(f"relabelled-{_source}",),
            figure=f"relabelled-{_source}",
            targets=_targets,
            where=_source,
        )(learns_from_noise)
