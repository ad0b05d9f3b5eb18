"""Data made of a trained network's features: what its last layer before the classes sees of every image."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal, Self

import torch
from torch import Tensor, nn

from undertow.core.losses import loss_gradient
from undertow.core.precision import deterministic_convolutions, matmul_precision
from undertow.core.sections import Count, Positive, Seed, Switch
from undertow.core.streams import stream
from undertow.data.catalogue import IMAGES
from undertow.data.data_section import Split, SplitData
from undertow.data.dataset import Dataset
from undertow.data.loading import load
from undertow.data.tasks import TaskName, relabel
from undertow.models import resnet

__all__ = ["FeaturesData", "feature_network", "features"]

if TYPE_CHECKING:
    ImageName = str
else:
    ImageName = Literal[IMAGES]


class FeaturesData(SplitData):
    """What a residual network trained on all classes of ``of`` makes of its images; see :func:`features`.

    ``task`` and ``limit`` are those of the data that come out; ``centred`` takes the mean over all classes away. The
    network's training set has ``train`` samples.
    """

    name: Literal["features"]
    of: ImageName
    task: TaskName | None = None
    centred: Switch = False
    channels: tuple[Count, ...] = (8, 16, 32)
    blocks: Count = 1
    train: Count | None = None
    epochs: Count = 10
    batch_size: Count = 128
    learning_rate: Positive = 0.1
    seed: Seed | None = None

    def build(self) -> Dataset:
        return features(self)

    def with_seed(self, seed: int) -> Self:
        return self if self.seed is not None else self.model_copy(update={"seed": seed})

    def files_read(self, split: Split | None) -> set[tuple[str, Split]]:
        splits: set[Split | None] = {"train", self.split, split}
        return {(self.of, each) for each in splits if each is not None}


def features(config: FeaturesData) -> Dataset:
    """Features of ``of``, scaled, with the classes' means as "centres" and the task's signs beside them.

    A residual network is trained on all classes of the training split; what its pooling gives is the data, scaled so
    that a class mean has norm √d on average, as the centres of D_binary have. Those numbers are not negative, and
    their class means all point one way; ``centred`` first takes away the mean over the training split.
    ``details``: "centres" (classes, d), "cluster_sign" (±1, from the task; all +1 without one), "cluster".
    """
    same = {"split": "train", "limit": None, "task": None, "centred": False}
    source = config.model_copy(update=same)
    trained_on, labels, count = _seen(source, "train", config.train)
    shift = trained_on.mean(0) if config.centred else torch.zeros_like(trained_on[0])
    means = torch.stack([trained_on[labels == c].mean(0) for c in range(count)]) - shift
    unit = means.norm(dim=1).mean() / means.shape[1] ** 0.5
    chosen, y, _ = _seen(source, config.split, config.limit)
    classes = torch.arange(count)
    probe = Dataset.of(classes[:, None].float(), classes, name=config.of)
    sides = torch.ones_like(classes) if config.task is None else 2 * relabel(probe, config.task).y - 1
    data = Dataset.of(
        (chosen - shift) / unit,
        y,
        name=f"{config.of}-features",
        classes=count,
        details={"centres": means / unit, "cluster_sign": sides, "cluster": y},
        aligned=("cluster",),
    )
    return relabel(data, config.task)


@lru_cache(maxsize=16)
@deterministic_convolutions()  # another process trains the same network
def feature_network(config: FeaturesData) -> nn.Sequential:
    """The residual network behind the features, in eval mode; trained once for each process and settings.

    SGD with momentum 0.9 and weight decay 5e-4 on the cross-entropy, the learning rate falling to zero in a straight
    line. Written out: the first optimizer of ``torch.optim`` imports a compiler, which takes a second. On a GPU the
    products are in bfloat16 (weights, sums and features in float32): the network only has to be a good one.
    """
    assert config.seed is not None, "a trial's configuration is resolved"
    data = load(config.of, split="train", limit=config.train)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    weights = torch.Generator().manual_seed(stream(config.seed, "weights"))
    image = (int(data.x.shape[1]), int(data.x.shape[2]), int(data.x.shape[3]))
    net = resnet(
        image=image,
        channels=config.channels,
        blocks=config.blocks,
        outputs=data.classes,
        generator=weights,
    ).to(device)
    net.train()
    x, y = data.x.flatten(1).to(device), data.y.to(device)
    weights_of: list[Tensor] = list(net.parameters())
    velocities = [torch.zeros_like(weight) for weight in weights_of]
    step, steps = 0, config.epochs * -(-len(x) // config.batch_size)
    order = torch.Generator().manual_seed(stream(config.seed, "order"))
    for _ in range(config.epochs):
        for batch in torch.split(torch.randperm(len(x), generator=order).to(device), config.batch_size):
            if len(batch) < 2:
                continue  # BatchNorm has no variance of a single sample
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                logits = net(x[batch]).float()
            slopes = loss_gradient(logits.detach(), y[batch], "cross-entropy")
            gradients = torch.autograd.grad(logits, weights_of, slopes)
            rate = config.learning_rate * (1 - step / steps)
            with torch.no_grad():
                torch._foreach_mul_(velocities, 0.9)
                torch._foreach_add_(velocities, gradients)
                torch._foreach_add_(velocities, weights_of, alpha=5e-4)
                torch._foreach_add_(weights_of, velocities, alpha=-rate)
            step += 1
    return net.eval()


@lru_cache(maxsize=32)  # the heads of a study share them, three for each of ten seeds
def _seen(source: FeaturesData, split: Split, limit: int | None) -> tuple[Tensor, Tensor, int]:
    """The features of a split's first images, their classes, and how many classes there are."""
    data = load(source.of, split=split, limit=limit)
    return _pooled(feature_network(source), data.x), data.y, data.classes


@torch.no_grad()
@matmul_precision("float32")
def _pooled(net: nn.Sequential, x: Tensor) -> Tensor:
    """What the classes are read from, of every image, back on the CPU."""
    place = next(net.parameters()).device
    return torch.cat([net[:-1](part.to(place)).cpu() for part in torch.split(x.flatten(1), 512)])
