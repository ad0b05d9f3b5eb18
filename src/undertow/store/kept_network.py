"""A network as it was at one moment of its training, kept beside the trained one: its file's name says which moment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["KeptNetwork", "kept_name", "kept_networks"]

_NAME = re.compile(r"kept-step(\d+)-epoch(\d+)-log10loss(-?\d+\.\d+|-?inf|nan)\.safetensors")


@dataclass(frozen=True)
class KeptNetwork:
    """The network after ``step`` updates and ``epoch`` epochs, where the mean training loss was 10^log10_loss."""

    step: int
    epoch: int
    log10_loss: float
    path: Path
    data: bytes = field(repr=False)

    @property
    def weights(self) -> dict[str, Tensor]:
        """Its parameters by name."""
        from undertow.core.tensor_files import unpack  # torch: only whoever asks for tensors waits for it

        return unpack(self.data, self.path)


def kept_name(step: int, epoch: int, log10_loss: float) -> str:
    """The name of its file.

    >>> kept_name(870, 87, -10.05824)
    'kept-step870-epoch87-log10loss-10.0582.safetensors'
    """
    return f"kept-step{step}-epoch{epoch}-log10loss{log10_loss:.4f}.safetensors"


def kept_networks(trial: str, files: Mapping[str, bytes]) -> list[KeptNetwork]:
    """The kept networks among a trial's files, in the order of their steps.

    >>> files = {"kept-step20-epoch2-log10loss-5.5000.safetensors": b"", "status.json": b"", kept_name(9, 0, 0.25): b""}
    >>> [(each.step, each.epoch, each.log10_loss) for each in kept_networks("t", files)]
    [(9, 0, 0.25), (20, 2, -5.5)]
    """
    found = [(name, match) for name in files if (match := _NAME.fullmatch(name))]
    kept = [
        KeptNetwork(int(match[1]), int(match[2]), float(match[3]), Path(trial) / name, files[name])
        for name, match in found
    ]
    return sorted(kept, key=lambda each: each.step)
