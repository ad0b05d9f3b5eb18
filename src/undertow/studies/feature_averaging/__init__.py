"""Feature averaging (Li, Pan, Lyu & Li 2025): gradient descent adds up the features of a class, and is fragile for it.

Each topic is a folder with its grids, claims and figures; those on synthetic clusters share ``cluster_grids`` and
``cluster_tables``.
"""

from __future__ import annotations

from undertow.studies.kit.study import Study

__all__ = ["STUDY"]

STUDY = Study(
    name="feature-averaging",
    title="Averaged and decoupled features, and how robust they are",
    source="Li, Pan, Lyu & Li 2025 (slides); Li 2024 (talk)",
    summary="Where a class consists of several clusters, gradient descent is said to give every neuron the average of "
    "their centres instead of one centre each. The average classifies perfectly, and is far easier to attack.",
    costs={
        "smoke": "620 small trials on synthetic clusters and digits, about 45 s on two cores",
        "laptop": "490 trials on synthetic clusters and 390 others, with MNIST or digits; about 5 minutes on two "
        "cores",
        "paper": "500 trials on clusters, d = 3072 and up to 20 seeds, 6 minutes on two cores; 470 on MNIST, CIFAR-10 "
        "and others, about half an hour on one H200",
    },
    # Parts of a minute in all, on data that is sampled: these say something at their laptop size only.
    tour=(
        "laptop",
        (
            *("averaging", "averaging-half", "averaging-quarter", "averaging-eighth"),
            *("averaging-few", "averaging-some", "averaging-many", "averaging-most"),
            *("robust-by-d", "robust-by-k", "decoupling", "slabs", "early-linear"),
            *("li2022-linear", "li2022-nearest"),
        ),
    ),
    variants={
        "paper": "the experiments' start σ_w = σ_b = 1e-5, η = 0.001 at d = 3072, T = 100 at k = 10",
        "slides": "the theorem's start σ_w² = 1/d, σ_b² = 1/d², η = 1/√d, T = d/3",
    },
    home=__name__,
    topics=(
        *("averaging", "radius", "decoupling", "frozen_features", "images"),
        *("min_vidal", "kkt", "manifold", "li2022", "simplicity", "useful_features"),
    ),
)
