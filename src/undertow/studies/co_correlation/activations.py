"""Beyond ReLU: the co-correlation over training for activations with a bounded derivative (Assumption 5.4).

Theorem 5.5 asks of σ only |σ′| ≤ M, which ReLU, leaky ReLU, tanh and GELU all meet; the paper's experiments have
linear and ReLU networks alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from undertow.studies.co_correlation.dynamics import RANGE
from undertow.studies.co_correlation.evidence import verdict
from undertow.studies.co_correlation.grid import SEAM, trajectories
from undertow.studies.co_correlation.setting import LARGEST_Q, PAPER, data_names, shared
from undertow.studies.kit.claim import Claim, Finding
from undertow.studies.kit.study import Figure, Scale

if TYPE_CHECKING:
    import altair
    import polars

__all__ = ["CLAIMS", "FIGURES", "activations"]

_KINDS = ("relu", "leaky-relu", "tanh", "gelu")
_SIZES: dict[Scale, dict[str, int]] = {
    "smoke": {"width": 64, "seeds": 10, "points": 12},
    "laptop": {"width": 256, "seeds": 10, "points": 40},
    "paper": {"width": 2048, "seeds": 10, "points": 10_000},
}


def activations(scale: Scale, variant: str) -> dict[str, Any]:
    """One width, q = 0.25, four activations."""
    size = _SIZES[scale]
    sections = shared(scale, variant, width=size["width"])
    return {
        **sections,
        "probe": {
            "measures": [{"name": "collaboration", "seam": SEAM}, "accuracy"],
            "every": "epoch",
            "split": "test",
            "limit": size["points"],
            "examples": 4,  # for the report's grid browser
        },
        "grid": {
            "data.name": [sections["data"]["name"]],
            "activation": list(_KINDS),
            "width": [size["width"]],
            "q": [LARGEST_Q],
            "seed": list(range(size["seeds"])),
        },
    }


def rises(frame: polars.DataFrame) -> Finding:
    """Per seed the smallest rise over the four activations."""
    import polars

    curves = trajectories(frame, "co_correlation")
    value, epoch = polars.col("value"), polars.col("epoch")
    last: Any = curves["epoch"].max()
    rise = curves.group_by("activation", "seed").agg(
        value=value.filter(epoch == last).first() - value.filter(epoch == 0).first()
    )
    means = rise.group_by("activation").agg(value.mean())
    parts = ", ".join(f"{name} {mean:+.3f}" for name, mean in means.sort("activation").iter_rows())
    note = f"effect: smallest rise of ϱ over the activations; {parts}; width {frame['width'][0]}, q = 0.25"
    return verdict(rise.drop_nulls(), over="min", above=0.0, note=f"{note}; {data_names(frame)}")


def over_training(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """ϱ over epochs, one line per activation."""
    from undertow.drawing.curves import curves_by_seed
    from undertow.drawing.palette import ACTIVATIONS

    curves = trajectories(frame, "co_correlation")
    return curves_by_seed(
        curves,
        x="epoch",
        y="co-correlation ϱ",
        colour="activation",
        colours=ACTIVATIONS,
        domain=RANGE,
        title=f"width {curves['width'][0]}, q = 0.25, {data_names(frame)}",
    )


FIGURES = (
    Figure(
        "activations",
        "Co-correlation over training for activations with a bounded derivative",
        over_training,
        parts=("activations",),
    ),
)
CLAIMS = (
    Claim(
        "C-f.activations",
        "ϱ rises during training for every activation with a bounded derivative: ReLU, leaky ReLU, tanh, GELU.",
        f"{PAPER}, Theorem 5.5 and Assumption 5.4",
        rises,
        parts=("activations",),
        figure="activations",
    ),
)
