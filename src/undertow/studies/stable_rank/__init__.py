"""Stable rank of two-layer networks (Sun & Tran 2023, the stable-rank report, Figs 1 to 6; rows R1 to R8).

The report trains two-layer networks by gradient descent and watches the stable rank ‖W‖_F²/‖W‖₂² of the first layer for
five scales of its Gaussian start. The slides call these numbers standard deviations (variant ``paper``); the authors'
code uses them as variances (``authors``). Its Figure 1 does not say what the head is: both readings are parts.
"""

from __future__ import annotations

from undertow.studies.kit.study import Study

__all__ = ["STUDY"]

STUDY = Study(
    name="stable-rank",
    title="Stable rank of two-layer networks on nearly orthogonal data",
    source="Sun & Tran 2023, stable-rank report, Figs 1 to 6",
    summary="On data whose points are nearly orthogonal, the first layer is said to collapse toward rank one or two "
    "while it learns. The stable rank ‖W‖_F²/‖W‖₂² shows it, for five scales of the start.",
    costs={
        "smoke": "802 small trials, about 11 s on two cores",
        "laptop": "2,206 trials, about 4 minutes on two cores",
        "paper": "2,816 trials, for a GPU",
    },
    variants={
        "paper": "the five init scales are standard deviations",
        "authors": "the five init scales are variances",
    },
    home=__name__,
    topics=("mixture", "rest", "genes", "images", "orthogonality", "law"),
    tour=("smoke", ("fixed-head",)),
    own_data="table",
)
