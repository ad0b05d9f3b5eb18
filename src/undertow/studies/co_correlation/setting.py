"""What all parts of the study share: data, networks and training of each variant, at each scale.

Two-layer networks f(x) = aᵀσ(Wx) with W ~ N(0, 1/m^(1+2q)) and a fixed head a are trained by SGD.

Variant ``paper``: one logit, binary cross-entropy, a = ±1/√m, inputs of norm 1, batches of 512. The paper does
not say which binary task it makes of MNIST: here it is parity; ``paper-low-high`` has digits 0–4 against 5–9.
Variant ``authors``, after their code: ten classes, cross-entropy, a Gaussian head of W's variance, pixels scaled to
[-1, 1], batches of 1024 in the order of the data.

Smaller scales train on fewer images for fewer steps. On unit-norm inputs the paper's steps of 0.003 are so short
that training is gradient flow, and what decides is the time steps × learning rate = 5,900 × 0.003 = 17.7: there
the smaller scales take longer steps and reach the same time. With the authors' inputs (‖x‖² ≈ 700) and heads the
largest curvature times 0.003 is of order 1 already: the learning rate stays what it is for images of that size,
and smaller scales train for a shorter time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from undertow.studies.kit.presence import present
from undertow.studies.kit.study import Scale

__all__ = [
    "EPS",
    "LARGEST_Q",
    "PAPER",
    "SEAM",
    "Trained",
    "axes",
    "chance",
    "shared",
    "trained",
    "width_by_q",
]

PAPER = "Wang, Min & Ruan 2024"
LARGEST_Q = 0.25
"""The q of Figures 1c, 1d and 5; 0.25 belongs to every scale's grid."""
SEAM = "activation"
"""Where two-layer networks are cut: after the hidden layer's activation."""
EPS = 0.5
"""The radius of the paper's attacks (§6), in raw pixels."""
_TIME = 17.7
_PIXELS = {"mnist": 784, "fashion-mnist": 784, "digits": 64}


@dataclass(frozen=True)
class Trained:
    """What is trained on, and for how long: ``samples`` None is all of them."""

    data: Literal["mnist", "fashion-mnist", "digits"]
    samples: int | None
    batch: int
    epochs: int
    steps: int

    @property
    def steps_per_epoch(self) -> int:
        """Updates in one pass over the data."""
        return self.steps // self.epochs

    def learning_rate(self, *, authors: bool) -> float:
        """0.003 at paper scale; see above for the others.

        >>> Trained("mnist", None, 512, 50, 5900).learning_rate(authors=False)
        0.003
        """
        if authors:
            return round(0.003 * 784 / _PIXELS[self.data], 6)
        return round(_TIME / self.steps, 6)


def trained(scale: Scale, *, authors: bool) -> Trained:
    """``laptop`` takes MNIST where that is on this machine, else Fashion-MNIST, else scikit-learn's digits."""
    if scale == "paper":
        batch = 1024 if authors else 512
        return Trained("mnist", None, batch, epochs=50, steps=50 * -(-60_000 // batch))
    if scale == "smoke":
        return Trained("digits", 1400, 70, epochs=5, steps=100)
    for name in ("mnist", "fashion-mnist"):
        if present(name):
            return Trained(name, 3840, 80, epochs=10, steps=480)
    return Trained("digits", 1400, 35, epochs=10, steps=400)


def shared(scale: Scale, variant: str, **model: Any) -> dict[str, Any]:
    """The sections data, model and training of a part's configuration; ``model`` adds to the two-layer network."""
    authors = variant == "authors"
    task = None if authors else "low-high" if variant == "paper-low-high" else "parity"
    on = trained(scale, authors=authors)
    return {
        "data": {
            "name": on.data,
            "limit": on.samples,
            "normalise": "centred" if authors else "unit-norm",
            "task": task,
        },
        "model": {
            "name": "two-layer",
            "width": 16,
            "init": {"name": "scaled", "q": LARGEST_Q},
            "head": "gaussian" if authors else "signs",
            **model,
        },
        "training": {
            "optimizer": "sgd",
            "learning_rate": on.learning_rate(authors=authors),
            "batch_size": on.batch,
            "shuffle": not authors,
            "epochs": on.epochs,
            "loss": "cross-entropy" if authors else "bce",
            "frozen": ["output.weight"],
        },
    }


def axes(sections: Mapping[str, Any], seeds: int, **others: Iterable[Any]) -> dict[str, list[Any]]:
    """The axes of a grid; the first has one value and writes the data set beside every record."""
    named = {name: list(values) for name, values in others.items()}
    return {"data.name": [sections["data"]["name"]], **named, "seed": list(range(seeds))}


def width_by_q(sections: Mapping[str, Any], size: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The paper's grid: linear and ReLU networks of every width and q, several seeds of each."""
    both = ["linear", "relu"]
    return axes(sections, size["seeds"], activation=both, width=size["widths"], q=size["q"])


def chance(variant: str) -> float:
    """The accuracy of a coin: a tenth for ten classes, a half for two."""
    return 0.1 if variant == "authors" else 0.5
