"""Networks that have their own gradients written down, as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from undertow.core.closed_form import ClosedForm
from undertow.training.ensemble import Ensemble

__all__ = ["WrittenGradients"]


class WrittenGradients(Ensemble):
    """M networks of a class with ``stacked_outputs`` and ``stacked_gradients``.

    A step of a small network by autograd is mostly bookkeeping: of a diagonal one it takes four times as long.
    """

    def __init__(
        self,
        networks: Sequence[nn.Module],
        form: ClosedForm,
        *,
        frozen: Sequence[str],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        super().__init__(networks, frozen=frozen, dtype=dtype, device=device)
        self._form = form

    def floats_per_sample(self, sample: Tensor) -> int:
        return self.logits(sample).numel()

    def forward(self, x: Tensor, *, own: bool) -> tuple[Tensor, Any]:
        return self._form.stacked_outputs(self.weights, x, own)

    def backward(self, kept: Any, slopes: Tensor, *, onto: Mapping[str, Tensor]) -> None:
        if not self.trained:
            return
        found = self._form.stacked_gradients(self.weights, kept, slopes)
        torch._foreach_add_([onto[name] for name in self.trained], [found[name] for name in self.trained])
