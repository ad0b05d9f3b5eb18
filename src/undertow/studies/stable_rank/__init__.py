"""Stable rank of two-layer networks on a Gaussian mixture (the stable-rank report, Fig 1; rows R1 and R2).

Sun & Tran (2023) train two-layer ReLU networks by gradient descent on ten nearly orthogonal points and watch
the stable rank ‖W‖_F²/‖W‖₂² of the first layer for five scales of its Gaussian start. The slides call these
numbers standard deviations (variant ``paper``); the authors' code uses them as variances (``authors``).

Where the report is silent: cross-entropy over two outputs, as for its gene data; output weights 1/m, biases
zero at the start, everything trained. Both rows of the head being equal, the first layer's gradient starts at
zero and grows with the head's, which is why little happens for the first thousands of epochs.
"""

from __future__ import annotations

from undertow.studies.kit.study import Study

__all__ = ["STUDY"]

STUDY = Study(
    name="stable-rank",
    title="Stable rank of two-layer networks on nearly orthogonal data",
    source="Sun & Tran 2023, stable-rank report, Fig 1",
    summary="On data whose points are nearly orthogonal, the first layer is said to collapse toward rank one or two "
    "while it learns. The stable rank ‖W‖_F²/‖W‖₂² shows it, for five scales of the start.",
    costs={
        "smoke": "100 small trials, about 9 s on two cores",
        "laptop": "100 trials, about 1.5 minutes on two cores",
        "paper": "200 trials, about 6 minutes on two cores",
    },
    variants={
        "paper": "the five init scales are standard deviations",
        "authors": "the five init scales are variances",
    },
    home=__name__,
    topics=("mixture", "rest", "genes", "images", "orthogonality", "law"),
)
