"""Deeper networks: Theorem 4.5 telescoped along a chain of modules, an energy budget by depth.

The paper says that its analysis extends to more layers and leaves it at that. With the head at seam l the module
f_{l+1} and the tail everything before it,

    S(net) = Π_l S(f_l) · Π_l ϱ_l √(1 + var_l/μ_l²) ρ_l.

Fully connected ReLU networks with He's initialisation; all layers are trained, as nothing says which to keep.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow.core.errors import InputError
from undertow.drawing.titles import small_title
from undertow.studies.co_correlation.evidence import verdict
from undertow.studies.co_correlation.setting import PAPER, data_names, shared
from undertow.studies.kit.claim import Claim, Finding
from undertow.studies.kit.study import Figure, Scale

if TYPE_CHECKING:
    import altair
    import polars

__all__ = ["CLAIMS", "FIGURES", "budget", "depth"]

_SIZES: dict[Scale, dict[str, int]] = {
    "smoke": {"width": 32, "seeds": 10, "points": 12},
    "laptop": {"width": 64, "seeds": 10, "points": 40},
    "paper": {"width": 512, "seeds": 10, "points": 10_000},
}


def depth(scale: Scale, variant: str) -> dict[str, Any]:
    """Three and four hidden layers of one width."""
    size = _SIZES[scale]
    sections = shared(scale, variant)
    hidden = [[size["width"]] * layers for layers in (3, 4)]
    return {
        "data": sections["data"],
        "model": {"name": "mlp", "widths": hidden[0], "activation": "relu", "init": {"name": "he"}},
        "training": {**sections["training"], "frozen": []},
        "probe": {
            "measures": ["chain", "accuracy"],
            "every": "epoch",
            "split": "test",
            "limit": size["points"],
        },
        "grid": {
            "data.name": [sections["data"]["name"]],
            "widths": hidden,
            "seed": list(range(size["seeds"])),
        },
    }


def budget(frame: polars.DataFrame) -> polars.DataFrame:
    """Every factor of S(net) at every moment: layers, seed, epoch, place, factor, value.

    ``place`` numbers modules and seams from the input: module I, then seam I, then module I + 1.
    """
    import polars

    rows = frame.filter(polars.col("measure") == "chain")
    if rows.is_empty():
        raise InputError("no record of a chain")
    names = {"co_correlation": "ϱ", "relative_std": "√(1+var/μ²)", "linear_correlation": "ρ", "module": "S"}
    key = polars.col("key").str.split_exact(":", 1).struct.rename_fields(["where", "what"])
    rows = (
        rows.with_columns(key.alias("split"), layers=polars.col("widths").list.len())
        .unnest("split")
        .filter(polars.col("what").is_in(list(names)))
    )
    spread = (1 + polars.col("value") ** 2).sqrt()
    return rows.select(
        "layers",
        "seed",
        "epoch",
        polars.col("where").str.extract(r"(\d+)").cast(polars.Int64).alias("place"),
        polars.col("what").replace_strict(names).alias("factor"),
        polars.when(polars.col("what") == "relative_std").then(spread).otherwise("value").alias("value"),
    ).sort("layers", "seed", "epoch", "factor", "place")


def exact(frame: polars.DataFrame) -> Finding:
    """Per seed the largest relative gap of the telescoped identity, over depths and training."""
    import polars

    gaps = frame.filter((polars.col("measure") == "chain") & (polars.col("key") == "identity_gap"))
    if gaps.is_empty():
        raise InputError("no record of a chain")
    note = f"effect: largest relative gap over {len(gaps)} measurements, 3 and 4 hidden layers; {data_names(frame)}"
    return verdict(gaps.select("seed", "value"), over="max", below=1e-6, note=note)


def rises(frame: polars.DataFrame) -> Finding:
    """Per seed the smallest rise of ϱ over all seams of both networks."""
    import polars

    table = budget(frame).filter(polars.col("factor") == "ϱ")
    value, epoch = polars.col("value"), polars.col("epoch")
    last: Any = table["epoch"].max()
    rise = table.group_by("layers", "place", "seed").agg(
        value=value.filter(epoch == last).first() - value.filter(epoch == 0).first()
    )
    means = rise.group_by("layers", "place").agg(value.mean()).sort("layers", "place")
    parts = ", ".join(
        f"{layers} layers, seam {place}: {mean:+.2f}" for layers, place, mean in means.iter_rows()
    )
    note = f"effect: smallest rise of ϱ over the seams; {parts}; {data_names(frame)}"
    return verdict(rise.drop_nulls(), over="min", above=0.0, note=note)


def by_depth(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """ln of every factor of S(net), before and after training, in the order of the chain."""
    import altair
    import polars

    from undertow.drawing.palette import KINDS

    table = budget(frame)
    last: Any = table["epoch"].max()
    ends = table.filter(polars.col("epoch").is_in([0, last]))
    rows = (
        ends.group_by("layers", "epoch", "place", "factor")
        .agg(
            value=polars.col("value").log().mean(),
            low=polars.col("value").log().min(),
            high=polars.col("value").log().max(),
        )
        .with_columns(
            moment=polars.when(polars.col("epoch") == 0)
            .then(polars.lit("before"))
            .otherwise(polars.lit("after")),
            network=polars.format("{} hidden layers", "layers"),
            # the module before a seam is numbered from 0, the seam itself from 1
            where=polars.when(polars.col("factor") == "S")
            .then(polars.format("module {}", polars.col("place") + 1))
            .otherwise(polars.format("seam {}", "place")),
            position=polars.when(polars.col("factor") == "S")
            .then(2 * polars.col("place"))
            .otherwise(2 * polars.col("place") - 1),
        )
        .sort("layers", "position", "factor", "epoch")
    )
    order = rows.select("where", "position").unique().sort("position")["where"].to_list()
    factors = ["S", "ϱ", "√(1+var/μ²)", "ρ"]
    palette = altair.Scale(domain=factors, range=list(KINDS[:4]))
    colour = altair.Color("factor:N", sort=factors, scale=palette)
    tooltip: list[Any] = ["network:N", "where:N", "factor:N", "moment:N"]
    tooltip += [altair.Tooltip(f"{name}:Q", format="+.3f") for name in ("value", "low", "high")]
    base = altair.Chart().encode(
        altair.X("where:N", sort=order, title=None, axis=altair.Axis(labelAngle=-40)), colour, tooltip=tooltip
    )
    points = base.mark_point(size=60).encode(
        altair.Y("value:Q", title="ln of the factor; the sum is ln S(net)"),
        altair.Shape(
            "moment:N",
            sort=["before", "after"],
            title="training",
            scale=altair.Scale(domain=["before", "after"], range=["circle", "triangle-up"]),
        ),
        altair.FillOpacity(
            "moment:O", scale=altair.Scale(domain=["before", "after"], range=[0.0, 1.0]), legend=None
        ),
        altair.Fill("factor:N", sort=factors, scale=palette),
    )
    spread = base.mark_rule(strokeWidth=1).encode(
        altair.Y("low:Q"), altair.Y2("high:Q"), altair.Detail("moment:N")
    )
    zero = altair.Chart().mark_rule(color="#888", strokeWidth=0.6).encode(y=altair.datum(0))
    seeds = table["seed"].n_unique()
    chart: Any = (
        altair.layer(zero, spread, points, data=altair.InlineData(values=rows.to_dicts()))
        .properties(width=380, height=240)
        .facet(column=altair.Column("network:N", title=None))
        .resolve_scale(x="independent")
        .properties(
            title=small_title(
                f"Energy budget by depth, {data_names(frame)}; mean of {seeds} seeds, line: smallest to largest"
            )
        )
    )
    drawn: altair.TopLevelMixin = chart
    return drawn


FIGURES = (
    Figure("depth-budget", "Energy budget by depth: every factor of S(net)", by_depth, parts=("depth",)),
)
CLAIMS = (
    Claim(
        "C-c.chain",
        "Theorem 4.5, applied at every seam of a deeper network, stays exact.",
        f"{PAPER}, Theorem 4.5, telescoped",
        exact,
        parts=("depth",),
        figure="depth-budget",
        check="an identity: the factors are defined so that they telescope, and their gap is rounding",
    ),
    Claim(
        "C-f.depth",
        "In networks with three and four hidden layers ϱ rises at every seam.",
        f"{PAPER}, §5.1 and §7 (extension to more layers)",
        rises,
        parts=("depth",),
        figure="depth-budget",
    ),
)
