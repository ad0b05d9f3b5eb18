"""Collaboration between layers (Wang, Min & Ruan 2024): the adversarial risk and its bound (Theorem 4.1).

Two-layer linear and ReLU networks f(x) = aᵀσ(Wx) with W ~ N(0, 1/m^(1+2q)) and a fixed head a are trained by
SGD (learning rate 0.003). On test points, before and after training, the adversarial risk R_rob(r) is set
beside R + r·S(L∘f) for a range of L2 radii r.

Variant ``paper``: one logit, binary cross-entropy, a = ±1/√m, inputs of norm 1, batches of 512. The paper
does not say which binary task it makes of MNIST: here it is parity; ``paper-low-high`` has digits 0–4 against
5–9. Variant ``authors``, after their code: ten classes, cross-entropy, a Gaussian head of W's variance, pixels
scaled to [-1, 1], batches of 1024 in the order of the data.

Units of r. The theorem's ball knows no box, so there is none here. For ``authors`` r is in raw pixels
([0, 1] images): the networks see 2r, and S is the slope per raw pixel. For ``paper`` the data of the theorem
*are* the unit vectors, each image scaled by its own norm, and r is relative to it: an MNIST image has a norm
of about 9, so that the paper's attack budget of 0.5 pixels is r ≈ 0.055.
"""

from __future__ import annotations

from typing import Any

from undertow.studies import risk_bound
from undertow.studies.study import Scale, Study

__all__ = ["STUDY"]

BUDGET = 0.5
"""The radius of the paper's attacks (§6), the largest one looked at."""
RADII = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, BUDGET)
_PAPER = "Wang, Min & Ruan 2024"
_SIZES: dict[Scale, dict[str, Any]] = {
    "smoke": {"radii": (0.001, 0.01, 0.1, BUDGET), "widths": (16,), "q": (0.25,), "test": 40, "seeds": 5},
    "laptop": {"radii": RADII, "widths": (16, 128), "q": (0.0, 0.25), "test": 60, "seeds": 6},
    "paper": {
        "radii": RADII,
        "widths": tuple(2**k for k in range(4, 14)),
        "q": (-0.15, -0.1, -0.05, 0.0, 0.05, 0.15, 0.25),
        "test": None,
        "seeds": 5,
    },
}


def settings(scale: Scale, variant: str) -> dict[str, Any]:
    """The study's configuration; the scale changes sizes and the data set alone."""
    size = _SIZES[scale]
    authors = variant == "authors"
    task = None if authors else "low-high" if variant == "paper-low-high" else "parity"
    data, train, epochs = _training_set(scale)
    return {
        "data": {
            "name": data,
            "limit": train,
            "normalise": "centred" if authors else "unit-norm",
            "task": task,
        },
        "model": {
            "name": "two-layer",
            "width": size["widths"][0],
            "init": {"name": "scaled", "q": size["q"][0]},
            "head": "gaussian" if authors else "signs",
        },
        "training": {
            "optimizer": "sgd",
            "learning_rate": 0.003,
            "batch_size": 1024 if authors else 512,
            "shuffle": not authors,
            "epochs": epochs,
            "loss": "cross-entropy" if authors else "bce",
            "frozen": ["output.weight"],
        },
        "probe": {
            "measures": [
                {"name": "risk-bound", "radii": list(size["radii"]), "unit": 2.0 if authors else 1.0},
                "accuracy",
            ],
            "every": 10**9,  # before training and after it
            "split": "test",
            "limit": size["test"],
        },
        # The first axis has one value: it writes the data set beside every record.
        "grid": {
            "data.name": [data],
            "activation": ["linear", "relu"],
            "width": list(size["widths"]),
            "q": list(size["q"]),
            "seed": list(range(size["seeds"])),
        },
    }


def _training_set(scale: Scale) -> tuple[str, int | None, int]:
    """Data set, number of samples (None: all of them) and epochs.

    ``laptop`` takes 5,000 images of MNIST where that is on this machine, and scikit-learn's digits otherwise.
    Both small sets are trained on for about 1,000 steps of 512, a sixth of the paper's 5,900.
    """
    from undertow.data.local import State
    from undertow.data.sources import check

    if scale == "paper":
        return "mnist", None, 50
    if scale == "laptop" and check("mnist").state is State.PRESENT:
        return "mnist", 5000, 100
    return "digits", None, 330


STUDY = Study(
    name="co-correlation",
    title="Collaboration between the layers of two-layer networks: adversarial risk and Dirichlet energy",
    source=f"{_PAPER}, §4",
    costs={
        "smoke": "10 small trials on digits, about 15 s on one core",
        "laptop": "48 trials on 5,000 images of MNIST, or on digits where MNIST is not on this machine; "
        "4 to 5 minutes on two cores (--engine processes)",
        "paper": "700 trials on MNIST, for a GPU",
    },
    variants={
        "paper": "one logit, parity, head ±1/√m, unit-norm inputs; r relative to ‖x‖ = 1",
        "paper-low-high": "the same with digits 0–4 against 5–9",
        "authors": "ten classes, Gaussian head, pixels in [-1, 1], no shuffling; r in raw pixels",
    },
    parts={"main": settings},
    figures=risk_bound.FIGURES,
    claims=risk_bound.CLAIMS,
)
