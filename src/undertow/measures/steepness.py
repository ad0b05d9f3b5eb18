"""Numbers that are said to tell how fragile a network is, side by side: energies and Lipschitz constants."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field
from torch import Tensor, nn

from undertow.core.errors import ModelError
from undertow.core.losses import labels_of_classes
from undertow.core.networks import DenseChain, read_dense
from undertow.jacobian.batched_norms import batched_norms
from undertow.jacobian.largest_singular import largest_singular
from undertow.jacobian.norms import JacobianNorms
from undertow.measures.energy import energy, root_mean_square
from undertow.measures.named_measure import NamedMeasure
from undertow.measures.reading import Reading, labels_for

__all__ = ["Steepness"]


class Steepness(NamedMeasure):
    """Of a fully connected network: S(f), S(L∘f), the largest ‖J(x_i)‖₂ over the points, and the product of norms.

    Readings: ``energy`` = √E‖J‖₂²; ``largest`` = max_i ‖J(x_i)‖₂, a Lipschitz constant as far as the points show it;
    ``product`` = Π_l s_l‖W_l‖₂ (s_l the steepest slope of the activation behind it), one everywhere: each is at least
    as large as the one before. ``loss_energy`` = √E‖∇_x L‖₂² is that of the network's own loss.
    ``rtol`` bounds the error of every Jacobian's norm, by default as :func:`undertow.jacobian_norms` has it.

    >>> import torch
    >>> net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU(), nn.Linear(2, 1, bias=False)).requires_grad_(False)
    >>> _ = net[0].weight.copy_(torch.tensor([[3.0, 0.0], [0.0, 1.0]])), net[2].weight.copy_(torch.tensor([[0.0, 2.0]]))
    >>> readings = Steepness(loss="bce")(net, torch.ones(4, 2), torch.tensor([1, 1, 1, 1]))
    >>> {key: round(value, 3) for key, value, _ in readings}
    {'energy': 2.0, 'largest': 2.0, 'product': 6.0, 'loss_energy': 0.238}
    """

    name: ClassVar[str] = "steepness"
    loss: Literal["cross-entropy", "bce", "logistic", "exponential"] = "cross-entropy"
    rtol: Annotated[float, Field(strict=True, gt=0, lt=1)] | None = None

    def __call__(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Iterator[Reading]:
        return iter(self.batched([net], x, y)[0])

    def batched(self, networks: Sequence[nn.Module], x: Tensor, y: Tensor | None) -> list[list[Reading]]:
        """All networks' Jacobians as one batch."""
        options: dict[str, Any] = {} if self.rtol is None else {"rtol": self.rtol}
        several = batched_norms(networks, x, **options)
        return [list(self._readings(*each, x, y)) for each in zip(networks, several, strict=True)]

    def _readings(
        self, net: nn.Module, norms: JacobianNorms, x: Tensor, y: Tensor | None
    ) -> Iterator[Reading]:
        yield "energy", *root_mean_square(norms.value, norms.error)
        place = int(norms.value.argmax())
        yield "largest", float(norms.value[place]), float(norms.error.max())
        yield "product", *_product_of_norms(net, x)
        labels = labels_of_classes(labels_for(self, y), loss=self.loss)
        found = energy(net, x, labels, loss=self.loss)
        yield "loss_energy", found.value, found.error


def _product_of_norms(net: nn.Module, x: Tensor) -> tuple[float, float]:
    """Π_l s_l‖W_l‖₂ and a bound of its error."""
    layers = read_dense(net, inputs=x)
    if not isinstance(layers, DenseChain):
        raise ModelError(f"the product of norms is of linear layers and activations: {layers.reason}.")
    value, relative = 1.0, 0.0
    for linear in layers.linears:
        norm, error = (float(each) for each in largest_singular(linear.weight[None]))
        value *= norm
        relative += error / max(norm, 1e-300)
    for layer in layers.activations:
        if layer is not None and layer.activation is None:
            raise ModelError(
                f"how steep {layer.activation_name} is, is not known: use an activation of torch.nn."
            )
        value *= 1.0 if layer is None or layer.activation is None else layer.activation.steepness
    return value, value * math.expm1(relative)
