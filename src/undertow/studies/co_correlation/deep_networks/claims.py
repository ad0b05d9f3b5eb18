"""The claims of Figure 2: at which cuts of a deep network ϱ rises, and what decides that it does.

The paper says that ϱ rises for both networks and both partitions. It names one of them (B1-B2, the cut after layer4)
and draws the other: its curve must be that of one of the nine cuts, or the settings behind it are not those known.
"""

from __future__ import annotations

import polars

from undertow.core.errors import InputError
from undertow.studies.co_correlation.deep_networks.parts import ALL, CUTS
from undertow.studies.co_correlation.setting import PAPER
from undertow.studies.kit.claim import SHARE, Finding
from undertow.studies.kit.data_names import on_data
from undertow.studies.kit.per_seed import by_value, mean, per_seed, verdict
from undertow.studies.kit.readings import after_training, before_and_after, compared, measured, split_key
from undertow.studies.kit.statements import Claims, PublishedNumbers

__all__ = ["CLAIMS", "PRINTED", "PUBLISHED", "at_cuts", "distances"]

CLAIMS = Claims(PAPER, parts=("deep-networks",), figure="fig-2b")
PUBLISHED = PublishedNumbers(PAPER, parts=("deep-networks",))
PRINTED = (0.23, 0.25)
"""Where the curve of A1-A2 begins and ends, as the axis of Figure 2b has it."""
NEAR = 0.01
"""Half of what that curve rises: a cut that is nearer at both ends could be the one that was drawn."""
_LAST = CUTS[-2]  # of 32×32 pictures the ninth cut is the eighth


def at_cuts(frame: polars.DataFrame) -> polars.DataFrame:
    """ϱ over training at the first eight cuts: network, cut, epoch, value."""
    rows = split_key(measured(frame, "seam-profile", what="a seam profile"), ["cut", "what"])
    network = ("architecture", "residual_start", "seed", "cut")
    chosen = rows.filter((polars.col("what") == "co_correlation") & (polars.col("cut") != ALL))
    return chosen.select(*network, "epoch", "value").sort(*network, "epoch")


def _rises(frame: polars.DataFrame) -> polars.DataFrame:
    network = ["architecture", "residual_start", "cut", "seed"]
    table = before_and_after(at_cuts(frame), by=network).drop_nulls()
    if table.is_empty():
        raise InputError("no network was measured before training and after it")
    return table


def _named(table: polars.DataFrame, value: str) -> str:
    return by_value(table, "cut", value=value, form="{place} {mean:+.3f}")


def _rise_at(frame: polars.DataFrame, cut: str) -> Finding:
    """Per seed ϱ after training less ϱ before it at one cut."""
    table = _rises(frame)
    own = table.filter(polars.col("cut") == cut)
    ends = f"from {mean(own['start']):.3f} to {mean(own['end']):.3f}"
    note = (
        f"effect: rise of ϱ at {cut}, {ends} on average",
        f"by cut {_named(table, 'rise')}",
        on_data(frame),
    )
    return verdict(own, "rise", above=0.0, note=note)


for _place, _cut in enumerate(CUTS[:-1], start=1):
    _where = f"cut after {_place} of ten modules" + (", B1-B2" if _cut == _LAST else "")
    CLAIMS.add(
        f"C-t.{_cut}",
        f"ϱ of ResNet-50 rises under Adam with the default start: {_where} ({_cut}).",
        "§6.1 and Fig 2c" if _cut == _LAST else "§6.1 and Fig 2b",
        figure="fig-2c" if _cut == _LAST else "fig-2b",
        cut=_cut,
    )(_rise_at)


@CLAIMS.add(
    "C-t.ninth",
    "The ninth cut is the eighth: pooling over one pixel changes nothing.",
    "Fig 2a",
    check="pictures of this size are one pixel behind layer4: both tails and both heads are the same maps",
)
def ninth_is_eighth(frame: polars.DataFrame) -> Finding:
    """Per seed the difference of ϱ at both cuts after training."""
    rows = after_training(frame, "seam-profile").filter(polars.col("key").str.starts_with(f"{ALL}:"))
    wide = rows.pivot("key", index="seed", values="value", aggregate_function="last")
    eighth, ninth = (polars.col(f"{ALL}:{cut}:co_correlation") for cut in CUTS[-2:])
    note = f"effect: difference of ϱ at {' and '.join(CUTS[-2:])}; {on_data(frame)}"
    return verdict(wide.select("seed", value=(ninth - eighth).abs()), below=0.03, note=note)


def distances(frame: polars.DataFrame) -> polars.DataFrame:
    """How far ϱ at every cut is from the printed curve, at its worse end: a row for each cut and seed."""
    begin, end = (polars.col(name) - at for name, at in zip(("start", "end"), PRINTED, strict=True))
    return _rises(frame).with_columns(value=polars.max_horizontal(begin.abs(), end.abs()))


@CLAIMS.add(
    "C-t.a1-a2",
    f"One of the cuts is A1-A2: ϱ goes from {PRINTED[0]} to {PRINTED[1]} there, to within {NEAR}.",
    "Fig 2b",
)
def is_one_of_the_cuts(frame: polars.DataFrame) -> Finding:
    """Per seed the distance of the cut that comes nearest on average over seeds."""
    table = distances(frame)
    means = table.group_by("cut").agg(polars.col("value", "start", "end").mean()).sort("value")
    nearest, _, begin, end = means.row(0)
    own = table.filter(polars.col("cut") == nearest)
    note = (
        f"effect: distance from the printed curve at its worse end, of the nearest cut, {nearest}: "
        f"{begin:.3f} to {end:.3f}",
        f"by cut {_named(table, 'value')}",
        on_data(frame),
    )
    return verdict(own, below=NEAR, within=SHARE, note=note)


@CLAIMS.add(
    "C-t.start-one",
    "The same at B1-B2 where residual branches start at scale 1.",
    "§6.1 and Fig 2c",
    parts=("deep-start",),
    figure="fig-2-start",
    cut=_LAST,
)
@CLAIMS.add(
    "C-t.wrn",
    "The same at B1-B2 for WRN-50.",
    "§6.1 and Fig 2c",
    parts=("deep-wide",),
    figure="fig-2-wide",
    cut=_LAST,
)
def rises_as_well(frame: polars.DataFrame, cut: str) -> Finding:
    """Per seed the rise at one cut of other networks."""
    return _rise_at(frame, cut)


@CLAIMS.add(
    "C-t.start",
    "The start decides: at B1-B2 ϱ rises more where residual branches start at 0 than where they start at 1.",
    "Fig 2c; both starts are called default, in timm and in torchvision",
    parts=("deep-networks", "deep-start"),
    figure="fig-2-start",
)
def depends_on_the_start(frame: polars.DataFrame) -> Finding:
    """Per seed the rise from 0 less the rise from 1."""
    table = _rises(frame)
    both = compared(table, "residual_start", 0.0, 1.0, value="rise", on=["cut", "seed"])
    own = both.filter(polars.col("cut") == _LAST)
    note = (
        f"effect: rise of ϱ at {_LAST} with branches from 0 less that from 1",
        f"{mean(own['one']):+.3f} beside {mean(own['other']):+.3f}",
        f"difference by cut {_named(both, 'difference')}",
        on_data(frame),
    )
    return verdict(own, "difference", above=0.0, note=note)


@CLAIMS.add(
    "C-t.statistics",
    "BatchNorm decides: at B1-B2 ϱ rises more where it stays as the first epoch left it than by the batch.",
    "Fig 2c; the authors' code measures in eval mode and stays there",
    parts=("deep-networks", "deep-statistics"),
    figure="fig-2-statistics",
)
def depends_on_the_statistics(frame: polars.DataFrame) -> Finding:
    """Per seed the rise with statistics of the first epoch less that with those of every batch."""
    parts = frame["part"].unique().to_list()
    table = polars.concat(
        _rises(frame.filter(polars.col("part") == part)).with_columns(part=polars.lit(part))
        for part in sorted(parts)
    )
    both = compared(table, "part", "deep-networks", "deep-statistics", value="rise", on=["cut", "seed"])
    own = both.filter(polars.col("cut") == _LAST)
    note = (
        f"effect: rise of ϱ at {_LAST} with BatchNorm of the first epoch less that with BatchNorm by the batch",
        f"{mean(own['one']):+.3f} beside {mean(own['other']):+.3f}",
        f"difference by cut {_named(both, 'difference')}",
        on_data(frame),
    )
    return verdict(own, "difference", above=0.0, note=note)


@PUBLISHED.add("ϱ of ResNet-50 at B1-B2 before training", "about 0.40", "Fig 2c, by its axis", column="start")
@PUBLISHED.add("ϱ of ResNet-50 at B1-B2 after training", "up to 0.70", "Fig 2c, by its axis", column="end")
def at_the_last_cut(frame: polars.DataFrame, column: str) -> list[float | None]:
    """At the cut after layer4."""
    return per_seed(_rises(frame).filter(polars.col("cut") == _LAST), column)


@PUBLISHED.add("ϱ of ResNet-50 at A1-A2 before training", "0.23", "Fig 2b, by its axis", column="start")
@PUBLISHED.add("ϱ of ResNet-50 at A1-A2 after training", "0.25", "Fig 2b, by its axis", column="end")
def at_the_nearest_cut(frame: polars.DataFrame, column: str) -> list[float | None]:
    """At the cut whose curve comes nearest, seed by seed."""
    nearest = distances(frame).sort("value").group_by("seed", maintain_order=True).first()
    return per_seed(nearest, column)
