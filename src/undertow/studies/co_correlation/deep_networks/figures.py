"""Figure 2 at every cut, with both starts, and for WRN-50; accuracies beside it."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.drawing.palette import KINDS
from undertow.studies.co_correlation.deep_networks.claims import PRINTED, at_cuts
from undertow.studies.co_correlation.deep_networks.parts import CUTS
from undertow.studies.co_correlation.setting import EPS
from undertow.studies.kit.data_names import on_data
from undertow.studies.kit.readings import measured
from undertow.studies.kit.statements import Figures

__all__ = ["FIGURES"]

FIGURES = Figures(parts=("deep-networks",))
_RHO = Axis("co-correlation ϱ")
_COLOURS = dict(zip(CUTS[:-1], (*KINDS, "#000000"), strict=True))
_NAMES = {"resnet-50": "ResNet-50", "wrn-50-2": "WRN-50-2"}
_TRAINED = {"authors": "BatchNorm in eval mode after the first epoch", "paper": "BatchNorm as usual"}


def _title(frame: polars.DataFrame) -> str:
    names = " and ".join(_NAMES.get(each, each) for each in sorted(set(frame["architecture"])))
    return f"{names} {on_data(frame)}, {_TRAINED.get(frame['variant'][0], '')}"


@FIGURES.add(
    "fig-2b",
    "Co-correlation over training at every cut; lines where the curve of A1-A2 begins and ends",
    so_far=True,
)
def every_cut(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """ϱ over epochs, a line for each cut."""
    return LinePlot(
        x="epoch", y=_RHO, colour="cut", colours=_COLOURS, rules=PRINTED, title=_title(frame)
    ).draw(at_cuts(frame))


@FIGURES.add("fig-2c", "Co-correlation over training at B1-B2, the cut after layer4", so_far=True)
def last_cut(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """ϱ over epochs at the eighth cut; the axis of the paper's figure goes from 0.40 to 0.70."""
    own = at_cuts(frame).filter(polars.col("cut") == CUTS[-2])
    return LinePlot(x="epoch", y=_RHO, colour="architecture", rules=(0.40, 0.70), title=_title(frame)).draw(
        own
    )


@FIGURES.add(
    "fig-2-wide", "Co-correlation over training at every cut of WRN-50", parts=("deep-wide",), so_far=True
)
def wide(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """ϱ over epochs, a line for each cut."""
    return LinePlot(x="epoch", y=_RHO, colour="cut", colours=_COLOURS, title=_title(frame)).draw(
        at_cuts(frame)
    )


@FIGURES.add(
    "fig-2-start",
    "Co-correlation over training by the scale that residual branches start with",
    parts=("deep-networks", "deep-start"),
    so_far=True,
)
def both_starts(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """ϱ over epochs, a panel for each start."""
    label = polars.format("residual branches from {}", polars.col("residual_start").cast(polars.Int64))
    curves = at_cuts(frame).with_columns(start=label).sort("start", maintain_order=True)
    return LinePlot(
        x="epoch", y=_RHO, colour="cut", colours=_COLOURS, column="start", title=_title(frame)
    ).draw(curves)


@FIGURES.add(
    "fig-2-statistics",
    "Co-correlation over training with the authors' BatchNorm, and with BatchNorm by the batch",
    parts=("deep-networks", "deep-statistics"),
    so_far=True,
)
def both_statistics(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """ϱ over epochs, a panel for each; all else is as the authors have it."""
    panels = {"deep-networks": "of the first epoch", "deep-statistics": "by the batch"}
    curves = [
        at_cuts(own).with_columns(statistics=polars.lit(f"BatchNorm {name}"))
        for part, name in panels.items()
        if not (own := frame.filter(polars.col("part") == part)).is_empty()
    ]
    title = _title(frame).partition(", ")[0]
    return LinePlot(x="epoch", y=_RHO, colour="cut", colours=_COLOURS, column="statistics", title=title).draw(
        polars.concat(curves)
    )


@FIGURES.add("fig-2-accuracy", "Accuracy and robust accuracy over training")
def accuracies(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Both over epochs, on the points that ϱ is measured on and on all tested ones."""
    clean = measured(frame, "accuracy").with_columns(what=polars.lit("accuracy"))
    robust = measured(frame, "robust-accuracy", repr(EPS)).with_columns(
        what=polars.lit(f"under L2 ε = {EPS}")
    )
    both = polars.concat([clean, robust]).select("what", "seed", "epoch", "value")
    return LinePlot(
        x="epoch", y=Axis("accuracy", domain=(0.0, 1.0)), colour="what", points=True, title=_title(frame)
    ).draw(both)
