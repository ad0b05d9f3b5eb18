"""Training in the span of the samples: of many inputs, as many coordinates as there are samples."""

from __future__ import annotations

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
    the samples in the span.
    """

    def __init__(self, whole: Ensemble, x: Tensor) -> None:
        if not isinstance(whole, StackedMLP):
            raise ModelError(
                "coordinates = 'span' is for networks of linear layers and activations: train others without it."
            )
        self.whole = whole
        self._first = whole.weights[whole.first]
        samples = x.detach().flatten(1).to(self._first.device, torch.float64)
        basis = torch.linalg.qr(samples.T)[0]
        self.x, self._basis = samples @ basis, basis.to(self._first)
        within = [weight.double() @ basis for weight in self._first]
        # What no step moves, (M, m, d).
        both = zip(self._first, within, strict=True)
        self._rest = torch.stack([(weight.double() - own @ basis.T).to(weight) for weight, own in both])
        self.inside = whole.with_inputs(torch.stack(within))

    def show(self) -> None:
        """Bring ``whole`` to where the networks in the span are."""
        for name, weight in self.whole.weights.items():
            weight.copy_(self.inside.weights[name] if name != self.whole.first else self._rest)
        moved = self.inside.weights[self.whole.first].flatten(0, 1)
        self._first.flatten(0, 1).addmm_(moved, self._basis.T)
