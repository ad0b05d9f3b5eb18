"""Products of two to four matrices: matrix completion, and classifiers of images."""

from __future__ import annotations

from typing import Any

from undertow.studies.kit.scales import by_scale, only_in
from undertow.studies.kit.settings import HALF_DECADES, gradient_descent, robustness_beside
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS"]

_SIZES = by_scale(
    size=(12, 30, 100),
    rank=(2, 3, 5),
    n=(90, 342, 2000),
    many=(120, 684, 5000),
    depths=((2, 3), (2, 3, 4), (2, 3, 4)),
    starts=([1e-3], [1e-3], [1e-3, 1e-5]),
    rate=(1.0, 0.3, 1.5),
    epochs=(250, 3000, 20000),
    every=(25, 30, 100),
)
_CLASSES = by_scale(
    name=("digits", "digits", "mnist"),
    n=(60, 200, 1000),
    width=(16, 32, 100),
    depths=((2, 3), (2, 3, 4), (2, 3, 4)),
    gain=(0.3, 0.1, 0.1),
    rate=(0.2, 0.2, 0.02),
    epochs=(400, 4000, 20000),
    count=(1, 10, 20),
)


def _completion(scale: Scale, *, n: int, rank: int) -> dict[str, Any]:
    """Gradient descent on the square loss of the n entries seen, by depth and scale of the start."""
    size = _SIZES[scale]
    return {
        "data": {"name": "matrix-entries", "n": n, "size": size.size, "rank": rank},
        "model": {"name": "matrix-product", "depth": size.depths[0], "start": size.starts[0]},
        "training": gradient_descent(size.rate, size.epochs, loss="square"),
        "probe": {
            "measures": [
                {"name": "completion", "count": rank + 2, "every": size.every},
                {"name": "loss", "kind": "square", "every": "end"},
                {"name": "nuclear", "every": "end"},
            ],
            "every": "end",
        },
        "own_data": True,
        "grid": {"depth": list(size.depths), "start": size.starts, "seed": list(range(10))},
    }


@only_in("paper")
def completion(scale: Scale) -> dict[str, Any]:
    """Few entries are seen: twice as many as there are degrees of freedom, as in the paper."""
    return _completion(scale, n=_SIZES[scale].n, rank=_SIZES[scale].rank)


@only_in("paper")
def with_many_entries(scale: Scale) -> dict[str, Any]:
    """The same matrices with more of their entries, 5,000 of 10,000 at paper scale."""
    return _completion(scale, n=_SIZES[scale].many, rank=_SIZES[scale].rank)


@only_in("paper")
def greedy(scale: Scale) -> dict[str, Any] | None:
    """Rank 3, which the other scales have anyway: the greedy picture of Li, Luo & Lyu 2021."""
    return _completion(scale, n=_SIZES[scale].n, rank=3) if scale == "paper" else None


@only_in("paper")
def classes(scale: Scale) -> dict[str, Any]:
    """Deep linear classifiers of images from a small start, by cross-entropy, all to one loss."""
    size = _CLASSES[scale]
    widths = [[size.width] * (depth - 1) for depth in size.depths]
    start = {"name": "fan-in", "gain": size.gain}
    measures = [
        {"name": "linear-product", "every": HALF_DECADES},
        {"name": "loss", "kind": "cross-entropy", "every": HALF_DECADES},
        *robustness_beside("activation1", count=size.count, every=HALF_DECADES),
    ]
    return {
        "data": {"name": size.name, "limit": size.n, "normalise": "standardised"},
        "model": {"name": "mlp", "widths": widths[0], "activation": "linear", "init": start},
        "training": gradient_descent(size.rate, size.epochs, loss="cross-entropy", stop_below=-1.5),
        "probe": {"measures": measures, "every": "end"},
        "grid": {"widths": widths, "seed": list(range(10))},
    }


PARTS: dict[str, Part] = {
    "completion": completion,
    "completion-many": with_many_entries,
    "completion-greedy": greedy,
    "linear-classes": classes,
}
