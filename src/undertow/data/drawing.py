"""Random draws that are the same on every device."""

from __future__ import annotations

import torch

from undertow.core.errors import InputError

__all__ = ["cpu_generator", "require_positive"]


def cpu_generator(seed: int, generator: torch.Generator | None) -> torch.Generator:
    """``generator`` if given, otherwise a new one from ``seed``; always on the CPU.

    Devices have generators of their own with other numbers: what is drawn on the CPU and moved is the same
    everywhere.
    """
    if generator is None:
        return torch.Generator().manual_seed(seed)
    if generator.device.type != "cpu":
        raise InputError(
            f"The generator lives on {generator.device}; draw with a CPU generator, then move the data."
        )
    return generator


def require_positive(where: str, **sizes: int) -> None:
    """Refuse sizes below one, naming the first."""
    for name, size in sizes.items():
        if size < 1:
            raise InputError(f"{where}: {name} is {size}; it must be at least 1.")
