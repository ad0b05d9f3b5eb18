"""Small networks and data that the tests of training share."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from undertow.models import Gaussian, mlp, two_layer
from undertow.training import Recipe, Trainer

Build = Callable[[int], nn.Module]
CLASSES = 3
ACTIVATIONS = ["relu", "leaky-relu", "linear", "tanh", "gelu"]


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def data(samples: int = 37) -> tuple[Tensor, Tensor]:
    """Samples (N, 2, 4, 4), a size no batch of 8 divides, and three classes."""
    draw = generator(11)
    return torch.randn(samples, 2, 4, 4, generator=draw), torch.randint(
        0, CLASSES, (samples,), generator=draw
    )


def dense(activation: str = "relu") -> Build:
    def build(seed: int) -> nn.Module:
        return mlp(
            inputs=32,
            widths=[9, 7],
            outputs=CLASSES,
            activation=activation,
            bias=True,
            generator=generator(seed),
        )

    return build


def shallow(seed: int) -> nn.Module:
    return two_layer(
        inputs=32, width=10, outputs=CLASSES, init=Gaussian(0.3), head="gaussian", generator=generator(seed)
    )


def polynomial(seed: int) -> nn.Module:
    return two_layer(
        inputs=32,
        width=6,
        outputs=CLASSES,
        activation="prelu-p2",
        init=Gaussian(0.2),
        head="gaussian",
        generator=generator(seed),
    )


def convolutional(seed: int) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        norm = nn.BatchNorm2d(3)
        nn.init.normal_(norm.get_buffer("running_mean"))  # each member has statistics of its own
        return nn.Sequential(
            nn.Conv2d(2, 3, 3), norm, nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(12, CLASSES)
        ).eval()


ARCHITECTURES: dict[str, Build] = {
    **{f"dense-{name}": dense(name) for name in ACTIVATIONS},
    "shallow": shallow,
    "polynomial": polynomial,
    "convolutional": convolutional,
}
OPTIMIZERS: dict[str, dict[str, object]] = {
    "gd": {"optimizer": "gd"},
    "sgd": {"optimizer": "sgd", "batch_size": 8},
    "momentum": {"optimizer": "sgd", "batch_size": 8, "momentum": 0.9},
    "adam": {"optimizer": "adam", "batch_size": 8},
}


def recipe(*, optimizer: str = "sgd", **changes: object) -> Recipe:
    options: dict[str, object] = {
        "learning_rate": 0.02,
        "epochs": 3,
        "loss": "cross-entropy",
        "dtype": "float64",
        **OPTIMIZERS[optimizer],
        **changes,
    }
    return Recipe(**options)  # type: ignore[arg-type]


def trained(trainer: Trainer) -> Trainer:
    while not trainer.done:
        trainer.run_epoch()
    return trainer


def weights(network: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach() for name, parameter in network.named_parameters()}
