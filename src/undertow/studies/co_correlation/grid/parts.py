"""The study's main part: widths × q × {linear, ReLU} and ten seeds.

Claims are judged on this part at every scale. The paper's own grid, ten widths × seven q, has one seed: that is
``full-grid``, at paper scale alone, which is drawn and not judged. What is judged there are four widths × three q.

Along training: the co-correlation and the other factors of Theorem 4.5 at the seam after the hidden layer, loss
and accuracy on test points. After it: robust accuracy under L2 attacks of ε = 0.5, always in raw pixels with
values in [0, 1]. For ``paper`` that is the accuracy of x ↦ f(x/‖x‖) on raw images, the division by the norm
included. S(f) is with respect to the network's own input, as in the paper: per unit of the unit-norm input for
``paper``, per half a pixel for ``authors``.

Of AutoAttack's four attacks the smaller scales run the first two, APGD on the cross-entropy and on targeted margins.
FAB and Square take nine tenths of the time, and break what those two left standing only where gradients mislead,
which they do not in such networks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from undertow.studies.co_correlation.setting import EPS, SEAM, shared, trained, width_by_q
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS"]

_FIRST_TWO = "apgd-ce+apgd-t"
_SIZES: dict[Scale, dict[str, Any]] = {
    "smoke": {
        "widths": (16, 64, 128),
        "q": (-0.15, 0.05, 0.25),
        "seeds": 10,
        "points": {"accuracy": 300, "collaboration": 16, "robust": 16},
    },
    "laptop": {
        "widths": (16, 32, 128, 512),
        "q": (-0.15, -0.05, 0.05, 0.15, 0.25),
        "seeds": 10,
        "points": {"accuracy": 500, "collaboration": 30, "robust": 30},
        "epochs between": 2,
    },
    "paper": {
        "widths": (16, 128, 1024, 8192),
        "q": (-0.15, 0.05, 0.25),
        "seeds": 10,
        "points": {"accuracy": None, "collaboration": 2_000, "robust": 2_000},
        "rtol": 1e-2,
        "epochs between": 5,  # a fifth of training is ten: Property 1 needs no moment in between
        # One q of one width: little is lost with a machine, and 8,192 neurons have room on one GPU.
        "group_size": 10,
    },
}
_FULL: dict[str, Any] = {
    "widths": tuple(2**k for k in range(4, 14)),
    "q": (-0.15, -0.1, -0.05, 0.0, 0.05, 0.15, 0.25),
    "seeds": 1,
    "points": {"accuracy": None, "collaboration": 10_000, "robust": 10_000},
    "attack": "autoattack",
    "spectrum": True,
    # A tenth of the paper's two digits, proved; it halves the time of the largest part of the work.
    "rtol": 1e-2,
}


def grid(scale: Scale, variant: str) -> dict[str, Any]:
    """Ten seeds of every network; those of one width and activation are trained as one batch."""
    return _settings(scale, variant, _SIZES[scale])


def full_grid(scale: Scale, variant: str) -> dict[str, Any] | None:
    """The paper's ten widths × seven q, one seed of each: a picture."""
    return _settings(scale, variant, _FULL) if scale == "paper" else None


def _settings(scale: Scale, variant: str, size: Mapping[str, Any]) -> dict[str, Any]:
    sections, points, authors = shared(scale, variant), size["points"], variant == "authors"
    raw = {"unit": 2.0, "box": [-1.0, 1.0]} if authors else {"normalise": "unit-norm", "box": [0.0, 1.0]}
    rtol = size.get("rtol", 1e-3)
    measures: list[dict[str, Any]] = [
        {"name": "collaboration", "seam": SEAM, "limit": points["collaboration"], "rtol": rtol},
        {"name": "accuracy"},
        {"name": "loss"},
        {
            "name": "robust-accuracy",
            "eps": [EPS],
            "attack": size.get("attack", _FIRST_TWO),
            **raw,
            "every": "end",
            "limit": points["robust"],
            "only": {"activation": "relu"},  # Fig 1a is about MLPs
        },
    ]
    if size.get("spectrum"):
        measures.append({"name": "spectrum", "every": "ends"})
    epochs = size.get("epochs between", 1)
    every = "epoch" if epochs == 1 else epochs * trained(scale, authors=authors).steps_per_epoch
    return {
        **sections,
        "probe": {"measures": measures, "every": every, "split": "test", "limit": points["accuracy"]},
        "grid": width_by_q(sections, size),
        "group_size": size.get("group_size", 64),
    }


PARTS: dict[str, Part] = {"grid": grid, "full-grid": full_grid}
