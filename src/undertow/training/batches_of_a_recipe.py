"""Samples and labels as a recipe wants them: in its precision, where the networks are, cut into its batches."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from undertow.core.errors import InputError
from undertow.core.losses import prepare_labels
from undertow.training.batches import Batches
from undertow.training.ensemble import Ensemble
from undertow.training.recipe import Recipe

__all__ = ["batches_for"]


def batches_for(
    ensemble: Ensemble,
    x: Tensor | Sequence[Tensor],
    y: Tensor | Sequence[Tensor],
    recipes: Sequence[Recipe],
) -> Batches:
    """Batches of x (N, …) and y (N,) or (N, k) for networks with these recipes, which share all but rate and seed.

    As sequences x and y are each network's own samples and labels, of one shape.
    """
    recipe, shared = recipes[0], isinstance(x, Tensor) and isinstance(y, Tensor)
    samples = [x] if isinstance(x, Tensor) and shared else list(x)
    labels = [y] if isinstance(y, Tensor) and shared else list(y)
    _check_shapes(samples, labels, 1 if shared else ensemble.size)
    outputs = ensemble.logits(samples[0][:1].to(device=ensemble.device, dtype=recipe.torch_dtype)).shape[-1]
    found = [_labels(each.detach(), recipe, outputs) for each in labels]
    return Batches(
        _put(samples, ensemble, recipe.torch_dtype, own=not shared),
        _put(found, ensemble, found[0].dtype, own=not shared),
        size=recipe.batch_size,
        seeds=[each.seed for each in recipes] if recipe.shuffle else None,
        apart=recipe.rate.revocable,
        numbered=recipe.penalty is not None and recipe.penalty.remembers,
        label_noise=recipe.label_noise,
        own=not shared,
    )


def _check_shapes(x: Sequence[Tensor], y: Sequence[Tensor], count: int) -> None:
    if len(x) != count or len(y) != count:
        raise InputError(
            f"There are {count} networks and {len(x)} data sets: pass one for each, or one for all."
        )
    for samples, labels in zip(x, y, strict=True):
        if samples.dim() < 2 or samples.shape[0] != labels.shape[0]:
            raise InputError(
                f"x has shape {tuple(samples.shape)}, y {tuple(labels.shape)}: pass samples (N, …), labels (N,)."
            )
        if samples.shape != x[0].shape:
            raise InputError(
                f"Data sets of networks that train together have one shape, and there are {tuple(x[0].shape)} and "
                f"{tuple(samples.shape)}: train them apart."
            )


def _labels(y: Tensor, recipe: Recipe, outputs: int) -> Tensor:
    y = prepare_labels(y, loss=recipe.loss, outputs=outputs, dtype=recipe.torch_dtype)
    if recipe.label_noise and not y.is_floating_point():
        y = functional.one_hot(y, outputs).to(recipe.torch_dtype)  # classes have no room for noise
    return y


def _put(tensors: Sequence[Tensor], ensemble: Ensemble, dtype: torch.dtype, *, own: bool) -> Tensor:
    there = [each.detach().to(device=ensemble.device, dtype=dtype) for each in tensors]
    return torch.stack(there) if own else there[0]
