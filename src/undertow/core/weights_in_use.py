"""The weights that a layer multiplies with, where its parameters are something that they are made of."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn
from torch.nn.utils.parametrize import ParametrizationList, is_parametrized
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

__all__ = ["weights_in_use"]


def weights_in_use(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Name and tensor of the module's own parameters; in the place of what a parametrisation has, what it makes of it.

    W = g v/‖v‖ of weight normalisation, in either of torch's ways, and not g and v; of a pruned layer what its mask
    leaves. Nothing in the module changes.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    >>> [(name, tuple(tensor.shape)) for name, tensor in weights_in_use(layer)]
    [('weight', (2, 3)), ('bias', (2,))]
    """
    if isinstance(module, ParametrizationList):
        return  # its parameters are those of the module that it belongs to
    made = dict(_parametrised(module))
    parts: set[str] = set()
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, WeightNorm):
            made[hook.name] = hook.compute_weight(module)
            parts |= {f"{hook.name}_g", f"{hook.name}_v"}
        elif isinstance(hook, SpectralNorm):
            made[hook.name] = hook.compute_weight(module, do_power_iteration=False)
            parts |= {f"{hook.name}_orig"}
        elif isinstance(hook, BasePruningMethod):
            made[hook._tensor_name] = hook.apply_mask(module)  # type: ignore[no-untyped-call]
            parts |= {f"{hook._tensor_name}_orig"}
    yield from made.items()
    for name, parameter in module.named_parameters(recurse=False):
        if name not in parts and name not in made:
            yield name, parameter


def _parametrised(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    if not is_parametrized(module):
        return
    lists = module.parametrizations
    assert isinstance(lists, nn.ModuleDict)
    modes = [(each, each.training) for each in lists.modules()]
    try:
        lists.eval()  # in train mode a spectral norm takes a step of its iteration whenever it is looked at
        for name in lists:
            value = getattr(module, name)
            assert isinstance(value, Tensor)
            yield name, value
    finally:
        for each, training in modes:
            each.training = training
