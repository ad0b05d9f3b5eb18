"""Training in the span of the samples: of many inputs, as many coordinates as there are samples."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from undertow.core.errors import ModelError
from undertow.training.ensemble import Ensemble
from undertow.training.stacked import dense_layers

__all__ = ["SpanOfSamples"]


class SpanOfSamples:
    """The same networks in fewer coordinates: W x = (W Q) (Qᵀ x) for samples x (N, d) and an orthonormal Q (d, N).

    A gradient of the first layer W is Σ δ_i x_iᵀ, so that steps along gradients leave W (1 − Q Qᵀ) as it was drawn, and
    W(t) = W(0) (1 − Q Qᵀ) + V(t) Qᵀ, where V is the first layer of a network with inputs Qᵀ x, trained in the same way.
    Of ten samples in 784 dimensions V has ten columns. Networks and gradients are equal up to rounding, and so are
    lengths of gradients, since Q is orthonormal.

    ``networks`` and ``x`` are those in the span; ``whole`` holds the networks as they are, once ``show`` was called.

    >>> x = torch.tensor([[3.0, 0.0, 4.0]])
    >>> span = SpanOfSamples([nn.Linear(3, 2)], x, dtype=torch.float32)
    >>> span.networks[0].weight.shape, span.x.abs()
    (torch.Size([2, 1]), tensor([[5.]], dtype=torch.float64))
    """

    def __init__(self, networks: Sequence[nn.Module], x: Tensor, *, dtype: torch.dtype) -> None:
        layers = dense_layers(networks[0])
        if layers is None:
            raise ModelError(
                "coordinates = 'span' is for networks of linear layers and activations: train others without it."
            )
        self.first = layers[0].weight
        samples = x.detach().flatten(1).double()
        self._basis = torch.linalg.qr(samples.T)[0]
        self.x = samples @ self._basis
        weights = [dict(network.named_parameters())[self.first].detach() for network in networks]
        inside = [weight.double() @ self._basis for weight in weights]
        both = list(zip(networks, weights, inside, strict=True))
        self.networks = [_with_first(network, self.first, own) for network, _, own in both]
        # What no step moves, (M, m, d).
        self._rest = torch.stack([(w.double() - own @ self._basis.T).to(dtype) for _, w, own in both])

    def place(self, whole: Ensemble) -> None:
        """``whole``: the networks as they are, in the precision and on the device of the training."""
        self.whole, like = whole, whole.weights[self.first]
        self._rest, self._basis = self._rest.to(like), self._basis.to(like)

    def show(self, ensemble: Ensemble) -> None:
        """Bring ``whole`` to where the networks in the span are."""
        for name, weight in self.whole.weights.items():
            weight.copy_(ensemble.weights[name] if name != self.first else self._rest)
        first = self.whole.weights[self.first].flatten(0, 1)
        first.addmm_(ensemble.weights[self.first].flatten(0, 1), self._basis.T)


def _with_first(network: nn.Module, name: str, weight: Tensor) -> nn.Module:
    """A copy with another first layer, whose inputs are as many as the weight has columns."""
    module = network.get_submodule(name.rpartition(".")[0])
    assert isinstance(module, nn.Linear)
    given = module.weight
    found = copy.deepcopy(network, {id(given): nn.Parameter(weight, given.requires_grad)})
    found.get_submodule(name.rpartition(".")[0]).in_features = weight.shape[1]  # type: ignore[assignment]
    return found
