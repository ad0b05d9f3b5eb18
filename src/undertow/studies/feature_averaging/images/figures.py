"""Robust accuracy at the binary task against ε, one panel for each way of attacking."""

from __future__ import annotations

import altair
import polars

from undertow.drawing.axis import Axis
from undertow.drawing.line_plot import LinePlot
from undertow.studies.feature_averaging.images.claims import accuracies
from undertow.studies.kit.data_names import written
from undertow.studies.kit.statements import Figures

__all__ = ["FIGURES"]

_PANELS = {
    "sum:pgd": "read-out Σ−Σ, PGD",
    "sum:gradient": "read-out Σ−Σ, APGD + FAB",
    "max:gradient": "side of the largest class, APGD + FAB",
    "native": "own training loss, PGD",
}
_KINDS = {"two": "trained on 2 classes", "ten": "trained on 10 classes"}

FIGURES = Figures()


@FIGURES.add(
    "images", "Two-class and ten-class supervision on MNIST or digits", parts=["images-two", "images-ten"]
)
@FIGURES.add("cifar", "Two-class and ten-class supervision on CIFAR-10", parts=["cifar-two", "cifar-ten"])
def curves(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Means over seeds of two-class and of ten-class networks."""
    table, column = accuracies(frame), polars.col
    panels = [
        table.filter(column("how") == how).with_columns(panel=polars.lit(name))
        for how, name in _PANELS.items()
    ]
    return LinePlot(
        x="radius",
        x_axis=Axis("ε, L2, raw pixels"),
        y="robust accuracy (2 classes)",
        colour="kind",
        colours=list(_KINDS.values()),
        column="panel",
        points=True,
        title=f"{written(table['data_name'])}, test images",
        size=(190, 190),
    ).draw(polars.concat(panels).with_columns(column("kind").replace_strict(_KINDS)))
