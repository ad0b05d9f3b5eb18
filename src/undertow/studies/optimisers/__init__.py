"""Which optimiser is biased to which margin, and against whom that protects.

Steepest descent in a norm ‖·‖ of the weights is said to enlarge q_min/‖w‖, on linear networks the distance to the
boundary in the *dual* norm: gradient descent protects against L2, sign descent and Adam against L1, coordinate descent
against L∞. Linear networks have a known optimum (topic ``linear``); Adam's ε and its batches are in ``adam``. Two-layer
networks, whose radii are certified, attacked and solved exactly, and those of three layers are in ``networks``. What
else is said of gradient descent, that it averages features and that co-correlation rises, is asked in ``features``.
"""

from __future__ import annotations

from undertow.studies.kit.study import Study

__all__ = ["STUDY"]

STUDY = Study(
    name="optimisers",
    title="Which optimiser is biased to which margin, and against whom that protects",
    source="Lyu & Li 2020; Zhang et al. 2024; Baek et al. 2025; Tsilivis et al. 2025; Faghri et al. 2021",
    summary="An optimiser chooses the norm in which the margin grows, it is said, and by duality the attacker that the "
    "network withstands: sign descent and Adam L1, gradient descent L2, coordinate descent L∞.",
    costs={
        "smoke": "338 small trials, about 11 s on two cores",
        "laptop": "580 trials, about 8 minutes on two cores",
        "paper": "1,100 trials: pictures on one GPU, the rest on its machine's cores",
    },
    variants={"paper": "rates tuned on problems of their own, falling like t^-½"},
    home=__name__,
    topics=("linear", "adam", "networks", "features"),
)
