"""Samples and labels as a recipe wants them: in its precision, where the networks are, cut into its batches."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor
from torch.nn import functional

from undertow.core.errors import InputError
from undertow.core.losses import prepare_labels
from undertow.training.batches import Batches
from undertow.training.ensemble import Ensemble
from undertow.training.recipe import Recipe

__all__ = ["batches_for"]


def batches_for(ensemble: Ensemble, x: Tensor, y: Tensor, recipes: Sequence[Recipe]) -> Batches:
    """Batches of x (N, …) and y (N,) or (N, k) for networks with these recipes, which share all but rate and seed."""
    if x.dim() < 2 or x.shape[0] != y.shape[0]:
        raise InputError(
            f"x has shape {tuple(x.shape)}, y {tuple(y.shape)}: pass samples (N, …), labels (N,)."
        )
    recipe = recipes[0]
    x = x.detach().to(device=ensemble.device, dtype=recipe.torch_dtype)
    outputs = ensemble.logits(x[:1]).shape[-1]
    y = prepare_labels(y.detach(), loss=recipe.loss, outputs=outputs, dtype=recipe.torch_dtype)
    if recipe.label_noise and not y.is_floating_point():
        y = functional.one_hot(y, outputs).to(recipe.torch_dtype)  # classes have no room for noise
    return Batches(
        x,
        y.to(ensemble.device),
        size=recipe.batch_size,
        seeds=[each.seed for each in recipes] if recipe.shuffle else None,
        apart=recipe.rate.revocable,
        numbered=recipe.penalty is not None and recipe.penalty.remembers,
        label_noise=recipe.label_noise,
    )
