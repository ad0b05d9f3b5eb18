"""Adversarial images with the adversary's labels: the experiment of Ilyas et al. (2019), §3.2."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from undertow.core.sections import Count, NonNegative, Positive
from undertow.core.streams import stream
from undertow.data.data_section import Split
from undertow.data.dataset import Dataset
from undertow.data.derived import DerivedData
from undertow.models import mlp
from undertow.training import Recipe, Trainer
from undertow.training.adversarial import AdversarialTraining, worst_nearby
from undertow.training.stacking import stack_networks

__all__ = ["RelabelledData"]


class RelabelledData(DerivedData):
    """The training points of ``of``, each moved within ``eps`` (L2) toward a target class and labelled by it.

    What it moves toward is where a network sees its target: fully connected, one hidden layer of ``width``, trained on
    ``of`` by Adam for ``epochs``. Targets are "random", uniform over the classes whatever the true one is, or
    "deterministic", the class after the true one. To a human nothing but wrong labels is left; ``eps`` = 0 moves
    nothing, and is the control. Measured are points of ``of`` as they are, with their true labels.
    """

    name: Literal["relabelled"]
    targets: Literal["random", "deterministic"] = "random"
    eps: NonNegative = 0.5
    steps: Count = 50
    width: Count = 64
    epochs: Count = 20
    learning_rate: Positive = 0.003
    batch_size: Count = 100

    def build(self) -> Dataset:
        source = self.of.build()
        y = self._targets(source)
        x = source.x.flatten(1) if self.eps == 0 else _moved(self, source.x.flatten(1), y, source)
        # What is known of single samples (their noise, their cluster) is of the points before they were moved.
        details = {name: value for name, value in source.details.items() if name not in source.aligned}
        return Dataset.of(
            x,
            y,
            name=f"{source.name}-relabelled",
            classes=source.classes,
            bounds=source.bounds,
            details=details,
        )

    def points(self, dataset: Dataset, *, split: Split | None, limit: int | None) -> Dataset:
        like = dataset if "centres" in dataset.details else self.of.build()
        return self.of.points(like, split=split or "test", limit=limit)

    def files_read(self, split: Split | None) -> set[tuple[str, Split]]:
        return self.of.files_read(split or "test")

    def _targets(self, source: Dataset) -> Tensor:
        if self.targets == "deterministic":
            return (source.y + 1) % source.classes
        assert self.seed is not None, "a trial's configuration is resolved"
        draw = torch.Generator().manual_seed(stream(self.seed, "data"))
        return torch.randint(source.classes, source.y.shape, generator=draw)


def _moved(section: RelabelledData, x: Tensor, y: Tensor, source: Dataset) -> Tensor:
    """Each sample where the network's loss at its target is smallest nearby, and within the bounds of the data."""
    key = section.model_copy(update={"targets": "random", "eps": 1.0, "steps": 1})
    ensemble = stack_networks([_network(key)], frozen=[], dtype=torch.float32, device=x.device)
    box = () if source.bounds is None else source.bounds
    how = AdversarialTraining(eps=section.eps, steps=section.steps, box=box)
    return worst_nearby(how, ensemble, x, y, "cross-entropy", own=False, toward=True)[0]


@lru_cache(maxsize=32)
def _network(section: RelabelledData) -> torch.nn.Module:
    """The network that is attacked: the same for all targets and radii."""
    assert section.seed is not None, "a trial's configuration is resolved"
    source = section.of.build()
    x = source.x.flatten(1)
    start = mlp(
        inputs=x.shape[1],
        widths=[section.width],
        outputs=source.classes,
        bias=True,
        # not the start of the network that will be trained on what this one gives
        generator=torch.Generator().manual_seed(stream(stream(section.seed, "data"), "weights")),
    )
    recipe = Recipe(
        optimizer="adam",
        learning_rate=section.learning_rate,
        epochs=section.epochs,
        batch_size=section.batch_size,
        seed=stream(section.seed, "order"),
    )
    trainer = Trainer([start], x, source.y, [recipe])
    while not trainer.done:
        trainer.run_epoch()
    return trainer.network(0)
