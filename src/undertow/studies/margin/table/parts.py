"""A CNN with a bias in its first layer only, stopped at the losses of the talk's table; both rules; other starts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from undertow.studies.kit.scales import by_scale
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS"]

_SIZES = by_scale(
    data=("digits", "digits", "mnist"),
    n=(60, 200, 60000),
    labels=(30, 200, 500),
    image=((1, 8, 8), (1, 8, 8), (1, 28, 28)),
    channels=((4, 8), (4, 8), (32, 64)),
    kernels=((3, 3), (3, 3), (5, 3)),
    dense=((16,), (32,), (1024,)),
    levels=((10.0, 20.0), (10.0, 15.0, 20.0, 100.0), (10.04, 15.12, 20.07)),
    last=((30.0,), (200.0,), (10.04, 15.12, 20.07, 120.01, 881.51)),
    points=(2, 10, 50),
    attacked=(1, 20, 50),
    around=((), tuple(k / 20 for k in range(1, 16)), tuple(k / 5 for k in range(1, 16))),
    seeds=(6, 10, 6),
    epochs=(20, 600, 40),
    constant=(0.3, 0.3, 0.01),
    near=(0.4, 0.4, 1.0),
    passes=(60, 200, 20),
    starts=([0.05, 0.2, 0.5], [0.02, 0.05, 0.1, 0.2, 0.5], [0.01, 0.02, 0.05, 0.1, 0.2]),
    shares=([0.0, 0.5, 1.0], [0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 0.25, 0.5, 0.75, 1.0]),
)
_BOX = [0.0, 1.0]
_BATCHES = {"optimizer": "sgd", "batch_size": 100}


def _data(size: Any) -> dict[str, Any]:
    return {"name": size.data, "limit": size.n}


def _training(scale: Scale, stop: float) -> dict[str, Any]:
    """The talk's rule on batches of 100; below paper scale whole batches and steps of one length along −∇log 𝓛.

    A few hundred points make a few steps an epoch, and the rule, which judges whole epochs, then takes thousands of
    them to come down from the start.
    """
    rule: dict[str, Any]
    if scale == "paper":
        rule = {**_BATCHES, "learning_rate": 0.1, "rate": "loss-based", "epochs": 10000, "compiled": True}
    else:
        rule = {"optimizer": "normalised-gd", "learning_rate": 0.2, "objective": "log-loss", "epochs": 5000}
    return {**rule, "loss": "cross-entropy", "stop_below": stop}


def _model(scale: Scale) -> dict[str, Any]:
    """The CNN, smaller for digits; at smoke scale, which is to take seconds, two fully connected layers."""
    if scale == "smoke":
        return {"name": "mlp", "widths": [32]}
    size = _SIZES[scale]
    sizes = {"image": size.image, "channels": size.channels, "kernels": size.kernels, "dense": size.dense}
    return {"name": "cnn", **{name: list(value) for name, value in sizes.items()}}


def _at(levels: Sequence[float]) -> str:
    """When the loss has passed 10^-10, 10^-15, …"""
    return f"at {', '.join(f'{level:g}' for level in levels)} decades"


def _radii(scale: Scale, *, test: bool) -> list[dict[str, Any]]:
    """Radii from all sides, and above smoke scale what the talk's attacks leave, on either kind of points.

    Nothing is proved of the talk's CNN but by the norms of its layers: linear bounds of it take minutes a point. It is
    attacked at every loss of the table, and smaller networks at the last.
    """
    size, paper = _SIZES[scale], scale == "paper"
    proof = {"prove": False} if paper else {"refine": False, "ball": True}
    attacks = [
        {"name": "robust-accuracy", "eps": [1.0], "attack": "apgd-ce"},
        {"name": "robust-accuracy", "eps": [0.1], "norm": "inf", "attack": "apgd-ce"},
    ]
    radii = {"name": "point-radii", "shorten": False, "limit": size.points, **proof}
    when = {} if paper else {"every": "end"}
    last = [{**each, "limit": size.attacked, **when} for each in attacks if scale != "smoke"]
    common = {"box": _BOX, **({"split": "test"} if test else {})}
    return [each | common for each in (radii, *last)]


def table(scale: Scale, variant: str) -> dict[str, Any]:  # noqa: ARG001
    """Networks on their way to the last loss, looked at when they pass the losses of the table's models.

    At paper scale each is a group of its own, for as many processes as there are: a try that is hopeless then ends
    early, where several networks would wait for the most hopeful, and a seed that has come to its end is done.
    """
    size = _SIZES[scale]
    return {
        "data": _data(size),
        "model": _model(scale),
        "training": _training(scale, -size.levels[-1]),
        "probe": {
            "measures": ["margins", *_radii(scale, test=False), *_radii(scale, test=True)],
            "every": _at(size.levels),
            "keep": _at(size.levels),
        },
        "grid": {"seed": list(range(size.seeds))},
        **({"group_size": 1} if scale == "paper" else {}),
    }


def longest(scale: Scale, variant: str) -> dict[str, Any]:
    """One network as far as the talk's model-5, its margins read at every few decades of the loss on the way."""
    size, own, paper = _SIZES[scale], table(scale, variant), scale == "paper"
    tens = range(10, int(size.last[-1]), 10)
    between = [ten for ten in tens if all(abs(ten - level) > 1 for level in size.last)]
    often = _at(sorted((*size.last, *between))) if paper else "2 decades"
    margins = {"name": "margins", "every": often}
    radii = own["probe"]["measures"][1:] if paper else []
    return own | {
        "training": _training(scale, -size.last[-1]),
        "probe": {"measures": [margins, *radii], "every": _at(size.last), "keep": _at(size.last)},
        "grid": {"seed": [0]},
    }


def carlini(scale: Scale, variant: str) -> dict[str, Any] | None:
    """Three of the table's networks at its first and last loss under the talk's first attack.

    It takes 1,801 steps a point, and so has few networks, and none at smoke scale.
    """
    if scale == "smoke":
        return None
    size, own = _SIZES[scale], table(scale, variant)
    attack = {"name": "robust-accuracy", "attack": "cw", "eps": list(size.around), "limit": size.attacked}
    measures = ["margins", attack | {"box": _BOX}, attack | {"box": _BOX, "split": "test"}]
    ends = _at((size.levels[0], size.levels[-1]))
    return own | {"probe": {"measures": measures, "every": ends}, "grid": {"seed": [0, 1, 2]}}


def adversarial(scale: Scale, variant: str) -> dict[str, Any]:
    """The table's network trained on the worst points within a radius, at a constant rate."""
    size, own = _SIZES[scale], table(scale, variant)
    batches = _BATCHES if scale == "paper" else {"optimizer": "gd"}
    return own | {
        "training": {
            **batches,
            "learning_rate": 0.1,
            "epochs": size.passes,
            "loss": "cross-entropy",
            "adversary": {"eps": size.near, "box": _BOX},
        },
        "probe": {"measures": ["margins", _radii(scale, test=False)[0]], "every": "end"},
    }


def vgg(scale: Scale, variant: str, *, rate: str | None = None) -> dict[str, Any] | None:  # noqa: ARG001
    """VGG16 with a bias in its first layer only, of order 14, on 5,000 pictures, by either of the talk's rules."""
    if scale != "paper":
        return None
    accuracy = {"name": "accuracy", "split": "test", "every": "end"}
    return {
        "data": {"name": "cifar10", "limit": 5000},
        "model": {"name": "vgg16"},
        "training": {**_BATCHES, "learning_rate": 0.1, "epochs": 200, "loss": "cross-entropy"}
        | ({"rate": rate} if rate else {}),
        "probe": {"measures": ["margins", accuracy], "every": "log"},
        "grid": {"seed": [0]},
    }


def rule(scale: Scale, variant: str, *, name: str) -> dict[str, Any]:  # noqa: ARG001
    """Either rule on batches, to equal numbers of epochs that are kept; digits with a constant rate that fits them."""
    size, paper = _SIZES[scale], scale == "paper"
    first = {"name": "loss-based"} | ({} if paper else {"frame_at_start": 30.0})
    return {
        "data": _data(size),
        "model": _model("paper" if paper else "smoke"),
        "training": {
            **_BATCHES,
            **({"compiled": True} if paper else {"batch_size": 20}),
            "learning_rate": size.constant if name == "constant" else 0.1,
            "rate": name if name == "constant" else first,
            "epochs": size.epochs,
            "loss": "cross-entropy",
        },
        "probe": {"measures": ["margins"], "every": "log"},
        "grid": {"seed": list(range(1 if paper else 10))},
    }


def starts(scale: Scale, variant: str) -> dict[str, Any]:  # noqa: ARG001
    """Two layers from several starts to equal losses: margins on the points trained on, errors on others."""
    size, accuracy = _SIZES[scale], {"name": "accuracy", "split": "test", "limit": 1000}
    return {
        "data": _data(size),
        "model": {"name": "mlp", "widths": [64], "init": {"name": "gaussian", "std": size.starts[0]}},
        "training": _training("smoke", -10.0),
        "probe": {"measures": ["margins", accuracy], "every": "end"},
        "grid": {"std": size.starts, "seed": list(range(10))},
    }


def mixed(scale: Scale, variant: str) -> dict[str, Any]:
    """The same networks from one start, on few enough points that random labels can be fitted, to a loss of 10^-3.

    A share of the points has random labels; errors are of true ones.
    """
    size, own = _SIZES[scale], starts(scale, variant)
    return own | {
        "data": {"name": "mixed-labels", "of": own["data"] | {"limit": size.labels}},
        "model": own["model"] | {"init": {"name": "gaussian", "std": 0.1}},
        "training": _training("smoke", -3.0),
        "grid": {"share": size.shares, "seed": list(range(10))},
        "own_data": True,
    }


PARTS: dict[str, Part] = {
    "table": table,
    "carlini": carlini,
    "adversarial": adversarial,
    "longest": longest,
    "vgg": vgg,
    "vgg-loss-based": partial(vgg, rate="loss-based"),
    "rule-loss-based": partial(rule, name="loss-based"),
    "rule-constant": partial(rule, name="constant"),
    "starts": starts,
    "mixed": mixed,
}
