"""What a probe measures: the network in training as a function of one tensor, and its points as they are now."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from undertow.core.adapting import MeasuredElsewhere, adapted
from undertow.core.inference import with_derivatives
from undertow.core.network_copies import copy_in
from undertow.core.outputs import OutputChoice
from undertow.core.telling import tell
from undertow.core.unwrapping import unwrapped
from undertow.probe.checks import check_dtype
from undertow.probe.preserve_state import preserve_state

__all__ = ["MeasuredNetwork", "in_dtype"]

_COARSE = (torch.float16, torch.bfloat16)


class MeasuredNetwork:
    """A network and the points that it is measured on, the same ones every time.

    Where the network is trained in half precision it is copied into ``dtype``, float32 unless told otherwise. Token
    ids are embedded anew at every moment, as the embedding is trained too.
    """

    def __init__(
        self,
        net: nn.Module,
        x: Tensor,
        y: Tensor | None,
        *,
        dtype: torch.dtype | None = None,
        output: OutputChoice = None,
        extras: Mapping[str, Any] | None = None,
    ) -> None:
        check_dtype(dtype)
        self.net = unwrapped(net)
        if dtype is None and any(t.dtype in _COARSE for t in (*self.net.parameters(), x)):
            dtype = torch.float32
        self.dtype = dtype
        self.x, self.y = with_derivatives(in_dtype(dtype, x)), y
        self.output, self.extras = output, dict(extras or {})
        self._as_it_is: bool | None = None  # known after the first look
        self._order: Tensor | None = None
        self.diverged = False

    def seen(self) -> nn.Module:
        """The network itself, or its copy in the dtype asked for."""
        return self.net if self.dtype is None else copy_in(self.net, self.dtype)

    def finite(self, seen: nn.Module, step: int) -> bool:
        """Whether there is something to measure; where the network has diverged, that is said once."""
        if all(bool(torch.isfinite(parameter).all()) for parameter in seen.parameters()):
            return True
        if not self.diverged:
            tell(
                f"the network has weights that are NaN or infinite, at step {step}: the probe measures nothing "
                "while it has."
            )
        self.diverged = True
        return False

    def now(
        self, net: nn.Module, points: int | None = None, *, of: int | None = None
    ) -> tuple[nn.Module, Tensor, Tensor | None]:
        """What measures are given of ``net``: a function of one tensor, some or all of the points, their labels.

        So many ``points`` are drawn at random of the first ``of``; of all, where that is None.
        """
        x, y, extras = self.x, self.y, self.extras
        if points is not None and points < len(x):
            if self._order is None:  # points may come sorted by class; each subset holds the smaller ones
                self._order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
            among = self._order if of is None else self._order[self._order < of]
            index = (among if points < len(among) else torch.arange(points))[:points].to(x.device)
            x, y = x[index], None if y is None else y[index.to(y.device)]
            extras = {
                name: extra[index.to(extra.device)] if isinstance(extra, Tensor) else extra
                for name, extra in extras.items()
            }
        if self._as_it_is:
            return net, x, y
        with preserve_state(net), warnings.catch_warnings():
            if self._as_it_is is not None:
                warnings.simplefilter("ignore", MeasuredElsewhere)  # it has been said
            found, x = adapted(net, x, output=self.output, extras=extras)
        self._as_it_is = found is net
        return found, x, y


def in_dtype(dtype: torch.dtype | None, points: Tensor) -> Tensor:
    """Points in the dtype asked for; whole numbers, such as tokens, stay what they are."""
    return points if dtype is None or not points.is_floating_point() else points.to(dtype)
