"""Other implicit biases: flat minima, low frequencies, late generalisation, low rank; and whether they make robust.

Each topic is a folder with its grids, claims and figures. Every one has a canonical experiment that takes minutes.
"""

from __future__ import annotations

from undertow.studies.kit.study import Study

__all__ = ["STUDY"]

STUDY = Study(
    name="other-biases",
    title="Sharpness, low rank, grokking and low frequencies, and how robust they are",
    source="Cohen et al. 2021; Arora et al. 2019; Power et al. 2022; Rahaman et al. 2019; Li 2024 (talk)",
    summary="Gradient descent is said to stop where the loss is no sharper than its step size allows, to learn low "
    "ranks and low frequencies first, and to generalise long after it has fitted. Here each is tested over seeds.",
    costs={
        "smoke": "450 small trials, about 17 s on two cores",
        "laptop": "710 trials, about 6 minutes on two cores",
        "paper": "1,100 trials, with 5,000 images of CIFAR-10 and p = 113, for a GPU",
    },
    variants={"paper": "the experiments of the papers, at the sizes of the scale"},
    tour=("smoke", ("edge-linear", "frequency", "completion", "diagonal")),
    home=__name__,
    topics=("sharpness", "flatness", "frequency", "grokking", "low_rank", "diagonal"),
)
