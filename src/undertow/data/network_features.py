"""Data made of a trained network's features: what its last layer before the classes sees of every image."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal, Self

import torch
from torch import Tensor, nn

from undertow.core.precision import matmul_precision
from undertow.core.sections import Count, Positive, Seed, Switch
from undertow.core.streams import stream
from undertow.data.catalogue import IMAGES
from undertow.data.data_section import Split, SplitData
from undertow.data.dataset import Dataset
from undertow.data.loading import load
from undertow.data.tasks import TaskName, relabel
from undertow.models import resnet
from undertow.training import Recipe, Scheduled, Trainer
from undertow.training.directions import HeavyBall

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
def feature_network(config: FeaturesData) -> nn.Sequential:
    """The residual network behind the features, in eval mode; trained once for each process and settings.

    Heavy ball with momentum 0.9 and weight decay 5e-4 on the cross-entropy, normalised by batches, the learning rate
    falling to zero in a straight line. On a GPU the products are in TF32: the network only has to be a good one.
    """
    assert config.seed is not None, "a trial's configuration is resolved"
    data = load(config.of, split="train", limit=config.train)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    image = (int(data.x.shape[1]), int(data.x.shape[2]), int(data.x.shape[3]))
    net = resnet(
        image=image,
        channels=config.channels,
        blocks=config.blocks,
        outputs=data.classes,
        generator=torch.Generator().manual_seed(stream(config.seed, "weights")),
    )
    recipe = Recipe(
        optimizer=HeavyBall(momentum=0.9, weight_decay=5e-4),
        learning_rate=config.learning_rate,
        rate=Scheduled(shape="linear"),
        epochs=config.epochs,
        batch_size=config.batch_size,
        loss="cross-entropy",
        matmul_precision="tf32",
        seed=stream(config.seed, "order"),
    )
    # A last batch of one sample has no variance to be normalised by.
    used = len(data) - (len(data) % config.batch_size == 1)
    trainer = Trainer([net.train()], data.x[:used].flatten(1), data.y[:used], [recipe], device=device)
    while not trainer.done:
        trainer.run_epoch()
    trained = trainer.network(0)
    assert isinstance(trained, nn.Sequential)
    return trained


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
