"""Networks of any architecture as one: the module called once, mapped over stacked parameters."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from undertow.core.compiling import compiled
from undertow.core.errors import ModelError
from undertow.core.members import Aside, convolves, one_after_another, over_members
from undertow.core.networks import is_unmodified
from undertow.core.patch_convolution import patch_numbers, stacked_chain
from undertow.core.weight_gradients import first_weight_gradients
from undertow.training.ensemble import Ensemble
from undertow.training.stacked import DenseLayer, StackedLayers, dense_layers

__all__ = ["MappedNetworks", "is_patch_chain"]

_BATCH_NORMS = (nn.modules.batchnorm._BatchNorm,)
_DROPOUTS = (nn.modules.dropout._DropoutNd,)
_MOST_PATCHES = 2**27  # numbers in the patches of a pass that keeps nothing for gradients
_ROUND = 500  # such a pass takes a multiple of so many samples


class MappedNetworks(Ensemble):
    """M networks of one architecture, one module applied over their stacked weights; gradients by autograd.

    Fully connected layers at the end of a convolutional network are left out of that: all members' are one product.
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
        convolved = convolves(self._template)
        head, layers = _before_dense(self._template) if convolved else (self._template, [])
        self._tail = StackedLayers(layers, self.weights, self.trained) if layers else None
        self._recorded_names = [name for name, _ in head.named_parameters()]
        self._recorded_trained = [name for name in self.trained if name in set(self._recorded_names)]
        chain = stacked_chain(head) if faster else None
        self._chain = None if chain is None else compiled(chain)
        self._head = head
        glance = None if chain is None else stacked_chain(head, most=_MOST_PATCHES)
        self._glance = None if glance is None else compiled(glance)
        self._at_once: int | None = None
        apart = self._chain is None and (self.batch_statistics or convolved)
        self._each = one_after_another(head, faster=faster) if apart else None

    def on(self, weights: Mapping[str, Tensor]) -> MappedNetworks:
        """The same functions of other weights of the same shapes, which are not copied: what is compiled is so once."""
        other = copy.copy(self)
        other.weights = dict(weights)
        if self._tail is not None:
            other._tail = StackedLayers(self._tail.layers, other.weights, other.trained)
        return other

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
        """Logits (M, B, k) of samples (B, …); of many by the compiled products of patches, where there are such."""
        size = 0 if self._glance is None else self._glance_size(x[:1])
        if not 0 < size <= len(x):
            return self.outputs(self.weights, x, own=False)
        # One size, which is compiled once: the last pass takes some samples again that the one before had.
        starts = [*range(0, len(x) - size, size), len(x) - size]
        parts = [self._logits_at_once(x[start : start + size]) for start in starts]
        parts[-1] = parts[-1][:, size * len(starts) - len(x) :]
        return torch.cat(parts, dim=1)

    def _glance_size(self, sample: Tensor) -> int:
        if self._at_once is None:
            self._at_once = _MOST_PATCHES // patch_numbers(self._head, sample) // _ROUND * _ROUND
        return self._at_once

    def _logits_at_once(self, x: Tensor) -> Tensor:
        assert self._glance is not None, "only where there are compiled products"
        own = {name: self.weights[name] for name in self._recorded_names}
        found = self._glance(own, x.expand(self.size, *x.shape))
        if self._tail is None:
            return found
        return self._tail.forward(found.transpose(1, 2))[0].transpose(1, 2)

    def forward(self, x: Tensor, *, own: bool) -> tuple[Tensor, _Kept]:
        recorded = self._recorded_in_train_mode if self.batch_statistics else self._recorded
        found, trained = recorded(x, own=own)
        if self._tail is None:
            return found.detach(), (found, trained, None)
        outputs, kept = self._tail.forward(found.detach().transpose(1, 2))
        return outputs.transpose(1, 2), (found, trained, kept)

    def backward(self, kept: _Kept, slopes: Tensor, *, onto: Mapping[str, Tensor]) -> None:
        found, trained, dense = kept
        aside = Aside(slopes)
        if self._tail is not None and dense is not None:
            below = self._tail.backward(
                dense, slopes.transpose(1, 2), onto=onto, through=bool(trained), aside=aside
            )
            slopes = below.transpose(1, 2)
        if trained:
            places = [onto[name] for name in self._recorded_trained]
            if self._each is not None:
                places = [place[member] for member in range(self.size) for place in places]
            torch._foreach_add_(places, torch.autograd.grad(found, trained, slopes))
        aside.wait()

    def _recorded_in_train_mode(self, x: Tensor, *, own: bool) -> tuple[Tensor, list[Tensor]]:
        for module in self._in_train_mode:
            module.training = True
        try:
            return self._recorded(x, own=own)
        finally:
            self._template.eval()

    @torch.enable_grad()
    @first_weight_gradients()
    def _recorded(self, x: Tensor, *, own: bool) -> tuple[Tensor, list[Tensor]]:
        """What autograd has recorded, logits or what dense layers make them of, and the leaves that it depends on."""
        weights = {name: self.weights[name] for name in self._recorded_names}
        if self._each is None:
            leaves = {name: weight.detach() for name, weight in weights.items()}
            trained = [leaves[name].requires_grad_() for name in self._recorded_trained]
            if self._chain is not None:
                return self._chain(leaves, x if own else x.expand(self.size, *x.shape)), trained
            return self.outputs(leaves, x, own=own), trained
        states = [{name: weight[i].detach() for name, weight in weights.items()} for i in range(self.size)]
        trained = [state[name].requires_grad_() for state in states for name in self._recorded_trained]
        buffers = [{name: buffer[i] for name, buffer in self.buffers.items()} for i in range(self.size)]
        return self._each(states, buffers, x, own), trained


_Kept = tuple[Tensor, list[Tensor], "list[tuple[Tensor, Tensor]] | None"]


def is_patch_chain(network: nn.Module) -> bool:
    """Whether all that comes before its fully connected layers can be compiled as products of patches."""
    return convolves(network) and stacked_chain(_before_dense(network)[0]) is not None


def _before_dense(network: nn.Module) -> tuple[nn.Module, list[DenseLayer]]:
    """What comes before the fully connected layers that a chain ends with, and these; all and none elsewhere.

    >>> head, layers = _before_dense(nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 3), nn.ReLU()))
    >>> len(head), [layer.weight for layer in layers]
    (2, ['2.weight'])
    """
    if type(network) is not nn.Sequential or not is_unmodified(network):
        return network, []
    modules = list(network.named_children())
    flat = [place for place, (_, module) in enumerate(modules) if type(module) is nn.Flatten]
    if not flat or flat[-1] + 1 == len(modules):
        return network, []
    head, tail = (
        nn.Sequential(OrderedDict(part)) for part in (modules[: flat[-1] + 1], modules[flat[-1] + 1 :])
    )
    layers = dense_layers(tail)
    parts = [*head.named_parameters(), *tail.named_parameters()]
    shared = len(parts) > len(list(network.parameters()))
    return (network, []) if layers is None or shared or any(True for _ in tail.buffers()) else (head, layers)
