"""Pictures in batches, five scales of the start."""

from __future__ import annotations

from typing import Any

from undertow.studies.kit.lacking import LackingDataError
from undertow.studies.kit.presence import present
from undertow.studies.kit.scales import by_scale
from undertow.studies.kit.study import Part, Scale
from undertow.studies.stable_rank.starts import (
    ACTIVATIONS,
    IN_SPAN,
    INIT_SCALES,
    TEN_SEEDS,
    start_axis,
    starts,
    trained_head,
)

__all__ = ["PARTS"]

_STARTS = (starts("smoke"), starts("laptop"), starts("paper"))
_DIGITS = by_scale(
    width=(16, 100, 1000),
    points=(512, 4000, None),
    epochs=(3, 6, 10),
    test=(200, 1000, None),
    starts=_STARTS,
)
# On few points of CIFAR-10 steps are ten times as long: with the report's nothing is learned in a minute.
_THINGS = by_scale(
    width=(16, 64, 512),
    points=(256, 2000, None),
    epochs=(2, 16, 100),
    rate=(0.1, 0.1, 0.01),
    test=(200, 500, None),
    precision=("float32", "float32", "tf32"),  # of products, on a GPU: half the time
    starts=_STARTS,
)
_LONG = by_scale(
    width=(16, 64, 512),
    points=(256, 500, None),
    epochs=(40, 400, 2000),
    rate=(0.1, 0.1, 0.01),
    test=(200, 500, None),
    every=(4, 16, 3910),  # steps: two, four and ten epochs
    precision=("float32", "float32", "tf32"),
    starts=_STARTS,
)


def mnist(scale: Scale, variant: str) -> dict[str, Any]:
    """Fig 4; where MNIST is not here, the smaller scales take scikit-learn's digits."""
    if not present("mnist") and scale != "paper":
        return _pictures({"name": "digits"}, _DIGITS[scale], variant, batch=64, rate=0.1)
    return _pictures(
        {"name": "mnist", "normalise": "mnist"},
        _DIGITS[scale],
        variant,
        batch=64,
        rate=0.1,
        every=_moments(scale),
    )


def fashion_mnist(scale: Scale, variant: str) -> dict[str, Any]:
    """The same on pictures of clothing: an extension."""
    if not present("fashion-mnist") and scale != "paper":
        raise LackingDataError("fashion-mnist")
    data = {"name": "fashion-mnist", "normalise": "mnist"}
    return _pictures(data, _DIGITS[scale], variant, batch=64, rate=0.1, every=_moments(scale))


def cifar10(scale: Scale, variant: str) -> dict[str, Any]:
    """Fig 5."""
    if not present("cifar10") and scale != "paper":
        raise LackingDataError("cifar10")
    data, size = {"name": "cifar10", "normalise": "centred"}, _THINGS[scale]
    settings = _pictures(data, size, variant, batch=128, rate=size.rate, seeds=TEN_SEEDS[:6])
    return {**settings, "training": {**settings["training"], "matmul_precision": size.precision}}


def cifar10_long(scale: Scale, variant: str) -> dict[str, Any]:
    """Fig 6: ReLU, the smallest start."""
    if not present("cifar10") and scale != "paper":
        raise LackingDataError("cifar10")
    data, axis = {"name": "cifar10", "normalise": "centred"}, start_axis(variant)
    size = _LONG[scale]
    settings = _pictures(
        data, size, variant, batch=128, rate=size.rate, seeds=TEN_SEEDS[:6], every=size.every
    )
    few = {} if size.points is None else IN_SPAN
    return {
        **settings,
        "training": {**settings["training"], "matmul_precision": size.precision, **few},
        "grid": {"seed": settings["grid"]["seed"], axis: [INIT_SCALES[0]]},
    }


def _moments(scale: Scale) -> str:
    return "log" if scale == "paper" else "epoch"


def _pictures(
    data: dict[str, Any],
    size: Any,
    variant: str,
    *,
    batch: int,
    rate: float,
    seeds: list[int] = TEN_SEEDS,
    every: str | int = "epoch",
) -> dict[str, Any]:
    few = {} if size.test is None else {"limit": size.test}
    training = {"optimizer": "sgd", "learning_rate": rate, "epochs": size.epochs, "batch_size": batch}
    return {
        "data": {**data, **({} if size.points is None else {"limit": size.points})},
        "model": trained_head(size.width, variant),
        "training": {**training, "loss": "cross-entropy"},
        "probe": {
            "measures": ["stable-rank", "loss", "accuracy"],
            "every": every,
            "split": "test",
            **few,
        },
        "grid": {"activation": ACTIVATIONS, "seed": seeds, start_axis(variant): list(size.starts)},
    }


PARTS: dict[str, Part] = {
    "mnist": mnist,
    "fashion-mnist": fashion_mnist,
    "cifar10": cifar10,
    "cifar10-long": cifar10_long,
}
