"""Adversarial examples for a page: pixels in a byte each, where the inputs are square pictures."""

from __future__ import annotations

import base64
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from undertow.adversary.examples import Examples

__all__ = ["picture_pairs", "picture_shape"]


def picture_shape(inputs: int) -> tuple[int, int] | None:
    """(channels, side) of inputs that can be shown as a square picture, grey or in three colours.

    >>> picture_shape(784), picture_shape(3072), picture_shape(10)
    ((1, 28), (3, 32), None)
    """
    for channels in (1, 3):
        side = math.isqrt(inputs // channels)
        if channels * side * side == inputs and side >= 4:
            return channels, side
    return None


def picture_pairs(examples: Examples, *, most: int) -> dict[str, Any] | None:
    """The first ``most`` examples as plain data; None where the inputs are no pictures.

    A perturbation is far smaller than a pixel's range, so it is kept apart, on a scale of its own: the example
    is the clean picture plus perturbation · ``stretch``.
    """
    count = min(most, len(examples.x))
    clean = examples.x[:count].flatten(1)
    shape = picture_shape(clean.shape[1])
    if shape is None or not count:
        return None
    change = examples.adversarial[:count].flatten(1) - clean
    low = clean.amin(1, keepdim=True)
    span = (clean.amax(1, keepdim=True) - low).clamp(min=1e-12)
    pixels = ((clean - low) / span * 255).round().byte()
    stretch = (change / span).abs().amax(1, keepdim=True).clamp(min=1e-12)
    signed = (change / span / stretch * 127).round().char()
    return {
        "channels": shape[0],
        "side": shape[1],
        "pixels": base64.b64encode(pixels.numpy().tobytes()).decode(),
        "change": base64.b64encode(signed.numpy().tobytes()).decode(),
        "stretch": [round(value, 6) for value in stretch.flatten().tolist()],
        "label": examples.label[:count].tolist(),
        "predicted": examples.predicted[:count].tolist(),
        "distance": [round(d, 5) if math.isfinite(d) else None for d in examples.distance[:count].tolist()],
    }
