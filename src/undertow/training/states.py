"""A moment of training as named tensors: taken out for a checkpoint, and put back."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from undertow.core.errors import StoreError

__all__ = ["put_back", "taken_out"]


def taken_out(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies on the CPU, which do not change with the training."""
    return {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}


def put_back(state: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """Write into the tensors, in place, what ``taken_out`` gave of others like them.

    >>> import torch
    >>> now = torch.zeros(2)
    >>> put_back({"w": torch.ones(2)}, {"w": now})
    >>> now.tolist()
    [1.0, 1.0]
    """
    ours = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()}
    theirs = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in state.items()}
    if ours != theirs:
        name = next(name for name in sorted({*ours, *theirs}) if ours.get(name) != theirs.get(name))
        raise StoreError(
            f"This state is of another training run: {name!r} is {theirs.get(name, 'missing')} in it and "
            f"{ours.get(name, 'missing')} here. Restore it with the networks and recipes that made it."
        )
    for name, tensor in tensors.items():
        tensor.copy_(state[name])
