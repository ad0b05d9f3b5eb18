"""Every figure of the grid once more, from the paper's whole grid."""

from __future__ import annotations

from undertow.studies.co_correlation.factors.figures import FIGURES as FACTORS
from undertow.studies.co_correlation.rise.figures import FIGURES as RISE
from undertow.studies.co_correlation.robustness.figures import FIGURES as ROBUSTNESS
from undertow.studies.kit.statements import redrawn

__all__ = ["FIGURES"]

FIGURES = redrawn(
    [*ROBUSTNESS, *RISE, *FACTORS],
    parts=("full-grid",),
    name="full-{}",
    caption="{}; the paper's whole grid, one seed",
)
