"""Networks of any architecture as one: the module called once, mapped over stacked parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from undertow.core.errors import ModelError
from undertow.core.members import over_members
from undertow.training.ensemble import Ensemble
from undertow.training.stacked import StackedMLP, dense_layers

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
        self._template.train(networks[0].training and not self.batch_statistics)
        # Also once statistics are frozen: captured steps of either kind are then made of the same kernels.
        self._apply = over_members(self._template, one_by_one=self.batch_statistics)

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
        return self._map(self.weights, x, own=False)

    def forward(self, x: Tensor, *, own: bool) -> tuple[Tensor, tuple[Tensor, list[Tensor]]]:
        leaves = {name: weight.detach() for name, weight in self.weights.items()}
        trained = [leaves[name].requires_grad_() for name in self.trained]
        self._template.train(self._template.training or self.batch_statistics)
        try:
            with torch.enable_grad():
                logits = self._map(leaves, x, own=own)
        finally:
            if self.batch_statistics:
                self._template.eval()
        return logits.detach(), (logits, trained)

    def backward(
        self, kept: tuple[Tensor, list[Tensor]], slopes: Tensor, *, onto: Mapping[str, Tensor]
    ) -> None:
        logits, trained = kept
        if trained:
            for name, gradient in zip(
                self.trained, torch.autograd.grad(logits, trained, slopes), strict=True
            ):
                onto[name].add_(gradient)

    def _map(self, weights: dict[str, Tensor], x: Tensor, *, own: bool) -> Tensor:
        logits = self._apply(weights, self.buffers, x, own)
        if logits.dim() != 3:
            raise ModelError(
                f"The network turns {x.shape[1 if own else 0]} samples into shape {tuple(logits.shape[1:])}: "
                "training wants logits of shape (N, k), with k = 1 for one logit."
            )
        return logits


def stack_networks(
    networks: Sequence[nn.Module], *, frozen: Sequence[str], dtype: torch.dtype, device: torch.device
) -> Ensemble:
    """Networks of one architecture as one: fully connected ones on stacked weights, any other ones mapped."""
    layers = dense_layers(networks[0])
    if layers is None:
        return MappedNetworks(networks, frozen=frozen, dtype=dtype, device=device)
    return StackedMLP(networks, layers, frozen=frozen, dtype=dtype, device=device)
