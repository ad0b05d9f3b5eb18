"""Heat maps of neurons in threes against classes."""

from __future__ import annotations

from typing import Any

import altair
import polars

from undertow.drawing.heat_map import HeatMap
from undertow.drawing.titles import mean_of_seeds, small_title
from undertow.studies.feature_averaging.frozen_features.claims import cosines_in_threes
from undertow.studies.kit.data_names import written
from undertow.studies.kit.statements import Figures

__all__ = ["FIGURES"]

FIGURES = Figures(parts=("features-two", "features-ten"))


@FIGURES.add("frozen-features", "Cosines of neurons and class means on frozen features")
def heat_maps(frame: polars.DataFrame) -> altair.TopLevelMixin:
    """Neurons in threes against classes, positive classes first for the binary task; mean over seeds."""
    table, column = cosines_in_threes(frame), polars.col
    binary = table.filter(column("part") == "features-two", column("three") == 0, column("own"))
    positive = set(binary["feature"])
    positive_first = sorted(range(10), key=lambda feature: (feature not in positive, feature))
    maps = []
    for part, classes, order in (("features-two", 2, positive_first), ("features-ten", 10, None)):
        for centred, how in ((False, "as they are"), (True, "centred features")):
            shown: Any = HeatMap(
                x="feature",
                y="three",
                cosines=True,
                x_title="class mean",
                y_title="neurons, in threes",
                side=200,
                number=".1f",
                letters=7,
                order=order,
            ).draw(table.filter(column("part") == part, column("centred") == centred))
            maps.append(shown.properties(title=f"{classes} classes, {how}"))
    text = f"{written(table['of'])}; {mean_of_seeds([table['seed'].n_unique()], band=False)}"
    chart: altair.TopLevelMixin = altair.concat(*maps, columns=2).properties(title=small_title(text))
    return chart
