"""Limits and KKT properties, where training has come to rest: R8 and what of R-a is about t → ∞."""

from __future__ import annotations

import math
from typing import Any

import polars

from undertow.core.errors import InputError
from undertow.studies.kit.claim import CORRELATION, POSITIVE, Finding, Verdict
from undertow.studies.kit.per_seed import mean, slopes, verdict
from undertow.studies.kit.readings import after_training, measured, side_by_side
from undertow.studies.kit.statements import Claims
from undertow.studies.stable_rank.rank_tables import HINDSIGHT, SOURCE, by_start, starts_order
from undertow.studies.stable_rank.rest.parts import decades_down

__all__ = ["CLAIMS", "proof_readings"]

CLAIMS = Claims(SOURCE, parts=("rest",), figure="rest-rank", hindsight=HINDSIGHT)
_LATE = 1e-3
"""The loss below which the inequality is judged apart: before, the gradient alone satisfies it."""
_RESTING = 0.02
"""By how much a rank at rest falls at most over the second half of the decades."""
_NETWORK = ("activation", "seed", "init")
_TRAINED: dict[str, Any] = {"parts": ("rest-trained",), "figure": "rest-trained-rank"}


def proof_readings(frame: polars.DataFrame, activation: str | None = None) -> polars.DataFrame:
    """What the measure rank-proof reads, a row per network and moment."""
    chosen = {} if activation is None else {"activation": activation}
    rows = by_start(measured(frame, "rank-proof", **chosen))
    return side_by_side(rows, "rank-proof", by=(*_NETWORK, "step"))


def final_ranks(frame: polars.DataFrame, activation: str | None = None) -> polars.DataFrame:
    """Stable ranks at the end of every network, and at ``half`` of its decades, the last reading before.

    An ``InputError`` where a loss did not come down as far as it was to.
    """
    chosen = {} if activation is None else {"activation": activation}
    losses = measured(frame, "steps", "log10_loss", **chosen).select(
        "trial", "step", decades=-polars.col("value")
    )
    reached = losses.group_by("trial").agg(polars.col("decades").max())
    short = reached.filter(polars.col("decades") < 0.99 * decades_of(frame))
    if len(short):
        raise InputError(f"{len(short)} of {len(reached)} networks did not come to rest: train longer")
    ranks = measured(frame, "stable-rank", "hidden.weight", **chosen)
    before = ranks.join(losses, on=["trial", "step"]).filter(polars.col("decades") <= decades_of(frame) / 2)
    half = before.sort("step").group_by("trial").agg(half=polars.col("value").last())
    return after_training(ranks, "stable-rank").join(half, on="trial", how="left")


def decades_of(frame: polars.DataFrame) -> int:
    """How far down the loss was to come."""
    part, scale, variant = frame.select("part", "scale", "variant").row(0)
    return decades_down(part, scale, variant)


_AT_MOST = "At rest the stable rank is at most 2"


@CLAIMS.add(
    "R-a.limit", f"{_AT_MOST} (trained head, ReLU).", "proof idea", **_TRAINED, activation="relu", line=2.0
)
@CLAIMS.add(
    "R-a.limit-leaky",
    f"{_AT_MOST} (trained head, leaky ReLU).",
    "Fig 1",
    **_TRAINED,
    activation="leaky-relu",
    line=2.0,
)
@CLAIMS.add(
    "R-a.rest", f"{_AT_MOST} (fixed head, ReLU).", "proof idea (limsup ≤ 2)", activation="relu", line=2.0
)
@CLAIMS.add(
    "R-a.rest-leaky",
    f"{_AT_MOST} (fixed head, leaky ReLU).",
    "Fig 1",
    activation="leaky-relu",
    line=2.0,
)
@CLAIMS.add(
    "R-a.rest-one",
    "At rest the stable rank of the whole of W is 1, within 5 % (leaky ReLU).",
    source="Kou, Chen & Gu 2023, read for the whole of W",
    activation="leaky-relu",
    line=1.05,
)
def bounded(frame: polars.DataFrame, activation: str, line: float) -> Finding:
    """Per seed the largest of the starts' stable ranks at rest.

    The claims are about t → ∞: a rank above the line contradicts them only once it has stopped falling.
    """
    largest = final_ranks(frame, activation).sort("value").group_by("seed").last()
    moved = mean((largest["value"] / largest["half"] - 1).drop_nulls())
    note = (
        f"effect: stable rank at a loss of 10^-{decades_of(frame)}, {moved:+.1%} from half as many decades on"
    )
    found = verdict(largest, below=line, note=note)
    falling = found.verdict is Verdict.FAILS and moved < -_RESTING
    return found.left_open("it is falling still") if falling else found


_ORDER = "At rest the stable ranks follow the order of the starts"


@CLAIMS.add("R-a.rest-order", f"{_ORDER} (trained head, ReLU).", "Fig 1 right", **_TRAINED, activation="relu")
@CLAIMS.add(
    "R-a.rest-order-leaky",
    f"{_ORDER} (trained head, leaky ReLU).",
    "Fig 1 right",
    **_TRAINED,
    activation="leaky-relu",
)
def order_at_rest(frame: polars.DataFrame, activation: str) -> Finding:
    """Per seed the Spearman correlation of the stable rank at rest with the scale of the start."""
    final = by_start(final_ranks(frame, activation)).rename({"value": "end"})
    note = "effect: Spearman of stable rank at rest and init scale"
    return verdict(starts_order(final), above=0.0, within=CORRELATION, note=note)


@CLAIMS.add(
    "R-m.falls",
    "From Frei et al.'s start (Glorot-uniform, leaky ReLU, fixed head) the stable rank falls as well.",
    "High-Dimensional Nearly-Orthogonal Data",
    parts=("rest-glorot",),
    figure="rest-glorot-rank",
)
def glorot_falls(frame: polars.DataFrame) -> Finding:
    """Per seed the stable rank at rest over that of the start, against 1."""
    start = measured(frame, "stable-rank", "hidden.weight", step=0).select("seed", start="value")
    ratio = final_ranks(frame).join(start, on="seed")
    ratio = ratio.with_columns(value=polars.col("value") / polars.col("start"))
    return verdict(
        ratio, below=1.0, within=POSITIVE, note="effect: stable rank at rest over that of the start"
    )


@CLAIMS.add(
    "R-a.halves",
    "For leaky ReLU the neurons of one sign, W₊ and W₋ apart, come to stable rank 1, within 5 %.",
    source="Kou, Chen & Gu 2023, Theorem 4.2",
)
def halves(frame: polars.DataFrame) -> Finding:
    """Per seed the largest of both halves and both starts."""
    rows = after_training(frame, "neuron-alignment").filter(
        polars.col("activation") == "leaky-relu", polars.col("key").is_in(["rank_positive", "rank_negative"])
    )
    return verdict(rows, over="max", below=1.05, note="effect: stable rank of the neurons of one sign")


@CLAIMS.add(
    "R-b", "All margins become equal: q_i − q_min stays bounded in log 1/L.", "KKT property 1", figure="proof"
)
def margins_equal(frame: polars.DataFrame) -> Finding:
    """Per seed the steepest growth of q_max − q_min with log 1/L below 10⁻²⁵, over activations and starts."""
    late = proof_readings(frame).filter(polars.col("log10_loss") < -25)
    grown = slopes(
        late.with_columns(progress=-math.log(10) * polars.col("log10_loss")),
        "progress",
        "spread",
        by=_NETWORK,
    )
    last = late.group_by(_NETWORK).agg(polars.col("spread").last())
    note = f"effect: growth of q_max − q_min per unit of log 1/L; it is {mean(last['spread']):.2g} in the end"
    return verdict(grown, over="max", below=0.01, note=note)


@CLAIMS.add("R-c.positive", "All multipliers λ_i are positive.", "proof idea", figure="proof", line=0.0)
@CLAIMS.add(
    "R-c.bound",
    "The smallest of them is above the bound 1/(2 max‖x‖²) for nearly orthogonal data.",
    "proof idea, after Vardi, Yehudai & Shamir 2022",
    figure="proof",
    line=1.0,
)
def multipliers(frame: polars.DataFrame, line: float) -> Finding:
    """Per seed the smallest multiplier at the end, in units of the bound, over activations and starts."""
    last = after_training(frame, "rank-proof", "least")
    residual = mean(after_training(frame, "rank-proof", "residual")["value"])
    note = f"effect: min λ_i · 2 max‖x‖² (stationarity residual {residual:.2g})"
    return verdict(last, over="min", above=line, note=note)


_INEQUALITY = "‖W‖_F² ≤ 2‖W‖₂² + ‖∇L‖_F²"


@CLAIMS.add(
    "R-d.early",
    f"{_INEQUALITY} at every step before the loss is 10⁻³ (ReLU).",
    "proof idea",
    figure="proof",
    late=False,
    activation="relu",
)
@CLAIMS.add(
    "R-d.early-leaky",
    f"{_INEQUALITY} at every step before the loss is 10⁻³ (leaky ReLU).",
    "proof idea",
    figure="proof",
    hindsight=f"{HINDSIGHT}, and all of them with ReLU",
    late=False,
    activation="leaky-relu",
)
@CLAIMS.add(
    "R-d.late",
    f"{_INEQUALITY} at every step after (ReLU).",
    "proof idea",
    figure="proof",
    late=True,
    activation="relu",
)
@CLAIMS.add(
    "R-d.late-leaky",
    f"{_INEQUALITY} at every step after (leaky ReLU).",
    "proof idea",
    figure="proof",
    late=True,
    activation="leaky-relu",
)
def inequality(frame: polars.DataFrame, late: bool, activation: str) -> Finding:
    """Per seed the largest (‖W‖_F² − 2‖W‖₂²)/‖∇L‖_F² over the moments recorded and both starts, against 1."""
    below = polars.col("log10_loss") < math.log10(_LATE)
    moments = proof_readings(frame, activation).filter(below if late else ~below)
    if not late and not moments["step"].max():
        raise InputError(
            "before a loss of 10⁻³ nothing was read but the start, which has not learned anything"
        )
    note = "effect: largest (‖W‖_F² − 2‖W‖₂²)/‖∇L‖_F² of the recorded moments"
    return verdict(moments, "ratio", over="max", below=1.0, note=note)
