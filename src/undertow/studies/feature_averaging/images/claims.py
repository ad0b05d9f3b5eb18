"""F-n: trained on ten classes a network is more robust at the binary task than on two, by five ways of attacking."""

from __future__ import annotations

import numpy as np
import polars

from undertow.core.errors import InputError
from undertow.studies.kit.claim import Finding, decide
from undertow.studies.kit.data_names import written
from undertow.studies.kit.per_seed import mean
from undertow.studies.kit.readings import after_training, compared, split_key
from undertow.studies.kit.statements import Claims

__all__ = ["CLAIMS", "accuracies"]

_WAYS = {
    "readout": ("attacked at its read-out Σ−Σ (AutoAttack's gradient attacks)", "sum:gradient"),
    "autoattack": ("attacked at its read-out Σ−Σ (all of AutoAttack)", "sum:autoattack"),
    "pgd": ("attacked at its read-out Σ−Σ (PGD)", "sum:pgd"),
    "argmax": ("decided by its largest class (AutoAttack's gradient attacks)", "max:gradient"),
    "native": ("attacked through its own training loss (PGD)", "native"),
}
_PLACES = {
    "images": ("", "parity of MNIST or digits", list(_WAYS)),
    # Square would take most of the time.
    "cifar": (
        "-cifar",
        "first against last five classes of CIFAR-10",
        [way for way in _WAYS if way != "autoattack"],
    ),
}

CLAIMS = Claims(
    "Li, Pan, Lyu & Li 2025, slides, Fig 2",
    hindsight="areas were taken after means over radii had turned out to depend on the radii",
)


def accuracies(frame: polars.DataFrame) -> polars.DataFrame:
    """After training: kind (two, ten), data_name, seed, how (sum:pgd, native, …), radius and accuracy (``value``)."""
    column = polars.col
    table = (
        split_key(after_training(frame, "supervision"), ["how", "radius"], at="@")
        .with_columns(column("radius").cast(polars.Float64), kind=column("part").str.tail(3))
        .select("kind", "data_name", "seed", "how", "radius", "value")
    )
    read_out = table.filter(column("how") == "sum:gradient")
    # One logit is a single decision: the largest class is the read-out. And before any attack every decision is.
    one = read_out.filter(column("kind") == "two").with_columns(how=polars.lit("max:gradient"))
    clean = read_out.filter(column("radius") == 0).with_columns(how=polars.lit("native"))
    return polars.concat([table, one, clean]).sort("kind", "seed", "how", "radius")


def gain(frame: polars.DataFrame, how: str) -> Finding:
    """Per seed how much farther ten-class networks hold out than two-class ones, in pixels.

    The area under robust accuracy up to the largest ε is the mean distance of the closest error found, errors beyond
    it counted there: unlike a mean over radii it does not depend on which of them were looked at. Where only some
    radii were attacked (all of AutoAttack), the effect is the mean difference at these.
    """
    column, table = polars.col, accuracies(frame)
    chosen = table.filter(column("how") == how)
    if not (chosen["radius"] > 0).any():
        raise InputError(f"no record of {how}: not every scale runs every attack")
    both = compared(chosen, "kind", "ten", "two", value="value", on=["seed", "radius"])
    if 2 * len(both) != len(chosen):  # an area with a radius left out would be another one
        raise InputError(f"{how} has records of one kind of networks where the other has none")
    whole = 0.0 in both["radius"]
    values = [
        float(np.trapezoid(one["difference"], one["radius"])) if whole else mean(one["difference"])
        for one in both.partition_by("seed", maintain_order=True)
    ]
    by_radius = both.group_by("radius").agg(column("difference").mean()).sort("radius")
    points = ", ".join(f"{100 * more:+.0f} at {radius:g}" for radius, more in by_radius.rows())
    clean = table.filter(column("radius") == 0)
    two, by_sum, by_largest = (
        mean(clean.filter(column("kind") == kind, column("how") == f"{key}:gradient")["value"])
        for kind, key in (("two", "sum"), ("ten", "sum"), ("ten", "max"))
    )
    effect = "mean distance of the closest error, in pixels" if whole else "robust accuracy"
    note = (
        f"effect: {effect}, ten-class less two-class supervision; points of accuracy by ε: {points}; clean {two:.3g} "
        f"(two), {by_sum:.3g} (ten, by Σ−Σ), {by_largest:.3g} (ten, by the largest); on {written(table['data_name'])}"
    )
    return decide(values, above=0.0, note=note)


for figure, (suffix, where, ways) in _PLACES.items():
    for way in ways:
        told, key = _WAYS[way]
        CLAIMS.add(
            f"F-n.{way}{suffix}",
            f"Trained on ten classes a network is more robust at the binary task than on two, {told}; {where}.",
            parts=(f"{figure}-two", f"{figure}-ten"),
            figure=figure,
            how=key,
        )(gain)
