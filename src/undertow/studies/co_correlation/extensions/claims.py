"""The claims beyond the paper's networks: ϱ rises for other activations and at every seam of deeper networks."""

from __future__ import annotations

from typing import Any

import polars

from undertow.studies.co_correlation.outcomes import NETWORK, trajectories
from undertow.studies.co_correlation.setting import PAPER
from undertow.studies.kit.claim import Finding
from undertow.studies.kit.data_names import on_data
from undertow.studies.kit.per_seed import by_value, verdict
from undertow.studies.kit.readings import before_and_after, measured, split_key
from undertow.studies.kit.statements import Claims

__all__ = ["CLAIMS", "budget"]

CLAIMS = Claims(PAPER)
_DEEP: dict[str, Any] = {"parts": ("depth",), "figure": "depth-budget"}


@CLAIMS.add(
    "C-f.activations",
    "ϱ rises during training for every activation with a bounded derivative: ReLU, leaky ReLU, tanh, GELU.",
    "Theorem 5.5 and Assumption 5.4",
    parts=("activations",),
    figure="activations",
)
def rises_for_all(frame: polars.DataFrame) -> Finding:
    """Per seed the smallest rise over the four activations."""
    rise = before_and_after(trajectories(frame, "co_correlation"), by=NETWORK).drop_nulls()
    parts = by_value(rise, "activation", value="rise", form="{place} {mean:+.3f}")
    where = f"width {frame['width'][0]}, q = 0.25"
    note = ("effect: smallest rise of ϱ over the activations", parts, where, on_data(frame))
    return verdict(rise, "rise", over="min", above=0.0, note=note)


@CLAIMS.add(
    "C-c.chain",
    "Theorem 4.5, applied at every seam of a deeper network, stays exact.",
    "Theorem 4.5, telescoped",
    check="an identity: the factors are defined so that they telescope, and their gap is rounding",
    **_DEEP,
)
def chain_is_exact(frame: polars.DataFrame) -> Finding:
    """Per seed the largest relative gap of the telescoped identity, over depths and training."""
    gaps = measured(frame, "chain", "identity_gap", what="a chain")
    note = (
        f"effect: largest relative gap over {len(gaps)} measurements, 3 and 4 hidden layers; {on_data(frame)}"
    )
    return verdict(gaps, over="max", below=1e-6, note=note)


def budget(frame: polars.DataFrame) -> polars.DataFrame:
    """Every factor of S(net) at every moment: layers, seed, epoch, place, factor, value.

    ``place`` numbers modules and seams from the input: module I, then seam I, then module I + 1.
    """
    names = {"co_correlation": "ϱ", "relative_std": "√(1+var/μ²)", "linear_correlation": "ρ", "module": "S"}
    what, value = polars.col("what"), polars.col("value")
    rows = split_key(measured(frame, "chain", what="a chain"), ["where", "what"])
    return (
        rows.filter(what.is_in(list(names)))
        .select(
            "seed",
            "epoch",
            layers=polars.col("widths").list.len(),
            place=polars.col("where").str.extract(r"(\d+)").cast(polars.Int64),
            factor=what.replace_strict(names),
            value=polars.when(what == "relative_std").then((1 + value**2).sqrt()).otherwise(value),
        )
        .sort("layers", "seed", "epoch", "factor", "place")
    )


@CLAIMS.add(
    "C-f.depth",
    "In networks with three and four hidden layers ϱ rises at every seam.",
    "§5.1 and §7 (extension to more layers)",
    **_DEEP,
)
@CLAIMS.add(
    "C-x",
    "The same in networks of three to six layers: two to five hidden ones.",
    "§5 and §7",
    parts=("depth", "more-depth"),
    figure="depth-budget",
)
def rises_at_every_seam(frame: polars.DataFrame) -> Finding:
    """Per seed the smallest rise of ϱ over all seams of all depths."""
    table = budget(frame).filter(polars.col("factor") == "ϱ")
    rise = before_and_after(table, by=["layers", "place", "seed"]).drop_nulls()
    seam = polars.format("{} layers, seam {}", "layers", "place")
    parts = by_value(rise.with_columns(seam=seam), "seam", value="rise", form="{place}: {mean:+.2f}")
    note = f"effect: smallest rise of ϱ over the seams; {parts}; {on_data(frame)}"
    return verdict(rise, "rise", over="min", above=0.0, note=note)
