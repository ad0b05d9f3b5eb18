"""C-z: what holding ϱ or S down buys at equal clean accuracy, beside weight decay and adversarial training."""

from __future__ import annotations

from typing import Any

import polars

from undertow.core.errors import InputError
from undertow.studies.co_correlation.acting.parts import EPS, PLACES, parts_of
from undertow.studies.kit.claim import Finding
from undertow.studies.kit.data_names import on_data
from undertow.studies.kit.per_seed import mean, verdict
from undertow.studies.kit.readings import after_training
from undertow.studies.kit.statements import Claims

__all__ = ["ALLOWED", "CLAIMS", "best_on_front", "networks"]

ALLOWED = 0.01
"""How much clean accuracy a method may cost, against the plain network of the same seed."""
_NAMED = {"digits": "digits", "mnist": "MNIST", "cifar": "CIFAR-10"}
_PENALTIES = ("jacobian", "energy", "collaboration")
_ASKED = {
    "co-correlation": ("collaboration", "attacked", "Holding ϱ down while training buys attacked"),
    "co-correlation-certified": (
        "collaboration",
        "certified",
        "Holding ϱ down while training buys certified",
    ),
    "energy": ("energy", "attacked", "Holding the energy S down while training buys attacked"),
    "energy-certified": ("energy", "certified", "Holding the energy S down while training buys certified"),
}
_BY = ("method", "strength", "seed")

CLAIMS = Claims("ours, after Wang, Min & Ruan 2024, §7")


def networks(frame: polars.DataFrame) -> polars.DataFrame:
    """A row per network: method, strength, seed; ``clean``, ``attacked``, ``certified`` accuracy; ϱ and S."""
    axes = [name for name in ("weight", "weight_decay", "eps") if name in frame.columns]
    named = frame.with_columns(
        method=polars.col("part").str.split("-").list.last(), strength=polars.coalesce(axes)
    )
    keys = {
        "clean": ("accuracy", ""),
        "attacked": ("robust-accuracy", ""),
        "certified": ("certified-accuracy", ""),
    }
    keys |= {"ϱ": ("collaboration", ":co_correlation"), "S": ("collaboration", ":energy")}
    table: polars.DataFrame | None = None
    for column, (measure, ending) in keys.items():
        rows = after_training(named, measure).filter(polars.col("key").str.ends_with(ending))
        own = rows.select(*_BY, polars.col("value").alias(column))
        table = own if table is None else table.join(own, on=_BY)
    assert table is not None
    return table.sort(_BY)


def best_on_front(table: polars.DataFrame, method: str, side: str) -> polars.DataFrame:
    """Of every seed the method's best network, its plain one included, among those that are accurate enough."""
    column = polars.col
    plain = table.filter(column("method") == "decay", column("strength") == 0)
    if plain.is_empty():
        raise InputError("no record of networks trained plainly")
    floor = plain.select("seed", floor=column("clean") - ALLOWED)
    own = polars.concat([plain, table.filter(column("method") == method)]).unique(_BY).join(floor, on="seed")
    enough = own.filter(column("clean") >= column("floor") - 1e-12)
    return (
        enough.sort(side, "clean", descending=True).group_by("seed", maintain_order=True).first().sort("seed")
    )


def buys(frame: polars.DataFrame, method: str, side: str, place: str) -> Finding:
    """Per seed the method's best share on its front less weight decay's, at clean accuracy within a point of plain."""
    table = networks(frame)
    own, decay = (best_on_front(table, each, side) for each in (method, "decay"))
    both = own.join(decay.select("seed", than=side), on="seed").with_columns(
        value=polars.col(side) - polars.col("than")
    )
    plain = table.filter(polars.col("method") == "decay", polars.col("strength") == 0)
    note = (
        f"effect: {side} accuracy at ε = {EPS[place]:g} less that of weight decay",
        f"{mean(own[side]):.3f} against {mean(both['than']):.3f}, plain {mean(plain[side]):.3f}",
        f"ϱ {mean(plain['ϱ']):.2f} → {mean(own['ϱ']):.2f}, S {mean(plain['S']):.3g} → {mean(own['S']):.3g}",
        f"clean {mean(plain['clean']):.3f} → {mean(own['clean']):.3f}",
        on_data(frame),
    )
    return verdict(both, above=0.0, note=note)


def ceiling(frame: polars.DataFrame, place: str) -> Finding:
    """Per seed the attacked accuracy of adversarial training less that of the best penalty."""
    table = networks(frame)
    best = polars.concat([best_on_front(table, method, "attacked") for method in _PENALTIES])
    top = best.group_by("seed").agg(than=polars.col("attacked").max())
    both = best_on_front(table, "adversary", "attacked").join(top, on="seed")
    means = ", ".join(
        f"{method} {mean(best_on_front(table, method, 'attacked')['attacked']):.3f}"
        for method in ("decay", *_PENALTIES, "adversary")
    )
    note = (
        f"effect: attacked accuracy at ε = {EPS[place]:g} less that of the best penalty",
        means,
        on_data(frame),
    )
    return verdict(both.with_columns(value=polars.col("attacked") - polars.col("than")), above=0.0, note=note)


for _where in PLACES:
    _shared: dict[str, Any] = {"parts": parts_of(_where), "figure": f"acting-{_where}", "place": _where}
    for _name, (_method, _side, _text) in _ASKED.items():
        CLAIMS.add(
            f"C-z.{_name}-{_where}",
            f"{_text} robust accuracy beyond weight decay's, at equal clean accuracy ({_NAMED[_where]}).",
            method=_method,
            side=_side,
            **_shared,
        )(buys)
    CLAIMS.add(
        f"C-z.ceiling-{_where}",
        f"Adversarial training buys more attacked robust accuracy than any of the penalties ({_NAMED[_where]}).",
        **_shared,
    )(ceiling)
