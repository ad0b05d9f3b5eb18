"""The operator of one-sided Lanczos: JᵀJ or JJᵀ on the small side, in units that keep squares within range."""

from __future__ import annotations

import torch
from torch import Tensor

from undertow.jacobian.operator import JacobianOperator, slow_to_resize
from undertow.jacobian.replaying import Replayed

__all__ = ["ScaledGram"]


class ScaledGram:
    """v ↦ JᵀJ v for every sample of a batch, or JJᵀ v where the output is no larger than the input.

    The first product chooses the units: ``unit`` is what J is multiplied by, None where that is 1 for all samples.
    """

    def __init__(self, operator: JacobianOperator) -> None:
        self.operator = operator
        self.slow_to_resize = slow_to_resize(operator)
        self.unit: Tensor | None = None
        self._adjoint = operator.out_size <= operator.in_size
        self._normal = Replayed(operator.normal)
        self._begun = False

    def __call__(self, vector: Tensor) -> Tensor:
        if self._begun and self.unit is None:
            return self._normal(vector)
        operator = self.operator
        image = operator.vjp(vector) if self._adjoint else operator.jvp(vector)
        if not self._begun:
            self._rescale_if_extreme(image)
            self._begun = True
        if self.unit is not None:
            image = image * self.unit
        onward = operator.jvp(image) if self._adjoint else operator.vjp(image)
        return onward if self.unit is None else onward * self.unit

    def _rescale_if_extreme(self, image: Tensor) -> None:
        # Fourth powers of the norm occur, and the norm can be a million times what a random start shows of it.
        size = image.abs().amax(1)
        extreme = (size > 0) & ((size < 1e-6) | (size > 1e3))
        if bool(extreme.any()):
            size = size.clamp_min(4 * torch.finfo(size.dtype).tiny)
            self.unit = torch.where(extreme, 1 / size, 1.0)[:, None]

    def units(self, like: Tensor) -> Tensor:
        """What every sample's J is multiplied by, one number each like ``like``."""
        return torch.ones_like(like) if self.unit is None else self.unit[:, 0].double()

    def take(self, index: Tensor) -> None:
        """Go on with these samples alone."""
        self.operator = self.operator.take(index)
        self._normal = Replayed(self.operator.normal)
        self.unit = None if self.unit is None else self.unit[index]
