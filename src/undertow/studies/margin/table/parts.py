"""A CNN with a bias in its first layer only, stopped at the losses of the talk's table; both rules; other starts."""

from __future__ import annotations

from typing import Any

from undertow.studies.kit.scales import by_scale
from undertow.studies.kit.study import Part, Scale

__all__ = ["PARTS"]

_SIZES = by_scale(
    data=("digits", "digits", "mnist"),
    n=(60, 200, 60000),
    image=((1, 8, 8), (1, 8, 8), (1, 28, 28)),
    channels=((4, 8), (4, 8), (32, 64)),
    kernels=((3, 3), (3, 3), (5, 3)),
    dense=((16,), (32,), (1024,)),
    levels=([-10.0, -15.0, -20.0], [-10.0, -15.0, -20.0, -100.0], [-10.04, -15.12, -20.07, -120.01]),
    last=(-50.0, -200.0, -881.51),
    points=(2, 3, 200),
    epochs=(40, 300, 1000),
    near=(0.4, 0.4, 1.0),
    passes=(300, 500, 20),
    starts=([0.05, 0.2, 0.5], [0.02, 0.05, 0.1, 0.2, 0.5], [0.01, 0.02, 0.05, 0.1, 0.2]),
    shares=([0.0, 0.5, 1.0], [0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 0.25, 0.5, 0.75, 1.0]),
)
_BOX = [0.0, 1.0]


def _data(size: Any) -> dict[str, Any]:
    return {"name": size.data, "limit": size.n}


def _training(scale: Scale, stop: float) -> dict[str, Any]:
    """The talk's rule on batches of 100; below paper scale whole batches and steps of one length along −∇log 𝓛.

    A few hundred points make a few steps an epoch, and the rule, which judges whole epochs, then takes thousands of
    them to come down from the start.
    """
    if scale == "paper":
        rule = {
            "optimizer": "sgd",
            "batch_size": 100,
            "learning_rate": 0.1,
            "rate": "loss-based",
            "epochs": 10000,
            "compiled": True,
        }
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


def _table(split: str | None) -> Part:
    def table(scale: Scale, variant: str) -> dict[str, Any]:  # noqa: ARG001
        size = _SIZES[scale]
        radii = {
            "name": "point-radii",
            "box": _BOX,
            "shorten": False,
            "ball": True,
            "limit": size.points,
        }
        attacks = [
            {"name": "robust-accuracy", "eps": [0.25, 0.5, 1.0], "attack": "cw+apgd-ce", "box": _BOX},
            {"name": "robust-accuracy", "eps": [0.05, 0.1], "norm": "inf", "attack": "apgd-ce", "box": _BOX},
        ]
        extra = [] if scale == "smoke" else [{**each, "limit": size.points} for each in attacks]
        return {
            "data": _data(size),
            "model": _model(scale),
            "training": _training(scale, size.levels[0]),
            "probe": {
                "measures": ["margins" if split is None else "accuracy", radii, *extra],
                "every": "end",
                **({} if split is None else {"split": split, "limit": 10 * size.points}),
            },
            "grid": {"stop_below": size.levels, "seed": list(range(10))},
        }

    return table


def longest(scale: Scale, variant: str) -> dict[str, Any]:  # noqa: ARG001
    """One network as far as the talk's model-5, measured at every few decades of the loss on the way."""
    size = _SIZES[scale]
    return {
        "data": _data(size),
        "model": _model(scale),
        "training": _training(scale, size.last),
        "probe": {"measures": ["margins"], "every": "10 decades" if scale == "paper" else "2 decades"},
        "grid": {"stop_below": [size.last], "seed": [0]},
    }


def adversarial(scale: Scale, variant: str) -> dict[str, Any]:  # noqa: ARG001
    """The table's network trained on the worst points within a radius, at a constant rate."""
    size, own = _SIZES[scale], _table(None)(scale, "paper")
    assert own is not None
    batches = {"optimizer": "sgd", "batch_size": 100} if scale == "paper" else {"optimizer": "gd"}
    return own | {
        "training": {
            **batches,
            "learning_rate": 0.1,
            "epochs": size.passes,
            "loss": "cross-entropy",
            "adversary": {"eps": size.near, "box": _BOX},
        },
        "grid": {"seed": list(range(10))},
    }


def six_seeds(scale: Scale, variant: str) -> dict[str, Any] | None:  # noqa: ARG001
    """The talk's CNN on all of MNIST to model-3, six networks side by side, measured at every fifth decade."""
    if scale != "paper":
        return None
    own = longest(scale, "paper")
    return own | {
        "training": own["training"] | {"stop_below": _SIZES[scale].levels[2]},
        "probe": {"measures": ["margins"], "every": "5 decades"},
        "grid": {"stop_below": [_SIZES[scale].levels[2]], "seed": list(range(6))},
    }


def vgg(scale: Scale, variant: str) -> dict[str, Any] | None:  # noqa: ARG001
    """VGG16 with a bias in its first layer only, of order 14, on CIFAR-10 by the talk's rule."""
    if scale != "paper":
        return None
    own = longest(scale, "paper")
    return own | {
        "data": {"name": "cifar10"},
        "model": {"name": "vgg16"},
        "training": own["training"] | {"stop_below": _SIZES[scale].levels[2]},
        "probe": {"measures": ["margins"], "every": "1 decades"},
        "grid": {"stop_below": [_SIZES[scale].levels[2]], "seed": [0]},
    }


def _rule(name: str) -> Part:
    def rule(scale: Scale, variant: str) -> dict[str, Any]:  # noqa: ARG001
        size = _SIZES[scale]
        sizes = {"rate": {"name": "loss-based", "frame_at_start": 30.0}} if name == "loss-based" else {}
        return {
            "data": _data(size),
            "model": _model("paper" if scale == "paper" else "smoke"),
            "training": {
                "optimizer": "sgd",
                "batch_size": 100 if scale == "paper" else 20,
                "learning_rate": 0.1 if sizes else 0.01,
                "epochs": size.epochs,
                "loss": "cross-entropy",
                **sizes,
            },
            "probe": {"measures": ["margins"], "every": "log"},
            "grid": {"seed": list(range(10))},
        }

    return rule


def _starts(split: str | None) -> Part:
    def starts(scale: Scale, variant: str) -> dict[str, Any]:  # noqa: ARG001
        size = _SIZES[scale]
        start = {"name": "gaussian", "std": size.starts[0]}
        return {
            "data": _data(size),
            "model": {"name": "mlp", "widths": [64], "init": start},
            "training": _training("smoke", -10.0),
            "probe": {
                "measures": ["margins" if split is None else "accuracy"],
                "every": "end",
                **({} if split is None else {"split": split, "limit": 1000}),
            },
            "grid": {"std": size.starts, "seed": list(range(10))},
        }

    return starts


def _mixed(split: str | None) -> Part:
    """The same networks from one start, on few enough points that random labels can be fitted, to a loss of 10^-3.

    A share of the points has random labels; errors are of true ones.
    """

    def mixed(scale: Scale, variant: str) -> dict[str, Any]:
        size, own = _SIZES[scale], _starts(split)(scale, variant)
        assert own is not None
        return own | {
            "data": {"name": "mixed-labels", "of": own["data"] | {"limit": min(size.n, 500)}},
            "model": own["model"] | {"init": {"name": "gaussian", "std": 0.1}},
            "training": _training("smoke", -3.0),
            "grid": {"share": size.shares, "seed": list(range(10))},
        }

    return mixed


PARTS: dict[str, Part] = {
    "table": _table(None),
    "table-test": _table("test"),
    "adversarial": adversarial,
    "longest": longest,
    "six-seeds": six_seeds,
    "vgg": vgg,
    "rule-loss-based": _rule("loss-based"),
    "rule-constant": _rule("constant"),
    "starts": _starts(None),
    "starts-test": _starts("test"),
    "mixed": _mixed(None),
    "mixed-test": _mixed("test"),
}
