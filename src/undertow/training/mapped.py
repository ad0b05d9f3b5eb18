"""Networks of any architecture as one: the module called once, mapped over stacked parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from undertow.core.closed_form import has_closed_form
from undertow.core.errors import ModelError
from undertow.core.members import convolves, one_after_another, over_members
from undertow.training.ensemble import Ensemble
from undertow.training.stacked import StackedMLP, dense_layers
from undertow.training.written import WrittenGradients

__all__ = ["MappedNetworks", "stack_networks"]

_BATCH_NORMS = (nn.modules.batchnorm._BatchNorm,)
_DROPOUTS = (nn.modules.dropout._DropoutNd,)


class MappedNetworks(Ensemble):
    """M networks of one architecture, one module applied over their stacked weights; gradients by autograd.

    The networks run in the mode they were given in. Dropout in train mode is refused: it would draw from an unseeded
    generator. BatchNorm in train mode normalises each step by its batch and moves its running statistics; whoever
    only looks (losses, measures) sees the network with those, as in eval mode, and changes nothing.
    """

    room_without_gradients = 16  # one layer of one member at a time

    def __init__(
        self,
        networks: Sequence[nn.Module],
        *,
        frozen: Sequence[str],
        dtype: torch.dtype,
        device: torch.device,
        faster: bool = False,
    ) -> None:
        for name, module in networks[0].named_modules():
            if module.training and isinstance(module, _DROPOUTS) and module.p > 0:
                raise ModelError(
                    f"{name!r} is a Dropout in train mode, whose draws no seed decides here: "
                    "call network.eval() before training, or build the network without it."
                )
        super().__init__(networks, frozen=frozen, dtype=dtype, device=device)
        self.batch_statistics = any(
            module.training and isinstance(module, _BATCH_NORMS) for module in networks[0].modules()
        )
        self._in_train_mode = [module for module in self._template.modules() if module.training]
        if self.batch_statistics:
            self._template.eval()
        # Also once statistics are frozen: captured steps of either kind are then made of the same kernels.
        self._apply = over_members(self._template, one_by_one=self.batch_statistics)
        # Gradients by each member's own weights are added where they belong: of a stack they would be copied first.
        apart = self.batch_statistics or convolves(self._template)
        self._each = one_after_another(self._template, faster=faster) if apart else None

    def floats_per_sample(self, sample: Tensor) -> int:
        sizes: list[int] = []

        def note(module: nn.Module, inputs: object, output: object) -> None:  # noqa: ARG001
            sizes.append(output.numel() if isinstance(output, Tensor) else 0)

        # A Sequential gives what its last child gave, which has been counted.
        modules = [each for each in self._template.modules() if not isinstance(each, nn.Sequential)]
        hooks = [module.register_forward_hook(note) for module in modules]
        try:
            with torch.no_grad():
                self._template(sample)
        finally:
            for hook in hooks:
                hook.remove()
        return self.size * max(1, sum(sizes))

    @torch.no_grad()
    def logits(self, x: Tensor) -> Tensor:
        return self.outputs(self.weights, x, own=False)

    def forward(self, x: Tensor, *, own: bool) -> tuple[Tensor, tuple[Tensor, list[Tensor]]]:
        if not self.batch_statistics:
            logits, trained = self._recorded(x, own=own)
            return logits.detach(), (logits, trained)
        for module in self._in_train_mode:
            module.training = True
        try:
            logits, trained = self._recorded(x, own=own)
        finally:
            self._template.eval()
        return logits.detach(), (logits, trained)

    def backward(
        self, kept: tuple[Tensor, list[Tensor]], slopes: Tensor, *, onto: Mapping[str, Tensor]
    ) -> None:
        logits, trained = kept
        if not trained:
            return
        places = [onto[name] for name in self.trained]
        if self._each is not None:
            places = [place[member] for member in range(self.size) for place in places]
        torch._foreach_add_(places, torch.autograd.grad(logits, trained, slopes))

    @torch.enable_grad()
    def _recorded(self, x: Tensor, *, own: bool) -> tuple[Tensor, list[Tensor]]:
        """Logits for autograd, and the leaves that they depend on: of each member, or of all as one."""
        if self._each is None:
            leaves = {name: weight.detach() for name, weight in self.weights.items()}
            trained = [leaves[name].requires_grad_() for name in self.trained]
            return self.outputs(leaves, x, own=own), trained
        states = [
            {name: weight[i].detach() for name, weight in self.weights.items()} for i in range(self.size)
        ]
        trained = [state[name].requires_grad_() for state in states for name in self.trained]
        buffers = [{name: buffer[i] for name, buffer in self.buffers.items()} for i in range(self.size)]
        return self._each(states, buffers, x, own), trained


def stack_networks(
    networks: Sequence[nn.Module],
    *,
    frozen: Sequence[str],
    dtype: torch.dtype,
    device: torch.device,
    faster: bool = False,
) -> Ensemble:
    """Networks of one architecture as one: those with written gradients on stacked weights, any other ones mapped.

    With ``faster`` convolutional networks are compiled.
    """
    if has_closed_form(networks[0]):
        return WrittenGradients(networks, networks[0], frozen=frozen, dtype=dtype, device=device)
    layers = dense_layers(networks[0])
    if layers is None:
        return MappedNetworks(networks, frozen=frozen, dtype=dtype, device=device, faster=faster)
    return StackedMLP(networks, layers, frozen=frozen, dtype=dtype, device=device)
