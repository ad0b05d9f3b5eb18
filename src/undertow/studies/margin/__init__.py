"""Margin maximisation (Lyu & Li 2020; Li's 2024 talk): where gradient descent goes once every point is classified.

``linear``: separable data, gradient descent and the L2 path against the support vector machine. ``homogeneous``: the
smoothed margin, its rates and the KKT conditions for one to four layers. ``table``: a convolutional network at the
losses of the talk's table, its margins and radii. ``fragility``: does training on help or hurt where KKT points are
said to be fragile? ``early_linear``: linear at first, and a margin that is only locally the largest.

Throughout 𝓛 is the loss summed over points, L the order of homogeneity, and t = Σ η over effective steps. Steps follow
∇log 𝓛 where nothing else is said, which is the loss-based rate η = α/𝓛 in every step.
"""

from __future__ import annotations

from undertow.studies.kit.study import Study

__all__ = ["STUDY"]

STUDY = Study(
    name="margin",
    title="Margin maximisation, down to losses that no float can hold",
    source="Lyu & Li 2020; Li 2024 (talk)",
    summary="Once every training point is classified, gradient descent on a homogeneous network is said to enlarge the "
    "normalised margin for ever, and to converge in direction to a KKT point of the margin problem. The talk asks "
    "whether such a network is also more robust.",
    costs={
        "smoke": "403 small trials, about 14 s on two cores",
        "laptop": "884 trials to losses of 10^-100 … 10^-1000, about 5 minutes on two cores",
        "paper": "MNIST's CNN towards 10^-881, VGG16 and about 1,000 small trials, for a GPU",
    },
    variants={
        "paper": "as the papers have it; the first frame is 30 where the data are a few hundred points"
    },
    home=__name__,
    topics=("linear", "homogeneous", "table", "fragility", "early_linear"),
)
