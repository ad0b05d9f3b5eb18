"""The parameters in which curvature is measured, as one flat vector."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from undertow.core.errors import InputError, ModelError, nearest

__all__ = ["ChosenParameters"]


@dataclass(frozen=True)
class ChosenParameters:
    """Names and shapes of parameters, in the network's order; their entries one after the other are a vector (P,).

    A parameter that several layers share is one parameter, under the name at which it is met first.
    """

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]

    @classmethod
    def of(cls, net: nn.Module, wanted: Iterable[str] | None) -> ChosenParameters:
        """Those that are ``wanted``, by default all that train (``requires_grad``).

        >>> net = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
        >>> ChosenParameters.of(net, ["1.weight", "1.bias"]).size
        3
        """
        known = dict(net.named_parameters())
        if wanted is None:
            chosen = [name for name, parameter in known.items() if parameter.requires_grad]
            if not chosen:
                raise ModelError(
                    "the network has no parameter that trains, so there is no curvature: unfreeze some, or name them "
                    "in parameters=[…]."
                )
        else:
            asked = set([wanted] if isinstance(wanted, str) else wanted)
            for name in sorted(asked - known.keys()):
                raise InputError(f"the network has no parameter {name!r}: {nearest(name, known)}")
            chosen = [name for name in known if name in asked]
            if not chosen:
                raise InputError(
                    "parameters is empty: name at least one, or leave it out for all that train."
                )
        found = cls(tuple(chosen), tuple(known[name].shape for name in chosen))
        if found.size == 0:
            raise ModelError("the network's parameters have no entries, so there is no curvature.")
        return found

    @property
    def size(self) -> int:
        """P, the number of entries."""
        return sum(map(math.prod, self.shapes))

    def apart(self, vectors: Tensor) -> list[Tensor]:
        """Vectors (M, P) as one tensor (M, …) per parameter."""
        pieces = torch.split(vectors, [math.prod(shape) for shape in self.shapes], dim=1)
        return [piece.reshape(len(vectors), *shape) for piece, shape in zip(pieces, self.shapes, strict=True)]

    def together(self, tensors: Sequence[Tensor]) -> Tensor:
        """One tensor (M, …) per parameter as vectors (M, P)."""
        return torch.cat([tensor.reshape(len(tensor), -1) for tensor in tensors], dim=1)
