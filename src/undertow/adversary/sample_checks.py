"""Refusals, in a sentence, of what would otherwise give wrong numbers."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from undertow.core.errors import InputError, ModelError
from undertow.core.plain_words import check_tensor

if TYPE_CHECKING:
    from undertow.adversary.scorer import Scorer

__all__ = ["as_labels", "check_inputs"]


def as_labels(y: Tensor, x: Tensor) -> Tensor:
    """Integer labels as int64 beside x; anything else unchanged, for `check_inputs` to refuse."""
    check_tensor(x)
    check_tensor(y, "y")
    integer = not (y.is_floating_point() or y.is_complex() or y.dtype == torch.bool)
    return y.to(x.device, torch.int64) if integer else y


def check_inputs(scorer: Scorer, x: Tensor, y: Tensor | None) -> None:
    """Refuse, in a sentence, what would otherwise give wrong numbers."""
    if not bool(x.isfinite().all()):
        raise InputError("x holds NaN or infinite values: remove those samples first")
    if scorer.bounds is not None:
        lower, upper = scorer.bounds
        outside = ((x < lower) | (x > upper)).flatten(1).any(1)
        if bool(outside.any()):
            raise InputError(
                f"{int(outside.sum())} of {len(x)} samples leave the declared bounds [{lower}, {upper}] (x "
                f"spans [{x.min():.4g}, {x.max():.4g}]): pass raw inputs and give mean and std to the "
                "Classifier, or correct bounds"
            )
    if y is not None:
        _check_labels(y, len(x), scorer.classes)
    first, again = scorer.clean(x), scorer.clean(x[:64])
    if not bool(first.isfinite().all()):
        raise ModelError("the network returns NaN or infinite logits on these inputs: check its weights")
    if not torch.allclose(first[:, :64], again, rtol=1e-4, atol=1e-4 * float(first.abs().amax())):
        raise ModelError(
            "the network gives different outputs for the same input, and an attack would measure noise: "
            "remove the randomness, or fix its seed inside forward; a layer in train mode needs net.eval()"
        )
    _warn_about_probabilities(scorer, first, y)


def _check_labels(y: Tensor, samples: int, classes: int) -> None:
    if y.ndim != 1 or len(y) != samples or y.is_floating_point() or y.dtype == torch.bool:
        raise InputError(
            f"y must be {samples} integer labels; got shape {tuple(y.shape)} of {y.dtype} (labels −1/+1 "
            "become 0/1 by y = (y > 0).long())"
        )
    if bool(((y < 0) | (y >= classes)).any()):
        raise InputError(
            f"labels span {int(y.min())} … {int(y.max())}, but the classifier has classes 0 … {classes - 1}"
        )


def _warn_about_probabilities(scorer: Scorer, scores: Tensor, y: Tensor | None) -> None:
    if float(scores.amin()) < 0 or float(scores.amax()) > 1:
        return
    one_logit = scorer.readout is not None and scorer.readout.shape[1] == 1
    both_labels = y is not None and bool((y != y[0]).any()) and len(y) >= 8
    if (one_logit and both_labels) or (not one_logit and bool(((scores.sum(-1) - 1).abs() < 1e-4).all())):
        warnings.warn(
            "the network seems to return probabilities; attacks need logits: remove its softmax or sigmoid",
            UserWarning,
            stacklevel=2,
        )
