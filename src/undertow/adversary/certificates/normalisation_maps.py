"""Normalisations as the operations that bounds can be carried through."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from undertow.adversary.certificates.aten_rules import Template
from undertow.adversary.certificates.recorded_graph import UnreadableError

if TYPE_CHECKING:
    from undertow.adversary.certificates.graph_builder import GraphBuilder

__all__ = ["BATCH_NORMS", "MIXED", "batch_norm", "layer_norm"]

BATCH_NORMS = ("native_batch_norm", "_native_batch_norm_legit_no_training", "cudnn_batch_norm")
MIXED = "a normalisation by the batch's own statistics mixes its samples"


def batch_norm(builder: GraphBuilder, template: Template) -> int:
    """(v − mean)/√(variance + ε)·weight + bias, with the running statistics."""
    weight, bias, mean, variance = (template.argument(position) for position in range(1, 5))
    training = template.argument(5) if template.name != "_native_batch_norm_legit_no_training" else False
    if training or mean is None or variance is None:
        raise UnreadableError(MIXED)
    eps = template.leaves[-1] if isinstance(template.leaves[-1], float) else 1e-5
    scale = (variance + eps).rsqrt() * (1.0 if weight is None else weight)
    shift = (0.0 if bias is None else bias) - mean * scale
    axes = (-1, *(1,) * (len(template.shapes[0]) - 2))
    scale, shift = scale.reshape(axes), shift.reshape(axes)
    return builder.made(
        template.inputs[0],
        lambda v: v * scale + shift,
        lambda m: m * scale.abs() + shift.abs(),
        kind=("batch norm",),
        constants=(scale, shift),
        entrywise=True,
    )


def layer_norm(builder: GraphBuilder, template: Template) -> int:
    """(v − mean)/√(variance + ε)·weight + bias over the last axes."""
    width, shape = len(template.argument(1)), template.shapes[0]
    weight, bias, eps = (template.argument(position) for position in (2, 3, 4))
    axes = tuple(range(-width, 0))
    centred = builder.made(
        template.inputs[0],
        lambda v: v - v.mean(axes, keepdim=True),
        lambda m: m + m.mean(axes, keepdim=True),
        kind=("centred", axes),
    )
    squared = builder.curve(centred, "square")
    variance = builder.made(
        squared,
        lambda v: v.mean(axes, keepdim=True) + eps,
        lambda m: m.mean(axes, keepdim=True) + eps,
        kind=("mean", axes, eps),
    )
    # the mean of squares is at least 0 however loose its bounds are
    inverse = builder.curve(builder.curve(variance, "clamp", (eps, torch.inf)), "rsqrt")
    product = builder.product((centred, inverse), shape, matrices=False)
    one = torch.ones((), dtype=torch.float64, device=builder.device)
    scale, shift = one if weight is None else weight, 0 * one if bias is None else bias
    return builder.made(
        product,
        lambda v: v * scale + shift,
        lambda m: m * scale.abs() + shift.abs(),
        kind=("scaled",),
        constants=(scale, shift),
    )
