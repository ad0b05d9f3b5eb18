"""Class scores of flat inputs, with a count of what was asked of the networks, and the margins of the decisions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

__all__ = ["Passes", "Scorer", "margins_of"]


@dataclass
class Passes:
    """What was asked of the networks: inputs that went forward and backward, and in how many calls.

    An input of one network is one pass. Certificates are not counted: they read the layers.
    """

    forward: int = 0
    backward: int = 0
    calls: int = 0
    listener: Callable[[], None] | None = field(default=None, repr=False, compare=False)
    """Called with every forward pass, for a progress bar."""


@dataclass(frozen=True, eq=False)
class Scorer:
    """Class scores along the member axis, frozen while an attack runs.

    ``readout`` (k, outputs) maps what the network gives to scores of k ≥ 2 classes; None is the identity.
    ``passes`` counts what is asked, whoever asks.
    """

    outputs: Callable[[Tensor], Tensor]
    members: int
    shape: tuple[int, ...]
    classes: int
    readout: Tensor | None
    bounds: tuple[float, float] | None
    passes: Passes = field(default_factory=Passes)

    def __call__(self, x: Tensor) -> Tensor:
        """Scores (M, P, k) of flat inputs (M, P, d)."""
        out = self.outputs(x.reshape(*x.shape[:2], *self.shape))
        inputs = x.shape[0] * x.shape[1]
        self.passes.forward += inputs
        self.passes.calls += 1
        if self.passes.listener is not None:
            self.passes.listener()
        if out.requires_grad:  # counted where gradients pass, once for each that is taken
            out.register_hook(lambda _: self._went_back(inputs))  # type: ignore[no-untyped-call]
        if self.readout is None:
            return out
        out = out.unsqueeze(-1) if out.ndim == 2 else out
        return out @ self.readout.T

    def _went_back(self, inputs: int) -> None:
        self.passes.backward += inputs

    def clean(self, x: Tensor, *, chunk: int = 1024) -> Tensor:
        """Scores (M, N, k) of samples (N, …) shared by all members."""
        flat = x.flatten(1)
        with torch.no_grad():
            parts = [self(part.expand(self.members, *part.shape)) for part in torch.split(flat, chunk)]
        return torch.cat(parts, 1)


def margins_of(scores: Tensor, y: Tensor) -> Tensor:
    """q = s_y − max_{j≠y} s_j over the last axis.

    >>> margins_of(torch.tensor([[3.0, 1.0, 2.5]]), torch.tensor([0]))
    tensor([0.5000])
    """
    index = y.expand(scores.shape[:-1]).unsqueeze(-1)
    others = scores.scatter(-1, index, -torch.inf).amax(-1)
    return scores.gather(-1, index).squeeze(-1) - others
