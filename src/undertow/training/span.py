"""Training in the span of the samples: of many inputs, as many coordinates as there are samples."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from undertow.core.errors import ModelError
from undertow.training.ensemble import Ensemble
from undertow.training.stacked import StackedMLP

__all__ = ["SpanOfSamples"]


class SpanOfSamples:
    """The same networks in fewer coordinates: W x = (W Q) (Qᵀ x) for samples x (N, d) and an orthonormal Q (d, N).

    A gradient of the first layer W is Σ δ_i x_iᵀ, so that steps along gradients leave W (1 − Q Qᵀ) as it was drawn, and
    W(t) = W(0) (1 − Q Qᵀ) + V(t) Qᵀ, where V is the first layer of a network with inputs Qᵀ x, trained in the same way.
    Of ten samples in 784 dimensions V has ten columns. Networks and gradients are equal up to rounding, and so are
    lengths of gradients, since Q is orthonormal.

    ``whole`` are the networks as they are, brought by ``show`` to where ``inside``, those in the span, are; ``x`` are
    the samples in the span. Where each network has samples of its own, it has a Q of its own.
    """

    def __init__(self, whole: Ensemble, x: Tensor | Sequence[Tensor]) -> None:
        if not isinstance(whole, StackedMLP):
            raise ModelError(
                "coordinates = 'span' is for networks of linear layers and activations: train others without it."
            )
        self.whole = whole
        self._first = whole.weights[whole.first]
        sets = [x] if isinstance(x, Tensor) else list(x)
        samples = torch.stack([own.detach().flatten(1) for own in sets]).to(self._first.device, torch.float64)
        basis = torch.linalg.qr(samples.mT)[0]  # (1, d, N) or (M, d, N)
        inside = samples @ basis
        self.x = inside[0] if isinstance(x, Tensor) else list(inside)
        self._basis = basis.to(self._first)
        bases = basis.expand(whole.size, -1, -1)
        within = [weight.double() @ own for weight, own in zip(self._first, bases, strict=True)]
        # What no step moves, (M, m, d).
        each = zip(self._first, within, bases, strict=True)
        self._rest = torch.stack([(weight.double() - own @ q.mT).to(weight) for weight, own, q in each])
        self.inside = whole.with_inputs(torch.stack(within))

    def show(self) -> None:
        """Bring ``whole`` to where the networks in the span are."""
        for name, weight in self.whole.weights.items():
            weight.copy_(self.inside.weights[name] if name != self.whole.first else self._rest)
        moved = self.inside.weights[self.whole.first]
        if len(self._basis) == 1:
            self._first.flatten(0, 1).addmm_(moved.flatten(0, 1), self._basis[0].T)
        else:
            self._first.baddbmm_(moved, self._basis.mT)
