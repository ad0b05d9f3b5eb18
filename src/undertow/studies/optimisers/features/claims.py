"""O-i: feature averaging happens under every rule; O-j: co-correlation rises under every rule."""

from __future__ import annotations

import polars

from undertow.core.errors import InputError
from undertow.studies.kit.claim import CORRELATION, Finding
from undertow.studies.kit.per_seed import mean, verdict
from undertow.studies.kit.readings import after_training, measured
from undertow.studies.kit.statements import Claims
from undertow.studies.optimisers.features.parts import EQUAL_LOSS, EVERY_RULE, PARTS, PICTURES
from undertow.studies.optimisers.margin_tables import NETWORK, with_rules
from undertow.studies.optimisers.rules import RULES

__all__ = ["ALIGNED", "CLAIMS", "NUMBERS", "described"]

ALIGNED = 0.95
"""The line of feature averaging's own claim (F-e)."""

NUMBERS = {
    "co_correlation": "co-correlation ϱ",
    "energy": "energy",
    "rank": "stable rank",
    "sharpness": "sharpness",
    "accuracy": "accuracy",
    "loss": "training loss",
}
"""What networks on pictures are described by."""

CLAIMS = Claims()


def averages(frame: polars.DataFrame) -> Finding:
    """Per seed the smallest cosine of a neuron with the sum of its class's features, against 0.95."""
    loss = mean(after_training(frame, "loss", "mean")["value"])
    note = (
        "effect: smallest cosine of a neuron with its Σμ_j",
        f"mean cosine with a single μ_j {mean(after_training(frame, 'feature-cosines', 'own_mean')['value']):.2f}",
        f"loss {loss:.2g}",
    )
    aligned = after_training(frame, "feature-cosines", "aligned")
    return verdict(aligned, above=ALIGNED, within=CORRELATION, note=note)


def described(frame: polars.DataFrame) -> polars.DataFrame:
    """kind, rule, seed and each of ``NUMBERS`` after training, at equal loss; ``rise_…`` is what it gained.

    The rank is the stable rank of the first layer's weights.
    """
    named = with_rules(frame)
    key = polars.col("key")
    names = {
        "collaboration": key.str.split(":").list.last(),
        "stable-rank": polars.when(key == key.first().over("trial")).then(polars.lit("rank")),
        **{name: polars.lit(name) for name in ("sharpness", "accuracy")},
        "loss": polars.when(key == "mean").then(polars.lit("loss")),
    }
    tables = [
        measured(named, name).with_columns(number=number).drop_nulls("number")
        for name, number in names.items()
    ]
    rows = polars.concat(tables).filter(polars.col("number").is_in(NUMBERS)).sort("step")
    value = polars.col("value")
    ends = rows.group_by(*NETWORK, "number").agg(end=value.last(), rise=value.last() - value.first())
    wide = ends.pivot("number", index=list(NETWORK), values=["end", "rise"])
    return wide.rename({f"end_{name}": name for name in NUMBERS if f"end_{name}" in wide.columns})


def rises(frame: polars.DataFrame) -> Finding:
    """Per seed the co-correlation when the training loss is 0.2, minus that before, against 0."""
    table = described(frame)
    behind = int((table["loss"] > 1.1 * 10**EQUAL_LOSS).sum())
    if behind:
        raise InputError(f"{behind} of {len(table)} networks did not come to a loss of 0.2: train longer")
    note = (
        "effect: co-correlation after training minus before",
        f"training loss {mean(table['loss']):.2f}, accuracy {mean(table['accuracy']):.2f}",
        f"stable rank {mean(table['rank']):.1f}, sharpness {mean(table['sharpness']):.3g}",
    )
    return verdict(table, "rise_co_correlation", above=0.0, note=note, within=CORRELATION)


for _rule in EVERY_RULE:
    CLAIMS.add(
        f"O-i.{_rule}",
        f"Features are averaged by {RULES[_rule].title} too.",
        source="Li, Pan, Lyu & Li 2025, for gradient descent",
        parts=(f"clusters-{_rule}",),
        figure="averaging",
    )(averages)
    for _name, _what in PICTURES.items():
        if f"{_name}-{_rule}" in PARTS:
            CLAIMS.add(
                f"O-j.{'' if _name == 'digits' else f'{_name}-'}{_rule}",
                f"Co-correlation rises under {RULES[_rule].title} too ({_what}).",
                source="Wang, Min & Ruan 2024, for gradient descent",
                parts=(f"{_name}-{_rule}",),
                figure=f"pictures-{_name}",
            )(rises)
